//! A thread that listens to what others do to our tables, while it is allowed to.
//!
//! A listener makes every transaction in the network namespace dearer (the kernel builds a message for
//! each element), so the socket is closed while we load much: see [`Listener::close`].

use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use nft_batch::{Ear, EventError, EventGroup, Events};
use nl_codec::msg::{Family as NfFamily, NfMsg, NftMsg};
use nl_codec::nft::ElemList;
use svc_planner::plan::Family;

use super::super::{EngineError, TABLE};
use crate::family::FAMILIES;
use crate::netns::Netns;
use crate::watch::wait;

/// Rows remembered by key; beyond, whole sets are suspect.
pub(super) const ROWS_MAX: usize = 4096;

/// What the thread is told, one byte each; the end of the stream ends it.
const OPEN: u8 = b'o';
const CLOSE: u8 = b'c';

/// What others did to one table.
#[derive(Debug, Default)]
pub(super) struct Sighting {
    /// First generation that changed the table, its chains, sets or rules.
    pub(super) structure: Option<u32>,
    /// Last generation that changed anything.
    pub(super) last: u32,
    /// Rows that were added or deleted: set and key.
    pub(super) rows: Vec<(Box<str>, Box<[u8]>)>,
    /// Sets of which there were more.
    pub(super) sets: Vec<Box<str>>,
    /// A message could not be read: it may have been any row.
    pub(super) any_row: bool,
    /// Transactions.
    pub(super) edits: u64,
    /// Who made the last one.
    pub(super) by: Option<Editor>,
}

/// A process that changed one of our tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Editor {
    /// Its id; `None` in another pid namespace.
    pub pid: Option<u32>,
    /// Its name.
    pub name: Box<str>,
}

