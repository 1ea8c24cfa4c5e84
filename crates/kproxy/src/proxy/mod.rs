//! The loop of `kproxy run`: changes go in, transactions come out.
//!
//! ```text
//! mailbox ──at most once a minimum period──> Engine ──turns──> IPv6 ┐ each with
//!    │                                          │               IPv4 ┘ its own back-off
//!    └── changes wait here, one an object       └──> Saver, Status, log
//! ```
//! The families are independent halves: one that fails is tried again after a while, or sooner when
//! there is a change, and never keeps the other from being programmed.

mod complaints;
mod fault;
mod history;
mod pace;
mod status;
mod window;

pub use history::{History, Past, PastFailure, PastTransaction};
pub use pace::Periods;
pub use status::{FamilyStatus, NodeStatus, NotServed, Status, StatusBoard};
pub use window::{Listing, Only, Place, ServiceRow, Wanted, Window};

use core::fmt;
use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use nft_batch::{Socket, Transport};
use svc_planner::Planner;
use svc_planner::mailbox::{Receiver, Wake};
use svc_planner::object::Change;
use svc_planner::plan::{Family, Transaction};

use self::complaints::Complaints;
use self::fault::Fault;
use self::pace::{Backoff, Gate};
use self::window::Clerk;
use crate::engine::{Applied, Engine, EngineError, Headroom, Saver, Turn, Wait};
use crate::events::Recorder;
use crate::logging::Progress;
use crate::metrics::{SyncMetrics, SyncOutcome};

/// Keeps the kernel in step with changes.
#[derive(Debug)]
pub struct Proxy<T: Transport = Socket> {
    engine: Engine<T>,
    saver: Saver,
    headroom: Headroom,
    lanes: Vec<Lane>,
    gate: Gate,
    /// A change was taken in since the last sync.
    changed: bool,
    complaints: Complaints,
    board: StatusBoard,
    metrics: Arc<SyncMetrics>,
    history: History,
    clerk: Clerk,
    node: OwnNode,
    /// The Node or the host's addresses changed: there may be something to heed.
    node_changed: bool,
    programmed: Programmed,
}

/// Who is told when a family's table holds all that is wanted, for the first time.
#[derive(Default)]
struct Programmed(Option<Box<dyn FnMut(Family) + Send>>);

/// Whether the own Node has to be known, and is.
#[derive(Debug)]
enum OwnNode {
    /// It is, or need not be.
    Known,
    /// It is not; nothing is sent before. To be mentioned again at this time.
    Awaited { name: Box<str>, reminder: Duration },
}

/// How often it is mentioned that the own Node is not known.
const REMINDER: Duration = Duration::from_secs(60);

/// One family's half of the loop.
#[derive(Debug)]
struct Lane {
    family: Family,
    backoff: Backoff,
    fault: Fault,
    /// Its table held all that was wanted once.
    programmed: bool,
    /// It has nothing more to send in this round.
    done: bool,
    /// A transaction was committed or failed in this round.
    busy: bool,
    wait: Wait,
    /// Time spent in this round.
    spent: Duration,
    /// The whole table is planned in this round.
    full: bool,
}

impl<T: Transport> Proxy<T> {
    /// A loop around an engine that has [adopted](Engine::adopt) what is there.
    #[must_use]
    pub fn new(engine: Engine<T>, saver: Saver, periods: Periods) -> Self {
        let lanes: Vec<_> = engine
            .families()
            .map(|family| Lane {
                family,
                backoff: Backoff::new(periods),
                fault: Fault::default(),
                programmed: false,
                done: false,
                busy: false,
                wait: Wait::Change,
                spent: Duration::ZERO,
                full: false,
            })
            .collect();
        let families: Vec<_> = engine.families().collect();
        Self {
            metrics: Arc::new(SyncMetrics::new(&families)),
            history: History::default(),
            clerk: Clerk::default(),
            board: StatusBoard::new(lanes.iter().map(|lane| lane.family)),
            lanes,
            gate: Gate::new(periods.min_sync),
            changed: false,
            node: OwnNode::Known,
            node_changed: true,
            programmed: Programmed::default(),
            complaints: Complaints::default(),
            engine,
            saver,
            headroom: Headroom::default(),
        }
    }

    /// Sends nothing before the own Node, `name`, is known: what the kernel holds stays.
    #[must_use]
    pub fn awaiting(self, name: &str) -> Self {
        Self {
            node: OwnNode::Awaited {
                name: name.into(),
                reminder: Duration::ZERO,
            },
            ..self
        }
    }

    /// Has `tell` called for each family when its table holds all that is wanted, for the first time.
    pub fn tell_programmed(&mut self, tell: impl FnMut(Family) + Send + 'static) {
        self.programmed = Programmed(Some(Box::new(tell)));
    }

