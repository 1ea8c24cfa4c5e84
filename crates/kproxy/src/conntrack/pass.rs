//! One pass: what is stale among the entries that may be concerned is deleted, a datagram at a time.

use core::time::Duration;
use std::time::Instant;

use nft_batch::Transport;
use rustix::time::{ClockId, clock_gettime};
use svc_planner::object::Protocol;

use super::counters::Totals;
use super::entry::Entry;
use super::exchange::Exchange;
use super::mailbox::Mailbox;
use super::scope::{Ports, Scope};
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
            .protocols()
            .try_for_each(|(protocol, ports)| self.look_through(protocol, ports, &mut rested));
        self.stale.clear();
        self.totals.busy += begin.elapsed().saturating_sub(rested);
        result
    }

    fn look_through(
        &mut self,
        protocol: Protocol,
        ports: Ports,
        rested: &mut Duration,
    ) -> Result<(), ConntrackError> {
        let Self {
            sockets,
            frontends,
            mailbox,
            stale,
            rests,
            totals,
        } = self;
        let mut dump = sockets.dump.dump(protocol, ports)?;
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
                let deleted = sockets.delete.delete(stale.iter().map(|it| &it.key))?;
                totals.deleted += deleted.deleted;
                totals.not_deleted += deleted.refused;
                if let Some(errno) = deleted.error {
                    return Err(ConntrackError::Kernel(errno));
                }
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

/// CPU time of this thread so far.
pub(super) fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
