//! The planner's interface.

mod assemble;
mod carry;
mod expected;
mod flows;
mod listeners;
mod mend;
mod narrow;
mod outcome;
mod overview;
mod owner;
mod rebuild;
mod snapshot;
mod surplus;
mod vanished;

use core::time::Duration;
use std::collections::{BTreeMap, VecDeque};

use hashbrown::HashMap;
use smallvec::SmallVec;

use self::carry::Carry;
use crate::clock::ticks;
use crate::config::{Config, LocalhostNodePorts};
use crate::kernel::set::{SETS, SetId};
use crate::kernel::{Kernel, RuleSettings};
use crate::model::Model;
use crate::object::{Change, ObjectName, Uid, UnixNanos};
use crate::plan::{Family, Key, Transaction};
use crate::planning::Placement;
use crate::planning::draft::{Draft, Due};
use crate::planning::growth::Growth;
use crate::planning::takeover::{Inventory, Leftovers};
use crate::policy::endpoint_selection::Selection;
use crate::report::{Notice, PortName, Reason, Report};

pub use expected::{ExpectedRow, ExpectedSet, RowCursor};
pub use narrow::Narrowed;
pub use overview::{
    EndpointDetail, FrontendDetail, ServiceDetail, ServiceSummary, SetFill, Totals,
};
pub use snapshot::{LiveSnapshot, RestoreError, Snapshot};

use narrow::{Aside, Limit, NAMED};

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Next {
    /// Commit this, then call [`Planner::committed`] or [`Planner::rejected`].
    Commit(Box<Transaction>),
    /// Nothing until this time, unless a change comes.
    WaitUntil(Duration),
    /// Nothing until a change comes.
    Idle,
    /// Everything is ready beside the table found: tell which clients stick to which endpoints there,
    /// with [`Planner::carry_over`]. Only if that was [promised](Planner::promise_clients).
    Clients,
    /// The transaction handed out before is neither committed nor rejected yet.
    InFlight,
}

/// What the table is to the planner.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// It is not there.
    Absent,
    /// It holds something else.
    Foreign(Inventory),
    /// Ours is being filled beside something else.
    Filling(Inventory),
    /// Ours is complete, and its firewall in force; the rest follows at this time.
    Guarded(Inventory, u64),
    /// Packets go through our rules.
    Serving,
}

/// Plans one IP family.
#[derive(Debug)]
pub struct Planner {
    config: Config,
    model: Model,
    kernel: Kernel,
    selection: Selection,
    placement: Placement,
    stage: Stage,
    /// The transaction handed out, without its operations.
    in_flight: Option<Box<Draft>>,
    /// A draft that is done with.
    spare_draft: Option<Box<Draft>>,
    /// A transaction that is done with.
    spare_transaction: Option<Box<Transaction>>,
    /// What is to be looked at again, and when.
    due: VecDeque<(u64, Due)>,
    /// Ports that wait for their classes, and until when.
    parked: VecDeque<(u64, Vec<u32>)>,
    /// Ports with frontends that wait for their guards, by time.
    guarded: BTreeMap<u64, Vec<u32>>,
    /// Ports that wait for a bigger set.
    cramped: Vec<u32>,
    /// Rows they lack room for.
    lacking: [u32; SETS],
    growth: Option<Growth>,
    /// Names to delete, and when.
    leftovers: VecDeque<(u64, Leftovers)>,
    /// The last transaction was not about leftovers: they may take their turn.
    leftovers_turn: bool,
    refused: HashMap<u32, Reason>,
    /// Ports that the kernel refused, and when they are tried again.
    aside: Aside,
    /// Objects in one transaction at most, while the kernel refuses without saying what.
    limit: Option<Limit>,
    /// The kernel may hold rows of Services that will not come.
    expects: bool,
    /// Number of the last draft.
    drafts: u64,
    /// Instance and number of the last commit.
    committed: Option<(u32, u32)>,
    /// Chains or rules are not as they should be; what is there instead.
    damaged: Option<Inventory>,
    /// Clients of a table that is taken over.
    carry: Carry,
}

impl Planner {
    /// Starts from the belief that there is no table; see [`rebuild`](Self::rebuild) for the other
    /// case.
    #[must_use]
    pub fn new(family: Family, config: Config) -> Self {
        let mut model = Model::new(family, config.node_name.clone());
        model.proxy_localhost(config.localhost_node_ports == LocalhostNodePorts::Proxied);
        model.external_ips = config.external_ips;
        Self {
            kernel: Kernel::new(RuleSettings::new(&model, &config)),
            config,
            model,
            selection: Selection::default(),
            placement: Placement::default(),
            stage: Stage::Absent,
            in_flight: None,
            spare_draft: None,
            spare_transaction: None,
            due: VecDeque::new(),
            parked: VecDeque::new(),
            guarded: BTreeMap::new(),
            cramped: Vec::new(),
            lacking: [0; SETS],
            growth: None,
            leftovers: VecDeque::new(),
            leftovers_turn: true,
            refused: HashMap::new(),
            aside: Aside::default(),
            limit: None,
            expects: false,
            drafts: 0,
            committed: None,
            damaged: None,
            carry: Carry::default(),
        }
    }

    /// Takes a change in. Addresses of the other family are ignored.
    pub fn apply(&mut self, mut change: Change) {
        if let (Change::Node(node), Some(address)) = (&mut change, self.config.bind_address) {
            node.bind(address);
        }
        self.model.apply(change);
    }