    /// Tells events there: what is wrong with Services, and who else writes to the tables.
    #[must_use]
    pub fn recording(self, recorder: Recorder) -> Self {
        Self {
            complaints: self.complaints.recording(recorder),
            ..self
        }
    }

    /// Where the loop's state can be read from other threads.
    #[must_use]
    pub fn board(&self) -> StatusBoard {
        self.board.clone()
    }

    /// What the loop counts.
    #[must_use]
    pub fn metrics(&self) -> Arc<SyncMetrics> {
        Arc::clone(&self.metrics)
    }

    /// What happened last.
    #[must_use]
    pub fn history(&self) -> History {
        self.history.clone()
    }

    /// Where other threads ask for what is planned.
    #[must_use]
    pub fn window(&self) -> Window {
        self.clerk.window().clone()
    }

    /// The engine.
    pub fn engine(&mut self) -> &mut Engine<T> {
        &mut self.engine
    }

    /// Takes a change in; it is sent with the next [`sync`](Self::sync).
    pub fn apply(&mut self, change: Change) {
        self.take_in(change, false);
    }

    /// Takes a change in, which may have `waited` in the mailbox.
    fn take_in(&mut self, change: Change, waited: bool) {
        let now = self.engine.clock().now();
        // What waits for the Node is not late.
        let is_due = matches!(
            (&self.node, &change),
            (OwnNode::Known, _) | (_, Change::Node(_))
        );
        self.board.change(&change, is_due, now);
        self.metrics.taken_in(&change, waited);
        if is_due {
            self.metrics.queued();
        }
        match &change {
            Change::Node(node) => {
                let first = node.addresses.first().copied().map(Family::of);
                let lacks = |family: &Family| self.lanes.iter().all(|it| it.family != *family);
                if let Some(family) = first.filter(lacks) {
                    tracing::error!("{family}: the Node's first family, which this kernel lacks");
                }
                self.node = OwnNode::Known;
                self.node_changed = true;
            }
            Change::NodeGone => tracing::warn!("the own Node is gone; its last facts stay in use"),
            _ => {}
        }
        self.engine.apply(change);
        self.changed = true;
        for lane in &mut self.lanes {
            lane.backoff.hurry();
        }
    }

    /// Programs what is there and what comes, until nothing will come.
    pub fn run(&mut self, changes: &mut Receiver) {
        self.metrics.attach(changes.bell());
        self.clerk.window().attach(changes.bell());
        loop {
            let wait = self.sync();
            let clients = |fill| self.metrics.clients(fill);
            let wait = wait.sooner(self.headroom.idle(&mut self.engine, clients));
            let wait = wait.sooner(self.clerk.idle(&self.engine));
            let left = |time: Duration| time.saturating_sub(self.engine.clock().now());
            let until = match wait {
                Wait::Until(time) => Some(left(time)),
                Wait::Change => None,
            };
            let closed = left(self.gate.opens());
            if !closed.is_zero() {
                // Changes meet in the mailbox until it is time for them.
                let pause = until.map_or(closed, |until| until.min(closed));
                if changes.pause(pause) {
                    self.gate.open();
                }
                continue;
            }
            match changes.wait(until) {
                Wake::Closed => return,
                Wake::Changes => {
                    for change in changes.drain() {
                        self.take_in(change, true);
                    }
                }
                Wake::Timeout | Wake::Rung => {}
            }
        }
    }

    /// Sends what there is to send in every family whose time has come. Returns when to call again
    /// if there is no change.
    pub fn sync(&mut self) -> Wait {
        let mut progress = Progress::start();
        let (mut transactions, mut rows) = (0_u64, 0);
        self.sync_with(|applied, _| {
            tracing::debug!("{applied}");
            transactions += 1;
            rows += applied.rows;
            if let Some(time) = progress.due() {
                let seconds = time.as_secs();
                tracing::info!(
                    "programming: {rows} rows in {transactions} transactions after {seconds} s"
                );
            }
        })
    }

