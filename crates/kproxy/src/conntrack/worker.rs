//! The thread: when to look.
//!
//! A change is looked into at once, then once more when no packet that saw the rules before it can be
//! on its way any more. Between passes it rests in proportion, so that churn costs no more than a
//! share of one CPU; and from time to time it looks through everything, slowly.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use nft_batch::{OpenError, Transport};
use svc_planner::plan::Family;

use super::counters::{Counters, Totals};
use super::cut::Cuts;
use super::entry::Entry;
use super::exchange::Exchange;
use super::mailbox::Mailbox;
use super::pass::{Pass, Sockets, cpu_time};
use super::{ConntrackError, Frontends};
use crate::lower::nf_family;

/// Times between passes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// After this no packet is on its way that met the rules before a change.
    pub(super) hold: Duration,
    /// Rests so many times the CPU time that a pass took.
    pub(super) rests: u32,
    /// But not longer than this.
    pub(super) longest_rest: Duration,
    /// The same within a pass for which there is no hurry.
    pub(super) slow: u32,
    /// From one look through everything to the next.
    pub(super) full: Duration,
    /// After a failure.
    pub(super) retry: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            hold: Duration::from_secs(1),
            rests: 4,
            longest_rest: Duration::from_secs(5),
            slow: 9,
            full: Duration::from_secs(600),
            retry: Duration::from_secs(30),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Worker<T, F> {
    family: Family,
    mailbox: Mailbox,
    counters: Arc<Counters>,
    pace: Pace,
    frontends: Frontends,
    sockets: Option<Sockets<T>>,
    reopen: F,
    cuts: Cuts,
    stale: Vec<Entry>,
    /// Number and beginning of the last pass after which there was another one, and it went well.
    complete: Option<(u64, Instant)>,
    /// Not before this.
    earliest: Instant,
    next_full: Option<Instant>,
    /// The failure that was last logged as such.
    failure: Option<ConntrackError>,
}

impl<T, F> Worker<T, F>
where
    T: Transport,
    F: FnMut() -> Result<[T; 2], OpenError>,
{
    pub(super) fn new(
        family: Family,
        mailbox: Mailbox,
        counters: Arc<Counters>,
        pace: Pace,
        sockets: [T; 2],
        reopen: F,
    ) -> Self {
        Self {
            family,
            mailbox,
            counters,
            pace,
            frontends: Frontends::default(),
            sockets: Some(exchanges(sockets, family)),
            reopen,
            cuts: Cuts::default(),
            stale: Vec::new(),
            complete: None,
            earliest: Instant::now(),
            next_full: None,
            failure: None,
        }
    }

    /// Works until the mailbox is closed, and does what is left to do then.
    pub(super) fn run(mut self) {
        loop {
            let closed = self.mailbox.is_closed();
            if let Some(news) = self.mailbox.take() {
                self.frontends.take(news);
            }
            let now = Instant::now();
            if closed {
                if self.frontends.has_news() {
                    self.pass(now, false);
                }
                return;
            }
            match self.next_time() {
                Some((time, full)) if time <= now => self.pass(now, full),
                next => {
                    self.mailbox.wait(next.map(|(time, _)| time));
                }
            }
        }
    }

    /// When to look next, and whether through everything.
    fn next_time(&self) -> Option<(Instant, bool)> {
        let recent = if self.frontends.has_news() {
            Some(self.earliest)
        } else if self.frontends.has_recent() || !self.cuts.is_empty() {
            let hold = self.complete.map(|(_, begin)| begin + self.pace.hold);
            Some(hold.map_or(self.earliest, |hold| hold.max(self.earliest)))
        } else {
            None
        };
        let full = self.next_full.map(|time| time.max(self.earliest));
        match (recent, full) {
            (Some(recent), Some(full)) if full <= recent => Some((full, true)),
            (Some(recent), _) => Some((recent, false)),
            (None, full) => Some((full?, true)),
        }
    }

    fn pass(&mut self, begin: Instant, full: bool) {
        let number = self.frontends.begin_pass();
        let cpu = cpu_time();
        let mut totals = Totals::default();
        let result = self.look(number, full, &mut totals);
        match &result {
            Ok(()) => {
                totals.passes = 1;
                self.note_complete(number, begin);
            }
            Err(_) => {
                totals.failures = 1;
                // Replies to what was asked may still come.
                self.sockets = None;
            }
        }
        self.counters.add(self.family, &totals);
        self.log(&totals, result.as_ref().err());
        let end = Instant::now();
        let rest = match result {
            Ok(()) => {
                let work = cpu_time().saturating_sub(cpu);
                let rest = work.saturating_mul(self.pace.rests);
                rest.min(self.pace.longest_rest)
            }
            // Nobody will bring it soon.
            Err(ConntrackError::Missing) => self.pace.full,
            Err(_) => self.pace.retry,
        };
        self.earliest = end + rest;
        if full || self.next_full.is_none() {
            self.next_full = Some(end + self.pace.full);
        }
    }

    fn look(&mut self, number: u64, full: bool, totals: &mut Totals) -> Result<(), ConntrackError> {
        if self.sockets.is_none() {
            self.sockets = Some(exchanges((self.reopen)()?, self.family));
        }
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        let (scope, rests) = if full {
            (self.frontends.full_scope(), self.pace.slow)
        } else {
            (self.frontends.recent_scope(), 0)
        };
        let mut pass = Pass {
            sockets,
            frontends: &mut self.frontends,
            mailbox: &self.mailbox,
            cuts: &mut self.cuts,
            number,
            stale: &mut self.stale,
            rests,
            totals: *totals,
        };
        let result = pass.run(scope);
        *totals = pass.totals;
        result
    }

    /// Forgets what was looked for twice, the second time when nothing could come after it.
    fn note_complete(&mut self, number: u64, begin: Instant) {
        match self.complete {
            Some((_, before)) if begin < before + self.pace.hold => {}
            Some((before, _)) => {
                self.frontends.forget_before(before);
                self.cuts.forget_before(before);
                self.complete = Some((number, begin));
            }
            None => self.complete = Some((number, begin)),
        }
    }

    /// Failures that go on are logged once.
    fn log(&mut self, totals: &Totals, error: Option<&ConntrackError>) {
        let Totals {
            seen,
            deleted,
            not_deleted,
            busy,
            ..
        } = totals;
        let family = self.family;
        let milliseconds = busy.as_secs_f64() * 1e3;
        if *deleted > 0 {
            tracing::info!(
                "conntrack {family}: {deleted} of {seen} entries were stale: {milliseconds:.1} ms"
            );
        } else {
            tracing::debug!("conntrack {family}: {seen} entries: {milliseconds:.1} ms");
        }
        match error {
            Some(ConntrackError::Closed) | None => {}
            Some(error) if self.failure.as_ref() == Some(error) => {}
            Some(error @ ConntrackError::Missing) => tracing::warn!("{family}: {error}"),
            Some(error) => tracing::error!(
                "{family}: {error}; {not_deleted} stale entries stay; next try in {} s",
                self.pace.retry.as_secs()
            ),
        }
        if error.is_none() && self.failure.is_some() {
            tracing::info!("conntrack {family}: as it should be again");
        }
        self.failure = error.cloned();
    }
}

fn exchanges<T: Transport>([dump, delete]: [T; 2], family: Family) -> Sockets<T> {
    Sockets {
        dump: Exchange::new(dump, nf_family(family)),
        delete: Exchange::new(delete, nf_family(family)),
    }
}

#[cfg(test)]
mod tests;