    /// The next transaction, or how long there is none. Deterministic in the calls made so far;
    /// `now` is any clock that never goes back.
    pub fn next(&mut self, now: Duration) -> Next {
        if self.in_flight.is_some() {
            return Next::InFlight;
        }
        let now = ticks(now);
        let (family, kernel) = (self.model.family, &self.kernel);
        let mut draft = self
            .spare_draft
            .take()
            .unwrap_or_else(|| Box::new(Draft::new(family, kernel)));
        self.assemble(&mut draft, now);
        if draft.is_empty() {
            draft.trim();
            self.finish(draft, now);
            if self.asks_for_clients() {
                return Next::Clients;
            }
            return self.next_time();
        }
        self.mark(&mut draft);
        let spare = self.spare_transaction.take();
        let mut transaction = spare.unwrap_or_else(|| Box::new(Transaction::new(family)));
        draft.finish(&mut transaction);
        self.in_flight = Some(draft);
        Next::Commit(transaction)
    }

    /// Takes a transaction that is done with for its buffers: with them a change that needs no new
    /// chain is planned without an allocation.
    pub fn recycle(&mut self, mut transaction: Box<Transaction>) {
        transaction.family = self.model.family;
        self.spare_transaction = Some(transaction);
    }

    /// The transaction handed out is in the kernel.
    pub fn committed(&mut self, now: Duration) {
        if let Some(draft) = self.in_flight.take() {
            self.committed = Some(self.next_state());
            self.widen();
            self.finish(draft, ticks(now));
        }
    }

    /// The transaction handed out is not in the kernel. Service ports that are to blame are set
    /// aside until they change, or a good while has passed.
    pub fn rejected(&mut self, now: Duration, offenders: &[PortName]) {
        let now = ticks(now);
        if let Some(draft) = self.in_flight.take() {
            self.take_back(draft, now);
        }
        for name in offenders {
            if let Some(id) = self.model.find_port(name) {
                self.set_aside(id, now, NAMED);
            }
        }
    }

    /// Starts over beside whatever the table holds: new sets and chains are filled, base chains
    /// switched over, and what was found is deleted. A transaction in flight is forgotten.
    pub fn rebuild(&mut self, found: Inventory) {
        self.start_over(found);
    }

    /// Changes the configuration, all but the node name and whether external IPs are served; another bind address takes effect when the
    /// Node comes again. What the rules say follows with the next
    /// transaction.
    pub fn reconfigure(&mut self, config: Config) {
        let none_here = self.config.no_local_endpoint;
        let node_name = core::mem::take(&mut self.config.node_name);
        let external_ips = self.config.external_ips;
        self.config = Config {
            node_name,
            external_ips,
            ..config
        };
        if self.config.no_local_endpoint != none_here {
            self.model.queue_all();
        }
        let localhost = self.config.localhost_node_ports;
        self.model
            .proxy_localhost(localhost == LocalhostNodePorts::Proxied);
    }

    /// Name of the map of clients that stick to endpoints.
    #[must_use]
    pub fn client_affinity(&self) -> &str {
        &self.kernel.sets[SetId::ClientAffinity as usize].name
    }

    /// Service ports that are not, or not fully, served, by name.
    #[must_use]
    pub fn reports(&self) -> Vec<Report> {
        let refused = self.refused.iter().filter_map(|(id, reason)| {
            Some(Report {
                port: self.model.port_name(*id)?,
                reason: reason.clone(),
            })
        });
        let mut reports: Vec<_> = refused.chain(self.model.lost_claims()).collect();
        reports.sort_unstable();
        reports
    }

    /// `metadata.uid` of a Service that has a ClusterIP of the family.
    #[must_use]
    pub fn service_uid(&self, name: &ObjectName) -> Option<Uid> {
        self.model.service_uid(name)
    }

    /// When the changes of EndpointSlices that came into force since the last call happened
    /// ([`EndpointSlice::triggers`](crate::object::EndpointSlice::triggers)). Tells none while anything
    /// waits. Only changes of endpoints or ports count, and none of a slice that is gone meanwhile.
    pub fn take_triggers(&mut self, each: impl FnMut(UnixNanos)) {
        if self.is_complete() {
            self.model.triggers.drain().for_each(each);
        }
    }

    /// Is everything wanted in force, as of the last [`next`](Self::next)? What that waits for then
    /// is the time to delete what is out of use.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        let waits = !self.parked.is_empty() || !self.guarded.is_empty() || !self.cramped.is_empty();
        let taken_over = matches!(self.stage, Stage::Absent | Stage::Serving);
        self.in_flight.is_none() && self.model.queue.is_empty() && !waits && taken_over
    }

    /// What is in force, but hardly meant; nothing until the Node is known.
    #[must_use]
    pub fn notices(&self) -> SmallVec<[Notice; 2]> {
        self.model.node.notices(self.model.family, &self.config)
    }

    /// The row of set `state` that is in the kernel after the last commit.
    #[must_use]
    pub fn state(&self) -> Option<Key> {
        self.committed
            .map(|(instance, sequence)| Key::State { instance, sequence })
    }

    /// Live classes: chains that every commit walks.
    #[must_use]
    pub fn classes(&self) -> usize {
        self.kernel.classes.len()
    }
}

#[cfg(test)]
mod tests;
