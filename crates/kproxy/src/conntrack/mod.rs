//! Stale connections: conntrack goes on translating a flow as it once began, whatever the rules say
//! by now. UDP flows never end while somebody sends, so those that lead to no serving endpoint any
//! more are removed from the kernel's table; their next packet is a new connection.
//!
//! ```text
//! engine, after each successful sync ──FlowChanges──> Mailbox ──News──> Worker, a thread for each family
//!                                                                         │ Frontends  what serves what
//!   per family and protocol: dump ──Entry──> decision::verdict ──stale──> delete by tuple and id
//! ```
//! What is compared is state with state: whether an entry is stale does not depend on how it came to
//! be. The sync path never waits for these threads, which need the same memory whatever conntrack
//! holds.

mod counters;
mod cut;
mod decision;
mod entry;
mod error;
mod exchange;
#[cfg(test)]
mod fake;
mod frontends;
mod mailbox;
mod news;
mod pass;
mod scope;
mod worker;

pub use counters::{Counters, Totals};
pub use decision::verdict;
pub use entry::Entry;
pub use error::ConntrackError;
pub use frontends::Frontends;

use std::fs::File;
use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nft_batch::{OpenError, Socket};
use svc_planner::flows::FlowChanges;
use svc_planner::plan::Family;

use self::mailbox::Mailbox;
use self::worker::{Pace, Worker};
use crate::family::FAMILIES;
use crate::netns::{Netns, StartError};

/// The threads that remove stale connections, one for each family.
#[derive(Debug)]
pub struct Reconciler {
    publisher: Publisher,
    counters: Arc<Counters>,
    threads: Vec<JoinHandle<()>>,
}

/// Where the engine tells what it does. It never waits longer than it takes to hand over news.
#[derive(Debug, Clone, Default)]
pub struct Publisher {
    ipv4: Mailbox,
    ipv6: Mailbox,
}

impl Reconciler {
    /// Starts the threads for a network namespace. They do nothing before they are told what serves
    /// what, see [`Reconciler::publisher`].
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(netns: &Netns) -> Result<Self, StartError> {
        let mut reconciler = Self {
            publisher: Publisher::default(),
            counters: Arc::default(),
            threads: Vec::new(),
        };
        for family in FAMILIES {
            let netns = netns.open()?;
            let sockets = move || Ok([open(netns.as_ref())?, open(netns.as_ref())?]);
            let worker = Worker::new(
                family,
                reconciler.publisher.mailbox(family).clone(),
                reconciler.counters(),
                Pace::default(),
                // While the process is still allowed to.
                sockets()?,
                sockets,
            );
            let thread = thread::Builder::new()
                .name(format!("conntrack-{family}"))
                .spawn(move || worker.run())
                .map_err(StartError::Thread)?;
            reconciler.threads.push(thread);
        }
        Ok(reconciler)
    }

    /// For [`Engine::tell_flows`](crate::engine::Engine::tell_flows).
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// What was done so far.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    /// Removes what is stale by what was told so far, and ends the threads.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for Reconciler {
    fn drop(&mut self) {
        for family in FAMILIES {
            self.publisher.mailbox(family).close();
        }
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!("a conntrack thread panicked");
            }
        }
    }
}

impl Publisher {
    /// To be called before a transaction is sent: from now on the kernel is ahead of what was told.
    pub fn begin(&self, family: Family) {
        self.mailbox(family).begin();
    }

    /// Tells what is in force, when there is nothing more to send.
    pub fn publish(&self, family: Family, changes: FlowChanges) {
        self.mailbox(family).publish(changes);
    }

    fn mailbox(&self, family: Family) -> &Mailbox {
        match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        }
    }
}

fn open(netns: Option<&File>) -> Result<Socket, OpenError> {
    match netns {
        Some(file) => Socket::open_in(file.as_fd()),
        None => Socket::open(),
    }
}
