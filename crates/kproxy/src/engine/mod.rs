//! Drives the kernel: two planners, one per IP family, and one netlink socket.
//!
//! ```text
//! Change ──> Planner (v4, v6) ──Transaction──> lower ──Batch──> Connection ──Outcome──┐
//!                   ^                                                                 │
//!                   └───────── committed / rejected (offender) / rebuild ─────────────┘
//! ```
//! A transaction the kernel refuses because of one Service costs that Service only: it is set aside
//! and reported, the rest is sent again. One that is refused because the table is not what the
//! planner believes (somebody changed it) makes the engine start over beside whatever is there.

mod adopt;
mod cleanup;
mod clients;
mod commit;
mod dry_run;
mod fault;
mod fnv;
mod guard;
mod headroom;
mod inventory;
mod owner;
mod rebuild;
mod recording;
mod refusal;
mod saver;
mod state;
mod tally;
mod timing;

pub use cleanup::cleanup;
pub use dry_run::{RowChange, WouldChange};
pub use fault::{EngineError, Trouble};
pub use guard::{Editor, GuardOptions, Interference};
pub use headroom::{AffinityFill, Headroom};
pub(crate) use inventory::read as inventory;
pub use recording::Recording;
pub use saver::Saver;
pub use state::{STATE_DIR, StateDir};
pub use tally::Tally;
pub use timing::{Applied, Clock};

use core::time::Duration;
use std::os::fd::AsFd as _;
use std::time::Instant;

use nft_batch::{Batch, Connection, Errno, Socket, Transport};
use nl_codec::nft::{Elem, Value};
use svc_planner::object::{Change, EndpointSlice, ObjectName, Uid, UnixNanos};
use svc_planner::plan::{Family, Key, KeyType, Transaction};
use svc_planner::report::{Notice, Report};
use svc_planner::{Config, Next, Planner};

use self::guard::structure::{self, Structure};
use self::guard::{Guard, Tended};
use self::refusal::Suspect;
use crate::conntrack::Publisher;
use crate::family::{FAMILIES, present_families};
use crate::listeners;
use crate::lower::{Lowered, key_bytes, nf_family};
use crate::netns::Netns;

/// Name of our tables, the one kube-proxy uses.
pub const TABLE: &str = "kube-proxy";

/// When a sync has nothing more to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Call again at this time of the engine's clock, or when there is a change.
    Until(Duration),
    /// Call again when there is a change.
    Change,
}

impl Wait {
    /// The one that is over first.
    #[must_use]
    pub fn sooner(self, other: Self) -> Self {
        match (self, other) {
            (Self::Until(a), Self::Until(b)) => Self::Until(a.min(b)),
            (Self::Until(time), Self::Change) | (Self::Change, Self::Until(time)) => {
                Self::Until(time)
            }
            (Self::Change, Self::Change) => Self::Change,
        }
    }
}

/// What a family's turn came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// A transaction was committed, or refused in a way that another one will do: there may be more.
    Again,
    /// There is nothing to send before this.
    Wait(Wait),
}

/// See the module.
#[derive(Debug)]
pub struct Engine<T: Transport = Socket> {
    connection: Connection<T>,
    families: Vec<FamilyState>,
    /// Its buffers are used again and again.
    batch: Option<Batch>,
    /// Transactions are longer than the send buffer can be made (in a user namespace): they are cut.
    split: bool,
    lowered: Lowered,
    clock: Clock,
    /// Who removes the connections that changes leave behind.
    flows: Option<Publisher>,
    /// Who listens on ports of the node.
    listeners: Option<listeners::Publisher>,
    /// Tables that are made belong to this process.
    owns: bool,
    guard: Option<Box<Guard>>,
    /// Transactions of the guard's that it has not counted yet.
    repairs: u32,
}

#[derive(Debug)]
struct FamilyState {
    family: Family,
    planner: Planner,
    config: Config,
    /// Rebuilt and not yet committed since: a second failure is not for want of a rebuild.
    rebuilt: bool,
    /// What the table holds could not be read, or is not as it was when it was: it is read with the next
    /// turn.
    unread: bool,
    /// Refused because of some rows, and not yet committed since: the kernel is to name each.
    isolate: bool,
    /// Service ports set aside because each was refused alone, and nothing was committed since: it may
    /// be the kernel that fails.
    suspects: Vec<Suspect>,
    /// Committed since the state was saved.
    unsaved: bool,
    /// What the table was made of when it was gone on with.
    adopted: Option<Structure>,
    tally: Tally,
}

impl Engine {
    /// An engine for the network namespace `netns`, with settings for each family that the kernel
    /// has.
    ///
    /// # Errors
    /// [`EngineError::Start`].
    pub fn open(netns: &Netns, config: impl Fn(Family) -> Config) -> Result<Self, EngineError> {
        Ok(Self::for_families(
            connect(netns)?,
            &present_families(),
            config,
        ))
    }
}