impl core::fmt::Display for Editor {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.pid {
            Some(pid) => write!(f, "{} (process {pid})", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// What was seen since it was asked last.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// By family, in the order of [`FAMILIES`].
    pub(super) tables: [Sighting; FAMILIES.len()],
    /// The socket broke.
    pub(super) broken: bool,
}

type Shared = Arc<Mutex<Seen>>;

/// See the module.
#[derive(Debug)]
pub(super) struct Listener {
    shared: Shared,
    control: UnixStream,
    thread: Option<thread::JoinHandle<()>>,
    is_open: bool,
}

impl Listener {
    /// Starts the thread, with the socket closed. Events of `own_port` are passed over, but their
    /// generations are told to `ear`, too; `wake` is called when something was seen or missed.
    pub(super) fn start(
        netns: &Netns,
        own_port: u32,
        ear: Ear,
        wake: impl Fn() + Send + 'static,
    ) -> Result<Self, EngineError> {
        let shared = Shared::default();
        let failed = |error: io::Error| EngineError::Listen(error.to_string());
        let (control, orders) = UnixStream::pair().map_err(failed)?;
        let worker = Worker {
            netns: netns.open()?,
            own_port,
            ear,
            shared: Arc::clone(&shared),
            orders,
            wake: Box::new(wake),
            events: None,
        };
        let thread = thread::Builder::new()
            .name("listener".to_owned())
            .spawn(move || worker.run())
            .map_err(failed)?;
        Ok(Self {
            shared,
            control,
            thread: Some(thread),
            is_open: false,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open
    }

    /// Opens the socket. What others do from here on is seen, or missed.
    pub(super) fn open(&mut self) -> Result<(), EngineError> {
        self.is_open = self.order(OPEN)?;
        if self.is_open {
            return Ok(());
        }
        Err(EngineError::Listen("cannot open a socket".to_owned()))
    }

    /// Handles what has arrived and closes the socket.
    pub(super) fn close(&mut self) -> Result<(), EngineError> {
        self.order(CLOSE)?;
        self.is_open = false;
        Ok(())
    }

    /// Takes what was seen.
    pub(super) fn take(&mut self) -> Seen {
        let seen = core::mem::take(&mut *lock(&self.shared));
        if seen.broken {
            self.is_open = false;
        }
        seen
    }

    fn order(&mut self, order: u8) -> Result<bool, EngineError> {
        let failed = |error: io::Error| EngineError::Listen(error.to_string());
        let mut answer = [0];
        self.control.write_all(&[order]).map_err(failed)?;
        self.control.read_exact(&mut answer).map_err(failed)?;
        Ok(answer != [0])
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // The thread sees the end of its orders. What it panicked about is lost with it.
        let _ = self.control.shutdown(std::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

struct Worker {
    netns: Option<std::fs::File>,
    own_port: u32,
    ear: Ear,
    shared: Shared,
    orders: UnixStream,
    wake: Box<dyn Fn() + Send>,
    events: Option<Events>,
}

impl Worker {
    fn run(mut self) {
        loop {
            let ready = match &self.events {
                Some(events) => wait([self.orders.as_fd(), events.as_fd()], None),
                None => wait([self.orders.as_fd()], None).map(|[order]| [order, false]),
            };
            let Ok([order, event]) = ready else {
                return self.fail();
            };
            if event {
                self.drain();
            }
            if order && !self.obey() {
                return;
            }
        }
    }

    /// False at the end of the orders.
    fn obey(&mut self) -> bool {
        let mut order = [0];
        if self.orders.read_exact(&mut order).is_err() {
            return false;
        }
        let done = match order {
            [OPEN] => {
                let opened = match &self.netns {
                    Some(netns) => Events::open_in(netns.as_fd()),
                    None => Events::open(),
                };
                self.events = opened
                    .map(|events| events.only(TABLE, Some(self.own_port)))
                    .map_err(|error| tracing::warn!("nf_tables events: {error}"))
                    .ok();
                self.events.is_some()
            }
            _ => {
                self.drain();
                self.events = None;
                true
            }
        };
        self.orders.write_all(&[u8::from(done)]).is_ok()
    }

    /// Handles the events that are there.
    fn drain(&mut self) {
        let Some(events) = &mut self.events else {
            return;
        };
        let mut news = false;
        loop {
            match events.try_next_group() {
                Ok(group) => {
                    news |= lock(&self.shared).note(&group);
                    news |= !self.ear.hear(group.generation, group.complete);
                }
                Err(EventError::TimedOut) => break,
                Err(EventError::Overrun | EventError::Truncated | EventError::Malformed) => {
                    self.ear.miss();
                    news = true;
                }
                Err(error) => {
                    tracing::warn!("nf_tables events: {error}");
                    return self.fail();
                }
            }
        }
        if news {
            (self.wake)();
        }
    }

    fn fail(&mut self) {
        self.events = None;
        self.ear.miss();
        lock(&self.shared).broken = true;
        (self.wake)();
    }
}

impl Seen {
    /// Whether there is anything to look at.
    fn note(&mut self, group: &EventGroup<'_>) -> bool {
        let mut touched = [false; FAMILIES.len()];
        for msg in group.iter() {
            let Some(index) = index_of(msg.nfgen.family) else {
                continue;
            };
            self.tables[index].note(group.generation, &msg);
            touched[index] = true;
        }
        for (table, _) in self.tables.iter_mut().zip(touched).filter(|it| it.1) {
            table.edits += 1;
            table.last = group.generation;
            table.by = group.process.map(|name| Editor {
                pid: group.pid,
                name: name.into(),
            });
        }
        touched.contains(&true)
    }
}

impl Sighting {
    fn note(&mut self, generation: u32, msg: &NfMsg<'_>) {
        let kind = msg.header.kind.as_nft();
        let is_row = matches!(
            kind,
            Some(NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM)
        );
        if !is_row {
            self.structure.get_or_insert(generation);
            return;
        }
        let list = msg.body::<ElemList<'_>>().ok();
        let noted = list.and_then(|list| self.note_rows(&list));
        self.any_row |= noted.is_none();
    }

    fn note_rows(&mut self, list: &ElemList<'_>) -> Option<()> {
        let set = list.set?.to_str()?;
        if self.sets.iter().any(|known| **known == *set) {
            return Some(());
        }
        for elem in list.elems?.iter() {
            if self.rows.len() >= ROWS_MAX {
                // To look at all of it is less work by now.
                self.rows.retain(|(other, _)| **other != *set);
                self.sets.push(set.into());
                return Some(());
            }
            let key = elem.ok()?.key_bytes()?.into();
            self.rows.push((set.into(), key));
        }
        Some(())
    }
}

fn index_of(family: NfFamily) -> Option<usize> {
    FAMILIES.iter().position(|own| match own {
        Family::Ipv4 => family == NfFamily::IPV4,
        Family::Ipv6 => family == NfFamily::IPV6,
    })
}

/// Nothing that can panic happens under the lock.
fn lock(shared: &Shared) -> MutexGuard<'_, Seen> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}
