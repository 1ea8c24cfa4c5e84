//! What the kernel holds: the rows, slots, classes and sets of the last commit and of the
//! transaction in flight.

pub(crate) mod class;
pub(crate) mod group;
pub(crate) mod guard;
pub(crate) mod hairpin;
pub(crate) mod layout;
pub(crate) mod set;
pub(crate) mod source_list;
pub(crate) mod sticky;
pub(crate) mod timeouts;

use hashbrown::HashMap;
use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use self::class::Classes;
use self::group::Groups;
use self::guard::Guard;
use self::hairpin::Hairpin;
use self::set::{SETS, SetId, SetState};
use self::source_list::Lists;
use self::sticky::EndpointIds;
use crate::clock::IN_USE;
use crate::config::{Config, LocalhostNodePorts};
use crate::model::Model;
use crate::model::address::{Address, LocalTarget};
use crate::model::frontend::FrontendKey;
use crate::policy::masquerade::Masquerade;
use crate::policy::node_addresses::NodePortMatch;

/// The kernel's side of one family.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub(crate) classes: Classes,
    pub(crate) groups: Groups,
    pub(crate) hairpins: HashMap<LocalTarget, Hairpin>,
    pub(crate) lists: Lists,
    /// Rows of `firewall`, by frontend.
    pub(crate) guards: HashMap<u32, Guard>,
    pub(crate) sets: [SetState; SETS],
    /// Ends the names of class chains unless it is 0.
    pub(crate) chain_suffix: u32,
    pub(crate) settings: Settings,
    pub(crate) endpoint_ids: EndpointIds,
    /// Sticky groups that their Service port had no use for any more, with that port. Their rows stay
    /// for a while, and if it wants such a group meanwhile it gets its own again.
    pub(crate) orphans: Vec<(u32, u32)>,
    /// Frontends that led to a sticky group and lead nowhere now: its clients there are remembered
    /// as long as it keeps its numbers.
    pub(crate) departed: Vec<(FrontendKey, u32)>,
    /// Sticky groups that lost a frontend: their endpoints are to get other numbers.
    pub(crate) left: Vec<u32>,
}

/// What does not depend on Services.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    pub(crate) rules: RuleSettings,
    /// Rows of `nodeport-ips`.
    pub(crate) node_port_ips: Vec<Address>,
    /// Since when no rule reads them.
    pub(crate) node_port_ips_since: u64,
    /// Rows of `service-cidrs`.
    pub(crate) service_cidrs: Vec<IpNet>,
}

impl Settings {
    /// Takes over what others say, into the buffers that are there.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        let Self {
            rules,
            node_port_ips,
            node_port_ips_since,
            service_cidrs,
        } = other;
        self.rules.clone_from(rules);
        self.node_port_ips.clone_from(node_port_ips);
        self.node_port_ips_since = *node_port_ips_since;
        self.service_cidrs.clone_from(service_cidrs);
    }
}

/// What rules depend on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleSettings {
    pub(crate) masquerade: Masquerade,
    /// Node ports are served on all local addresses.
    pub(crate) all_addresses: bool,
    /// Frontends are looked up twice.
    pub(crate) repeat_lookup: bool,
    /// Node ports at loopback addresses.
    #[serde(default)]
    pub(crate) localhost: LocalhostNodePorts,
}

impl RuleSettings {
    /// What configuration and Node ask for.
    pub(crate) fn new(model: &Model, config: &Config) -> Self {
        let (family, node) = (model.family, &model.node);
        let node_ports = node.node_ports(family, &config.node_port_addresses);
        Self {
            masquerade: Masquerade::new(family, config, node),
            all_addresses: node_ports == NodePortMatch::All,
            repeat_lookup: config.repeat_lookup,
            localhost: config.localhost_node_ports,
        }
    }
}

impl Kernel {
    pub(crate) fn new(rules: RuleSettings) -> Self {
        Self {
            classes: Classes::default(),
            groups: Groups::default(),
            hairpins: HashMap::new(),
            lists: Lists::default(),
            guards: HashMap::new(),
            sets: SetId::ALL.map(|id| SetState::new(id, 0, None)),
            chain_suffix: 0,
            settings: Settings {
                rules,
                node_port_ips: Vec::new(),
                node_port_ips_since: IN_USE,
                service_cidrs: Vec::new(),
            },
            endpoint_ids: EndpointIds::default(),
            orphans: Vec::new(),
            departed: Vec::new(),
            left: Vec::new(),
        }
    }
}

/// Classes and groups are numbered from 1.
const fn arena_number(id: u32) -> u32 {
    id.saturating_add(1)
}