impl<T: Transport> Engine<T> {
    /// An engine over `connection`. It believes that our tables do not exist.
    #[must_use]
    pub fn new(connection: Connection<T>, config: impl Fn(Family) -> Config) -> Self {
        Self::for_families(connection, &FAMILIES, config)
    }

    /// As [`new`](Self::new), for some families only. The tables of others are never looked at.
    #[must_use]
    pub fn for_families(
        connection: Connection<T>,
        families: &[Family],
        config: impl Fn(Family) -> Config,
    ) -> Self {
        let families = families.iter().map(|&family| {
            let config = config(family);
            FamilyState {
                family,
                planner: Planner::new(family, config.clone()),
                config,
                rebuilt: false,
                unread: false,
                isolate: false,
                suspects: Vec::new(),
                unsaved: false,
                adopted: None,
                tally: Tally::default(),
            }
        });
        Self {
            connection,
            families: families.collect(),
            batch: None,
            split: false,
            lowered: Lowered::default(),
            clock: Clock::start(),
            flows: None,
            listeners: None,
            owns: false,
            guard: None,
            repairs: 0,
        }
    }

    /// Tells of the connections that changes may leave behind, after each successful sync of a
    /// family.
    pub fn tell_flows(&mut self, publisher: Publisher) {
        self.flows = Some(publisher);
    }

    /// Tells what processes are to listen for, after each successful sync of a family.
    pub fn tell_listeners(&mut self, publisher: listeners::Publisher) {
        self.listeners = Some(publisher);
    }

