//! The chains of a table and their rules.
//!
//! The eight base chains are kube-proxy's, with its names, hooks and priorities: kube-proxy takes
//! over a table of ours by refilling exactly these.

use core::net::{Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

mod sticky;

use super::RuleSettings;
use super::class::Shape;
use super::set::{SETS, SetId, SetState};
use crate::plan::{BaseChain, Chain, ChainKind, Family, Field, Hook, Name, Route, Rule, Statement};
use crate::policy::traffic_policy::Kind;
pub(crate) use sticky::NODE_PORT_SHORTCUT;

/// Base chains: name, type, hook, priority, and the chains a new connection is sent through.
const BASE_CHAINS: [(&str, ChainKind, Hook, i32, &[&str]); 8] = [
    (
        "filter-prerouting-pre-dnat",
        ChainKind::Filter,
        Hook::Prerouting,
        -110,
        &["firewall-check"],
    ),
    (
        "filter-output-pre-dnat",
        ChainKind::Filter,
        Hook::Output,
        -110,
        &["firewall-check"],
    ),
    (
        "filter-input",
        ChainKind::Filter,
        Hook::Input,
        0,
        &["nodeport-endpoints-check", "service-endpoints-check"],
    ),
    (
        "filter-forward",
        ChainKind::Filter,
        Hook::Forward,
        0,
        &["service-endpoints-check", "cluster-ips-check"],
    ),
    (
        "filter-output",
        ChainKind::Filter,
        Hook::Output,
        0,
        &["service-endpoints-check", "cluster-ips-check"],
    ),
    (
        "nat-prerouting",
        ChainKind::Nat,
        Hook::Prerouting,
        -100,
        &["services"],
    ),
    (
        "nat-output",
        ChainKind::Nat,
        Hook::Output,
        -100,
        &["services"],
    ),
    (
        "nat-postrouting",
        ChainKind::Nat,
        Hook::Postrouting,
        100,
        &["masquerading"],
    ),
];

/// Regular chains besides those of classes.
const CHECKS: [&str; 8] = [
    "services",
    "masquerading",
    "service-endpoints-check",
    "nodeport-endpoints-check",
    "cluster-ips-check",
    "firewall-check",
    FIREWALL_SOURCE,
    FRONTEND_CLASS,
];

/// Where connections go that only some sources may make.
const FIREWALL_SOURCE: &str = "firewall-source";

/// Where connections go that have been translated, to what is a frontend itself.
const FRONTEND_CLASS: &str = "frontend-class-check";

/// Does a chain judge packets before they are translated?
pub(crate) fn is_firewall(chain: &str) -> bool {
    matches!(chain, "firewall-check" | FIREWALL_SOURCE)
        || BASE_CHAINS
            .iter()
            .any(|(base, .., checks)| *base == chain && checks.contains(&"firewall-check"))
}

/// Everything rules depend on.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<'a> {
    pub(crate) family: Family,
    pub(crate) sets: &'a [SetState; SETS],
    /// See [`Kernel::chain_suffix`](super::Kernel).
    pub(crate) suffix: u32,
    pub(crate) settings: &'a RuleSettings,
}

/// All chains but those of classes.
pub(crate) fn chains() -> Vec<Chain> {
    let checks = CHECKS.iter().map(|name| Chain {
        name: (*name).into(),
        base: None,
    });
    let bases = BASE_CHAINS
        .iter()
        .map(|&(name, kind, hook, priority, _)| Chain {
            name: name.into(),
            base: Some(BaseChain {
                kind,
                hook,
                priority,
            }),
        });
    checks.chain(bases).collect()
}

