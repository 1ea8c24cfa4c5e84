//! One pass: what is stale among the entries that may be concerned is deleted, a datagram at a time.

use core::time::Duration;
use std::time::Instant;

use nft_batch::Transport;
use rustix::time::{ClockId, clock_gettime};
use svc_planner::object::Protocol;

use super::counters::Totals;
use super::cut::Cuts;
use super::entry::Entry;
use super::exchange::{Deleted, Exchange};
use super::mailbox::Mailbox;
use super::scope::{Query, Scope};
use super::{ConntrackError, Frontends, verdict};

/// The sockets of a pass; one dumps while the other deletes.
#[derive(Debug)]
pub(super) struct Sockets<T> {
    pub(super) dump: Exchange<T>,
    pub(super) delete: Exchange<T>,
}

/// One pass.
#[derive(Debug)]
pub(super) struct Pass<'p, T> {
    pub(super) sockets: &'p mut Sockets<T>,
    pub(super) frontends: &'p mut Frontends,
    pub(super) mailbox: &'p Mailbox,
    pub(super) cuts: &'p mut Cuts,
    pub(super) number: u64,
    /// Buffer, empty before and after.
    pub(super) stale: &'p mut Vec<Entry>,
    /// Rests so many times the CPU time it takes, until there is something new.
    pub(super) rests: u32,
    pub(super) totals: Totals,
}

impl<T: Transport> Pass<'_, T> {
    /// Looks through all entries in `scope`.
    pub(super) fn run(&mut self, scope: Scope) -> Result<(), ConntrackError> {
        let begin = Instant::now();
        let mut rested = Duration::ZERO;
        let result = scope
            .queries()
            .try_for_each(|query| self.look_through(query, &mut rested))
            .and_then(|()| self.cuts.verify(&mut self.sockets.delete, self.number))
            .and_then(|deleted| note(&mut self.totals, deleted));
        self.stale.clear();
        self.totals.busy += begin.elapsed().saturating_sub(rested);
        result
    }

    fn look_through(&mut self, query: Query, rested: &mut Duration) -> Result<(), ConntrackError> {
        let Self {
            sockets,
            frontends,
            mailbox,
            cuts,
            number,
            stale,
            rests,
            totals,
        } = self;
        let mut dump = sockets.dump.dump(query)?;
        loop {
            let cpu = cpu_time();
            stale.clear();
            let more = dump.next(|entry| {
                totals.seen += 1;
                if verdict(frontends, &entry) {
                    stale.push(entry);
                }
            })?;
            if !stale.is_empty() {
                // New flows to endpoints we have not heard of yet look like stale ones.
                let news = mailbox.settle().ok_or(ConntrackError::Closed)?;
                if !news.is_empty() {
                    frontends.take(news);
                    stale.retain(|entry| verdict(frontends, entry));
                }
                // The way back of a TCP connection begins none.
                let untranslated =
                    |entry: &&Entry| entry.is_untranslated() && entry.protocol != Protocol::Tcp;
                for entry in stale.iter().filter(untranslated) {
                    let key = if frontends.is_or_was(query.protocol, entry.to) {
                        Some(entry.key)
                    } else {
                        // It is of a reply.
                        entry.reverse()
                    };
                    if let Some(key) = key {
                        cuts.note(key, *number);
                    }
                }
                let deleted = sockets.delete.delete(stale.iter().map(|it| &it.key))?;
                note(totals, deleted)?;
            }
            if !more {
                return Ok(());
            }
            if *rests > 0 {
                let work = cpu_time().saturating_sub(cpu);
                let resting = Instant::now();
                if mailbox.wait(Some(resting + work.saturating_mul(*rests))) {
                    *rests = 0;
                }
                *rested += resting.elapsed();
            }
        }
    }
}

fn note(totals: &mut Totals, deleted: Deleted) -> Result<(), ConntrackError> {
    totals.deleted += deleted.deleted;
    totals.not_deleted += deleted.refused;
    match deleted.error {
        Some(errno) => Err(ConntrackError::Kernel(errno)),
        None => Ok(()),
    }
}

/// CPU time of this thread so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