    /// Is everything wanted in force, as of the last [`sync`](Self::sync)? What is left to do then
    /// is to tidy up.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.families
            .iter()
            .all(|state| state.planner.is_complete())
    }

    /// The clock in which [`Wait::Until`] is.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Takes a change in; it is sent with the next [`sync`](Self::sync).
    pub fn apply(&mut self, change: Change) {
        let Some((last, others)) = self.families.split_last_mut() else {
            return;
        };
        for state in others {
            state.planner.apply(narrowed(&change, state.family));
        }
        last.planner.apply(change);
    }

    /// The families that are programmed.
    pub fn families(&self) -> impl Iterator<Item = Family> + '_ {
        self.families.iter().map(|state| state.family)
    }

    /// Sends what there is to send, the families in turns. Each transaction is told to `on_applied`.
    /// A family that fails does not keep another one from being programmed.
    ///
    /// # Errors
    /// The first one, see [`EngineError`]. What was committed stays; the rest is sent by the next
    /// call.
    pub fn sync(
        &mut self,
        mut on_applied: impl FnMut(&Applied, &Transaction),
    ) -> Result<Wait, EngineError> {
        let mut failed = [false; FAMILIES.len()];
        let mut error = None;
        loop {
            let mut wait = Wait::Change;
            let mut again = false;
            for (index, failed) in failed.iter_mut().enumerate() {
                if *failed {
                    continue;
                }
                match self.turn_of(index, &mut on_applied) {
                    Ok(Turn::Again) => again = true,
                    Ok(Turn::Wait(until)) => wait = wait.sooner(until),
                    Err(reason) => {
                        *failed = true;
                        error.get_or_insert(reason);
                    }
                }
            }
            if !again {
                return error.map_or(Ok(wait), Err);
            }
        }
    }

    /// Sends one transaction of a family, if there is one. It is told to `on_applied`.
    ///
    /// # Errors
    /// See [`EngineError`]. What was to be sent is tried again by the next call.
    pub fn turn(
        &mut self,
        family: Family,
        mut on_applied: impl FnMut(&Applied, &Transaction),
    ) -> Result<Turn, EngineError> {
        let index = self.families().position(|other| other == family);
        match index {
            Some(index) => self.turn_of(index, &mut on_applied),
            None => Ok(Turn::Wait(Wait::Change)),
        }
    }

    fn turn_of(
        &mut self,
        index: usize,
        on_applied: &mut impl FnMut(&Applied, &Transaction),
    ) -> Result<Turn, EngineError> {
        if self.families.get(index).is_some_and(|state| state.unread) {
            let begun = self.begin_anew(index)?;
            self.note_begun_anew(index, begun);
        }
        let tended = match self.tend(index)? {
            Tended::LetGo(until) => return Ok(Turn::Wait(Wait::Until(until))),
            tended => tended,
        };
        let planning = Instant::now();
        let now = self.clock.now();
        let Some(state) = self.families.get_mut(index) else {
            return Ok(Turn::Wait(Wait::Change));
        };
        let wait = match state.planner.next(now) {
            Next::Commit(transaction) => {
                let plan = planning.elapsed();
                if let Some(flows) = &self.flows {
                    flows.begin(state.family);
                }
                let committed = self.commit(index, &transaction);
                if let Ok(Some(mut applied)) = committed {
                    applied.plan = plan;
                    on_applied(&applied, &transaction);
                }
                if let Some(state) = self.families.get_mut(index) {
                    if !matches!(committed, Ok(Some(_))) {
                        state.tally.not_committed += 1;
                        state.tally.not_tidied += u64::from(transaction.only_tidies_up());
                    }
                    state.planner.recycle(transaction);
                }
                if committed.is_err() {
                    self.rest(index)?;
                }
                return committed.map(|_| Turn::Again);
            }
            Next::Clients => {
                let clients = clients::read(&mut self.connection, state.family)?;
                let (family, count) = (state.family, clients.len());
                tracing::debug!("table {family} {TABLE}: {count} clients stick to endpoints");
                state.planner.carry_over(clients);
                return Ok(Turn::Again);
            }
            Next::WaitUntil(time) => Wait::Until(time),
            _ => Wait::Change,
        };
        self.publish(index);
        match tended {
            Tended::Wait(until) if !self.rest(index)? => Ok(Turn::Wait(wait.sooner(until))),
            _ => Ok(Turn::Again),
        }
    }

    /// Tells what a family's transactions brought into force, when there is nothing more to send.
    fn publish(&mut self, index: usize) {
        let Some(state) = self.families.get_mut(index) else {
            return;
        };
        if let Some(flows) = &self.flows
            && let Some(changes) = state.planner.take_flow_changes()
        {
            flows.publish(state.family, changes);
        }
        if let Some(listeners) = &self.listeners
            && let Some(changes) = state.planner.take_listener_changes()
        {
            listeners.publish(state.family, changes);
        }
    }

    /// Service ports that are not, or not fully, served, in both families.
    #[must_use]
    pub fn reports(&self) -> Vec<(Family, Report)> {
        let families = self.families.iter();
        families
            .flat_map(|state| {
                let reports = state.planner.reports().into_iter();
                reports.map(|report| (state.family, report))
            })
            .collect()
    }

    /// What is in force, but is hardly meant, in all families.
    pub fn notices(&self) -> impl Iterator<Item = (Family, Notice)> + '_ {
        self.families.iter().flat_map(|state| {
            let notices = state.planner.notices().into_iter();
            notices.map(|notice| (state.family, notice))
        })
    }

    /// What became of transactions that were not committed.
    #[must_use]
    pub fn tally(&self, family: Family) -> Tally {
        let state = self.families.iter().find(|it| it.family == family);
        state.map_or_else(Tally::default, |state| state.tally)
    }

    /// The planner of a family, to be looked at.
    pub(crate) fn planner(&self, family: Family) -> Option<&Planner> {
        let state = self.families.iter().find(|it| it.family == family);
        state.map(|state| &state.planner)
    }

    /// `metadata.uid` of a Service.
    #[must_use]
    pub fn service_uid(&self, name: &ObjectName) -> Option<Uid> {
        let mut families = self.families.iter();
        families.find_map(|state| state.planner.service_uid(name))
    }

    /// When what came into force in a family since the last call happened, if nothing waits any more.
    pub fn take_triggers(&mut self, family: Family, each: impl FnMut(UnixNanos)) {
        let state = self.families.iter_mut().find(|it| it.family == family);
        if let Some(state) = state {
            state.planner.take_triggers(each);
        }
    }

    /// The socket, for reads.
    pub fn connection(&mut self) -> &mut Connection<T> {
        &mut self.connection
    }

    /// Whether a set has a key. A missing set has none.
    pub(crate) fn has_row(
        &mut self,
        family: Family,
        set: &str,
        layout: KeyType,
        key: &Key,
    ) -> Result<bool, EngineError> {
        let Some(bytes) = key_bytes(family, layout, key) else {
            return Ok(false);
        };
        let key = Elem::new(Value::new(bytes.as_slice()));
        let found = self
            .connection
            .element(nf_family(family), TABLE, set, &key, |_| ());
        match found {
            Ok(found) => Ok(found.is_some()),
            Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A copy of what `family` needs of a change; of most slices that is their name.
fn narrowed(change: &Change, family: Family) -> Change {
    match change {
        Change::EndpointSlice(slice) => Change::EndpointSlice(EndpointSlice {
            name: slice.name.clone(),
            service: slice.service.clone(),
            triggers: slice.triggers.clone(),
            ports: slice.ports.clone(),
            endpoints: slice
                .endpoints
                .iter()
                .filter(|endpoint| Family::of(endpoint.address) == family)
                .cloned()
                .collect(),
        }),
        other => other.clone(),
    }
}

/// Opens the socket in a network namespace.
///
/// # Errors
/// [`EngineError::Start`].
pub fn connect(netns: &Netns) -> Result<Connection<Socket>, EngineError> {
    Ok(match netns.open()? {
        Some(file) => Connection::open_in(file.as_fd())?,
        None => Connection::open()?,
    })
}