impl Layout<'_> {
    /// Rules of all chains but those of classes.
    pub(crate) fn rules(&self) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(32);
        self.services(&mut rules);
        self.endpoint_checks(&mut rules);
        self.firewall(&mut rules);
        self.masquerading(&mut rules);
        for (base, kind, _, _, checks) in BASE_CHAINS {
            for check in checks {
                let jump = Statement::Jump((*check).into());
                // A nat chain sees the first packet of a connection only.
                let statements = match kind {
                    ChainKind::Filter => vec![Statement::CtStateNew, jump],
                    ChainKind::Nat => vec![jump],
                };
                rules.push(rule(base, statements));
            }
        }
        rules
    }

    /// Rules of a class chain. They end in drop: a connection that fell off the end would be
    /// confirmed without translation. The second dnat catches what chose a slot that is gone.
    pub(crate) fn class_rules(&self, shape: Shape, chain: &Name) -> Vec<Rule> {
        let mut rules = Vec::with_capacity(10);
        let mut push = |statements| {
            rules.push(Rule {
                chain: chain.clone(),
                statements,
                comment: None,
            });
        };
        match shape.kind {
            Kind::Internal => self
                .settings
                .masquerade
                .mark_internal()
                .map_or((), &mut push),
            Kind::External => push(vec![self.settings.masquerade.mark()]),
            // An address that is some Service's ClusterIP as well.
            Kind::ExternalLocal => self.mark_at_cluster_ips().map_or((), &mut push),
            Kind::Shortcut | Kind::Drop => {}
        }
        if shape.kind != Kind::Drop {
            push(vec![Statement::ScratchMask {
                mask: Route::GROUP_MASK,
            }]);
        }
        if shape.kind == Kind::ExternalLocal {
            if let Some(is_local) = self.settings.masquerade.local_match(false) {
                push(self.shortcut(shape, is_local));
            }
            push(vec![
                Statement::FibSaddrLocal,
                self.settings.masquerade.mark(),
            ]);
            push(self.shortcut(shape, Statement::FibSaddrLocal));
        }
        if shape.kind != Kind::Drop && shape.slots > 0 {
            if let Some(sticky) = shape.sticky {
                self.sticky_rules(shape, sticky, &mut push);
            } else {
                push(vec![self.dnat(shape.slots)]);
                push(vec![self.dnat(1)]);
            }
        }
        push(vec![Statement::Drop]);
        rules
    }

    /// First frontends with an address, then node ports.
    fn services(&self, rules: &mut Vec<Rule>) {
        let by_address = vec![
            self.scratch_from(
                vec![Field::Daddr, Field::L4Proto, Field::Dport],
                SetId::Services,
            ),
            self.dispatch(SetId::Dispatch),
        ];
        let mut by_port = self.node_port_match();
        by_port.push(self.scratch_from(vec![Field::L4Proto, Field::Dport], SetId::NodePorts));
        by_port.push(self.dispatch(SetId::Dispatch));
        for _ in 0..=u8::from(self.settings.repeat_lookup) {
            rules.push(rule("services", by_address.clone()));
        }
        for _ in 0..=u8::from(self.settings.repeat_lookup) {
            rules.push(rule("services", by_port.clone()));
        }
    }

    fn endpoint_checks(&self, rules: &mut Vec<Rule>) {
        let frontend = vec![Field::Daddr, Field::L4Proto, Field::Dport];
        rules.push(rule(
            "service-endpoints-check",
            vec![
                self.in_set(frontend.clone(), SetId::RejectServices, false),
                Statement::Reject,
            ],
        ));
        // Nothing is translated twice. What is not translated at all was dropped by its class.
        rules.push(rule(
            "service-endpoints-check",
            vec![
                Statement::CtStatusDnat,
                self.scratch_from(frontend, SetId::Services),
                Statement::Goto(FRONTEND_CLASS.into()),
            ],
        ));
        self.localhost_node_ports(rules);
        let node_port = vec![Field::L4Proto, Field::Dport];
        let served = || {
            if self.settings.all_addresses {
                self.not_loopback()
            } else {
                self.in_set(vec![Field::Daddr], SetId::NodePortIps, false)
            }
        };
        rules.push(rule(
            "nodeport-endpoints-check",
            vec![
                served(),
                self.in_set(node_port.clone(), SetId::RejectNodePorts, false),
                Statement::Reject,
            ],
        ));
        rules.push(rule(
            "nodeport-endpoints-check",
            vec![
                Statement::CtStatusDnat,
                served(),
                self.scratch_from(node_port, SetId::NodePorts),
                Statement::Goto(FRONTEND_CLASS.into()),
            ],
        ));
        let class = Field::Scratch {
            mask: Route::CLASS_MASK,
        };
        rules.push(rule(
            FRONTEND_CLASS,
            vec![
                self.in_set(vec![class], SetId::DropClasses, false),
                Statement::Drop,
            ],
        ));
        rules.push(rule(FRONTEND_CLASS, vec![Statement::ScratchReset]));
        rules.push(rule(
            "cluster-ips-check",
            vec![
                self.in_set(vec![Field::Daddr], SetId::ClusterIps, false),
                Statement::Reject,
            ],
        ));
        rules.push(rule(
            "cluster-ips-check",
            vec![
                self.in_set(vec![Field::Daddr], SetId::ServiceCidrs, false),
                Statement::Drop,
            ],
        ));
    }

    /// With endpoints or without, one rule each for its counter.
    fn localhost_node_ports(&self, rules: &mut Vec<Rule>) {
        for protocol in self.settings.localhost.rejected() {
            let here = [Statement::L4Proto(*protocol), self.loopback(false)];
            let key = || vec![Field::L4Proto, Field::Dport];
            let served = [
                self.scratch_from(key(), SetId::NodePorts),
                Statement::ScratchReset,
            ];
            let unserved = [self.in_set(key(), SetId::RejectNodePorts, false)];
            let end = [Statement::Counter, Statement::Reject];
            for condition in [&served[..], &unserved[..]] {
                let statements = [&here[..], condition, &end[..]].concat();
                rules.push(rule("nodeport-endpoints-check", statements));
            }
        }
    }

    /// Who is not in the list of the address is dropped, before anything is translated.
    fn firewall(&self, rules: &mut Vec<Rule>) {
        let restricted = vec![
            self.scratch_from(
                vec![Field::Daddr, Field::L4Proto, Field::Dport],
                SetId::Firewall,
            ),
            Statement::Goto(FIREWALL_SOURCE.into()),
        ];
        for _ in 0..=u8::from(self.settings.repeat_lookup) {
            rules.push(rule("firewall-check", restricted.clone()));
        }
        let source = vec![Field::Scratch { mask: u32::MAX }, Field::Saddr];
        let unlisted = self.in_set(source, SetId::SourceRanges, true);
        rules.push(rule(FIREWALL_SOURCE, vec![unlisted, Statement::Drop]));
        rules.push(rule(FIREWALL_SOURCE, vec![Statement::ScratchReset]));
    }

    fn masquerading(&self, rules: &mut Vec<Rule>) {
        let bits = self.settings.masquerade.bits();
        rules.push(rule(
            "masquerading",
            vec![
                Statement::MarkSet { mask: bits },
                Statement::MarkXor { bits },
                Statement::Masquerade,
            ],
        ));
        let both_ends = vec![Field::Saddr, Field::Daddr, Field::L4Proto, Field::Dport];
        rules.push(rule(
            "masquerading",
            vec![
                Statement::CtStatusDnat,
                self.in_set(both_ends, SetId::Hairpins, false),
                Statement::Masquerade,
            ],
        ));
    }

    /// What marks connections to ClusterIPs, where it is not certain that they go to one.
    fn mark_at_cluster_ips(&self) -> Option<Vec<Statement>> {
        let mark = self.settings.masquerade.mark_internal()?;
        let at_cluster_ip = self.in_set(vec![Field::Daddr], SetId::ClusterIps, false);
        Some([vec![at_cluster_ip], mark].concat())
    }

    fn node_port_match(&self) -> Vec<Statement> {
        if self.settings.all_addresses {
            vec![Statement::FibDaddrLocal, self.not_loopback()]
        } else {
            vec![self.in_set(vec![Field::Daddr], SetId::NodePortIps, false)]
        }
    }

    fn shortcut(&self, shape: Shape, condition: Statement) -> Vec<Statement> {
        let mut statements = vec![condition];
        if shape.sticky.is_some_and(|sticky| sticky.node_ports) {
            let bits = NODE_PORT_SHORTCUT;
            statements.push(Statement::ScratchOr { bits });
        }
        let whole = Field::Scratch { mask: u32::MAX };
        statements.push(self.scratch_from(vec![whole], SetId::Shortcuts));
        statements.push(self.dispatch(SetId::ShortcutDispatch));
        statements
    }

    fn dispatch(&self, map: SetId) -> Statement {
        Statement::VerdictMap {
            key: vec![Field::Scratch {
                mask: Route::CLASS_MASK,
            }],
            map: self.name(map),
        }
    }

    fn dnat(&self, slots: u32) -> Statement {
        Statement::Dnat {
            key: vec![
                Field::Scratch { mask: u32::MAX },
                Field::Random {
                    modulus: slots,
                    offset: 0,
                },
            ],
            map: self.name(SetId::Endpoints),
        }
    }

    fn not_loopback(&self) -> Statement {
        self.loopback(true)
    }

    fn loopback(&self, invert: bool) -> Statement {
        let prefix = match self.family {
            Family::Ipv4 => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(127, 0, 0, 0), 8)),
            Family::Ipv6 => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::LOCALHOST, 128)),
        };
        Statement::Daddr { prefix, invert }
    }

    fn in_set(&self, key: Vec<Field>, set: SetId, invert: bool) -> Statement {
        Statement::InSet {
            key,
            set: self.name(set),
            invert,
        }
    }

    fn scratch_from(&self, key: Vec<Field>, map: SetId) -> Statement {
        Statement::ScratchFromMap {
            key,
            map: self.name(map),
        }
    }

    fn name(&self, set: SetId) -> Name {
        self.sets[set as usize].name.clone()
    }
}

fn rule(chain: &str, statements: Vec<Statement>) -> Rule {
    Rule {
        chain: chain.into(),
        statements,
        comment: None,
    }
}
