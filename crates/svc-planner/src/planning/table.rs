//! The table itself: sets, chains and rules that do not depend on Services.

use smallvec::SmallVec;

use super::Work;
use super::draft::Due;
use crate::clock::{IN_USE, PENDING, is_over};
use crate::kernel::RuleSettings;
use crate::kernel::class::{Shape, stick_chain};
use crate::kernel::layout::{Layout, chains};
use crate::kernel::set::SetId;
use crate::model::address::Address;
use crate::plan::{Datum, Key, Name, Rule};
use crate::policy::node_addresses::NodePortMatch;

impl Work<'_> {
    /// Creates the sets.
    pub(crate) fn create_sets(&mut self) {
        self.draft.transaction.add_table = true;
        let sets = SetId::ALL.into_iter().zip(&self.draft.sets);
        let sets = sets.map(|(id, state)| state.declare(id));
        self.draft.transaction.add_sets.extend(sets);
    }

    /// Creates all chains but those of classes, with their rules.
    pub(crate) fn create_chains(&mut self) {
        self.adopt_configuration();
        self.draft.transaction.add_chains.extend(chains());
        self.add_fixed_rules(&|_| true);
    }

    /// Brings rules in line when the configuration or the Node ask for others. `fixed`: those of
    /// the chains that do not belong to classes, too.
    pub(crate) fn refresh_rules(&mut self, fixed: bool) {
        if self.adopt_configuration() {
            self.rewrite_rules(fixed);
        }
    }

    /// Rewrites the rules of all chains. No class may have been created in this transaction.
    pub(crate) fn rewrite_rules(&mut self, fixed: bool) {
        let suffix = self.kernel.chain_suffix;
        let names = self.kernel.classes.chains(suffix);
        self.draft.transaction.flush_chains.extend(names);
        self.add_class_rules();
        if fixed {
            let names = chains().into_iter().map(|chain| chain.name);
            self.draft.transaction.flush_chains.extend(names);
            self.add_fixed_rules(&|_| true);
        }
    }

    /// Adds the rules of all chains.
    pub(crate) fn add_all_rules(&mut self) {
        self.add_class_rules();
        self.add_fixed_rules(&|_| true);
    }

    fn add_class_rules(&mut self) {
        for (_, class) in self.kernel.classes.iter() {
            let name = class.shape.chain(self.kernel.chain_suffix);
            let rules = self.class_rules(class.shape, &name);
            self.draft.transaction.add_rules.extend(rules);
        }
        for seconds in self.kernel.classes.sticks() {
            let name = stick_chain(seconds, self.kernel.chain_suffix);
            let rules = self.layout().stick_rules(seconds, &name);
            self.draft.transaction.add_rules.extend(rules);
        }
    }

    /// Adds the rules of chains that do not belong to classes, by name.
    pub(super) fn add_fixed_rules(&mut self, of: &dyn Fn(&str) -> bool) {
        let mut rules = self.layout().rules();
        rules.retain(|rule| of(&rule.chain));
        self.draft.transaction.add_rules.extend(rules);
    }

    /// Brings the rows of addresses and prefixes in line.
    pub(crate) fn set_node_rows(&mut self) {
        let family = self.model.family;
        let listed = self.wanted_node_port_ips();
        for address in self
            .kernel
            .settings
            .node_port_ips
            .iter()
            .filter(|ip| !listed.contains(ip))
        {
            self.draft
                .delete(SetId::NodePortIps, 0, Key::Address(address.ip(family)));
        }
        for address in listed
            .iter()
            .filter(|ip| !self.kernel.settings.node_port_ips.contains(ip))
        {
            self.draft.add(
                SetId::NodePortIps,
                0,
                Key::Address(address.ip(family)),
                Datum::None,
            );
        }
        let node_port_ips = &mut self.kernel.settings.node_port_ips;
        node_port_ips.clear();
        node_port_ips.extend_from_slice(&listed);
        let prefixes = self.model.service_cidrs.prefixes();
        for prefix in self
            .kernel
            .settings
            .service_cidrs
            .iter()
            .filter(|cidr| !prefixes.contains(cidr))
        {
            self.draft
                .delete(SetId::ServiceCidrs, 0, Key::Prefix(*prefix));
        }
        for prefix in prefixes
            .iter()
            .filter(|cidr| !self.kernel.settings.service_cidrs.contains(cidr))
        {
            self.draft
                .add(SetId::ServiceCidrs, 0, Key::Prefix(*prefix), Datum::None);
        }
        let service_cidrs = &mut self.kernel.settings.service_cidrs;
        service_cidrs.clear();
        service_cidrs.extend_from_slice(prefixes);
    }

    /// Once node ports are served everywhere, packets on their way through the former rules may
    /// still look for the former addresses.
    fn wanted_node_port_ips(&mut self) -> SmallVec<[Address; 4]> {
        let node_ports = self.node_ports();
        let settings = &mut self.kernel.settings;
        let since = settings.node_port_ips_since;
        if let NodePortMatch::Listed(addresses) = node_ports {
            settings.node_port_ips_since = IN_USE;
            return addresses;
        }
        if settings.node_port_ips.is_empty() || is_over(since, self.hold, self.now) {
            settings.node_port_ips_since = IN_USE;
            return SmallVec::new();
        }
        if since == IN_USE {
            settings.node_port_ips_since = PENDING;
            self.draft.released.push(Due::NodePortIps);
        }
        SmallVec::from_slice(&settings.node_port_ips)
    }

    /// Rules of a class chain.
    pub(super) fn class_rules(&self, shape: Shape, chain: &Name) -> Vec<Rule> {
        self.layout().class_rules(shape, chain)
    }

    pub(super) fn layout(&self) -> Layout<'_> {
        Layout {
            family: self.model.family,
            sets: &self.draft.sets,
            suffix: self.kernel.chain_suffix,
            settings: &self.kernel.settings.rules,
        }
    }

    /// True if rules have to change.
    pub(crate) fn adopt_configuration(&mut self) -> bool {
        let wanted = RuleSettings::new(self.model, self.config);
        let former = core::mem::replace(&mut self.kernel.settings.rules, wanted);
        let rules = &self.kernel.settings.rules;
        former != *rules
    }

    fn node_ports(&self) -> NodePortMatch {
        self.model
            .node
            .node_ports(self.model.family, &self.config.node_port_addresses)
    }
}