    /// As [`sync`](Self::sync); each transaction is told to `on_applied`.
    pub fn sync_with(&mut self, mut on_applied: impl FnMut(&Applied, &Transaction)) -> Wait {
        let now = self.engine.clock().now();
        if let Some(wait) = self.node.await_it(now) {
            return wait;
        }
        if core::mem::take(&mut self.node_changed) {
            self.complaints.heed(&self.engine);
        }
        for lane in &mut self.lanes {
            // What others do to a table is put right as soon as a change would be programmed.
            if self.engine.take_news(lane.family) {
                lane.backoff.hurry();
            }
            lane.done = !lane.backoff.is_over(now);
            lane.busy = false;
            lane.wait = Wait::Until(lane.backoff.until());
            lane.spent = Duration::ZERO;
            lane.full = !lane.programmed;
        }
        while self.round(&mut on_applied) {}
        let end = self.engine.clock().now();
        let changed = core::mem::take(&mut self.changed);
        let busy = self.lanes.iter().any(|lane| lane.busy);
        // What is tidied up later keeps no change waiting.
        if busy && changed {
            self.gate.close(end);
        }
        for lane in self.lanes.iter().filter(|lane| lane.busy) {
            let (spent, full) = (lane.spent, lane.full);
            self.metrics
                .synced(lane.family, SyncOutcome { spent, full });
        }
        // A Service that cannot be served changes nothing in the kernel.
        if busy || changed {
            let complaints = &mut self.complaints;
            complaints.look(&self.engine, &self.history);
            self.board.not_served(|family| complaints.count(family));
            for lane in &self.lanes {
                if let Some(planner) = self.engine.planner(lane.family) {
                    self.metrics.planned(lane.family, planner);
                }
            }
        }
        if self.engine.is_complete() {
            self.metrics.all_in_force();
        }
        let waits = self.lanes.iter().map(|lane| lane.wait);
        let wait = waits.fold(Wait::Change, Wait::sooner);
        wait.sooner(self.saver.idle(&mut self.engine))
    }

    /// A turn for each family that is not done; false when all are.
    fn round(&mut self, on_applied: &mut impl FnMut(&Applied, &Transaction)) -> bool {
        for lane in self.lanes.iter_mut().filter(|lane| !lane.done) {
            let begun = Instant::now();
            let before = self.engine.tally(lane.family);
            let turn = self.engine.turn(lane.family, |applied, transaction| {
                self.metrics.applied(applied);
                self.history.applied(applied);
                lane.full |= transaction.makes_table();
                on_applied(applied, transaction);
            });
            lane.spent = lane.spent.saturating_add(begun.elapsed());
            let tally = self.engine.tally(lane.family);
            self.metrics.tallied(lane.family, tally);
            let interference = self.engine.interference(lane.family);
            self.complaints.fight(lane.family, &interference);
            self.board.interference(lane.family, interference);
            let now = self.engine.clock().now();
            match turn {
                Ok(Turn::Again) => lane.busy = true,
                Ok(Turn::Wait(wait)) => {
                    lane.done = true;
                    lane.wait = wait;
                    lane.backoff.reset();
                    // While it is left alone, nothing says that it is as it should be.
                    if !self.engine.is_left_alone(lane.family) {
                        self.board.success(lane.family, now);
                        lane.fault.succeeded(lane.family);
                        if !core::mem::replace(&mut lane.programmed, true) {
                            // A sync even if the kernel held all of it already, from another process.
                            lane.busy = true;
                            tell_first(lane, self.engine.planner(lane.family));
                            self.programmed.tell(lane.family);
                        }
                        self.metrics.succeeded(lane.family);
                        let family = lane.family;
                        self.engine.take_triggers(family, |trigger| {
                            self.metrics.programmed(family, trigger);
                        });
                    }
                }
                Err(error) => {
                    let pause = lane.backoff.fail(now);
                    lane.done = true;
                    lane.busy = true;
                    lane.wait = Wait::Until(lane.backoff.until());
                    self.board.failure(lane.family, now, &error);
                    self.history.failed(lane.family, error.to_string(), pause);
                    if tally.not_tidied == before.not_tidied {
                        self.metrics.failed(lane.family);
                    }
                    lane.fault.failed(lane.family, &error, pause);
                }
            }
        }
        self.lanes.iter().any(|lane| !lane.done)
    }

    /// Saves the state for the next process.
    ///
    /// # Errors
    /// As [`Engine::save`].
    pub fn finish(mut self) -> Result<(), EngineError> {
        self.saver.finish(&mut self.engine)
    }
}

/// Says that a family serves from now on.
fn tell_first(lane: &Lane, planner: Option<&Planner>) {
    let Some(totals) = planner.map(Planner::totals) else {
        return;
    };
    tracing::info!(
        "{}: in force: {} Services, {} ports, {} endpoints; programmed in {:.3} s",
        lane.family,
        totals.services,
        totals.ports,
        totals.endpoints,
        lane.spent.as_secs_f64()
    );
}

impl Programmed {
    fn tell(&mut self, family: Family) {
        if let Some(tell) = &mut self.0 {
            tell(family);
        }
    }
}

impl fmt::Debug for Programmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Programmed").finish_non_exhaustive()
    }
}

impl OwnNode {
    /// How long to wait if it is still not known.
    fn await_it(&mut self, now: Duration) -> Option<Wait> {
        let Self::Awaited { name, reminder } = self else {
            return None;
        };
        if *reminder <= now {
            tracing::warn!("waiting for Node {name}; until it comes nothing is programmed");
            *reminder = now.saturating_add(REMINDER);
        }
        Some(Wait::Until(*reminder))
    }
}
