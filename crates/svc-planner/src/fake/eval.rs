//! Sends a packet through the rules of a [`Kernel`], hook by hook.

mod lookup;

use core::net::IpAddr;
use core::time::Duration;

use super::choice::{Choose, Every, Given};
use super::clients::{Effect, Memory};
use super::kernel::Kernel;
use super::packet::{Endpoint, Host, Origin, Outcome, Packet, Step, Transport, Verdict};
use super::reader::{Reader, View};
use super::table::Table;
use crate::object::Protocol;
use crate::plan::{ChainKind, Datum, Hook, Name, Rule, Statement};

/// Deeper than any validated ruleset goes; a loop over goto that mixed generations could make ends
/// here.
const MAX_DEPTH: usize = 64;

impl Kernel {
    /// What becomes of a packet that meets the current state. `numbers` answers each `numgen`, the
    /// modulus taken off; 0 when it ends.
    #[must_use]
    pub fn evaluate(
        &self,
        packet: &Packet,
        host: &Host,
        numbers: &mut dyn Iterator<Item = u32>,
    ) -> Outcome {
        let table = self.table(packet.family());
        let generation = self.generation();
        let way = (generation, View::of(generation), Memory::Rows(self.now()));
        walk(table, packet, host, &mut Given(numbers), way).outcome
    }

    /// As [`evaluate`](Self::evaluate), at a time, and the rules' changes to dynamic maps remain.
    pub fn send(
        &mut self,
        packet: &Packet,
        host: &Host,
        numbers: &mut dyn Iterator<Item = u32>,
        now: Duration,
    ) -> Outcome {
        self.advance(now);
        let (table, generation) = (self.table(packet.family()), self.generation());
        let way = (generation, View::of(generation), Memory::Rows(self.now()));
        let walked = walk(table, packet, host, &mut Given(numbers), way);
        self.remember(packet.family(), &walked.effects);
        walked.outcome
    }

    /// Everything that can become of a packet, for all random numbers, each with its probability.
    #[must_use]
    pub fn outcomes(&self, packet: &Packet, host: &Host) -> Vec<(Outcome, f64)> {
        outcomes(
            self,
            packet,
            host,
            self.generation(),
            View::of(self.generation()),
            Memory::Rows(self.now()),
        )
    }
}

/// Everything that can become of a packet that enters at generation `first`, each with a weight: a
/// probability if no other generation is in sight.
pub(super) fn outcomes(
    kernel: &Kernel,
    packet: &Packet,
    host: &Host,
    first: u64,
    view: View<'_>,
    memory: Memory<'_>,
) -> Vec<(Outcome, f64)> {
    let table = kernel.table(packet.family());
    let mut every = Every::default();
    let mut outcomes = Vec::new();
    loop {
        let walked = walk(table, packet, host, &mut every, (first, view, memory));
        if walked.possible {
            outcomes.push((walked.outcome, every.share()));
        }
        if !every.advance() {
            return outcomes;
        }
    }
}

/// One way through the rules.
struct Walked {
    outcome: Outcome,
    /// Whether a packet can take it.
    possible: bool,
    effects: Vec<Effect>,
}

/// Goes one way through the rules, entering at a generation with others in view.
fn walk(
    table: &Table,
    packet: &Packet,
    host: &Host,
    choose: &mut dyn Choose,
    (first, view, memory): (u64, View<'_>, Memory<'_>),
) -> Walked {
    let mut walk = Walk {
        reader: Reader::new(table, choose, first, view),
        memory,
        effects: Vec::new(),
        packet,
        host,
        daddr: packet.daddr,
        ports: match packet.transport {
            Transport::Ports {
                protocol,
                destination,
                ..
            } => Some((protocol, destination)),
            Transport::Other(_) => None,
        },
        mark: packet.mark,
        scratch: 0,
        translated: None,
        masqueraded: false,
        entered: false,
        trace: Vec::new(),
    };
    let verdict = walk.host();
    let possible = walk.reader.is_possible();
    let Walk {
        scratch,
        mark,
        trace,
        effects,
        ..
    } = walk;
    Walked {
        outcome: Outcome {
            verdict,
            scratch,
            mark,
            trace,
        },
        possible,
        effects,
    }
}

/// A packet on its way.
struct Walk<'a> {
    reader: Reader<'a>,
    memory: Memory<'a>,
    effects: Vec<Effect>,
    packet: &'a Packet,
    host: &'a Host,
    /// Current destination.
    daddr: IpAddr,
    /// Protocol and current destination port, if it has ports.
    ports: Option<(Protocol, u16)>,
    mark: u32,
    scratch: u32,
    translated: Option<Endpoint>,
    masqueraded: bool,
    entered: bool,
    trace: Vec<Step>,
}

/// How a rule or chain ends.
enum End {
    /// The rule did not match to its end, or the chain ran out: what follows goes on.
    Next,
    /// All of the rule was executed, and it has no verdict: what follows goes on.
    Through,
    /// Accepted, by a translation.
    Accept,
    Drop,
    Reject,
    Jump(Name),
    Goto(Name),
}

impl Walk<'_> {
    fn host(&mut self) -> Verdict {
        let stopped = match self.packet.origin {
            Origin::Interface(_) => self.arriving(),
            Origin::Local => self.leaving(),
        };
        if let Some(verdict) = stopped {
            return verdict;
        }
        match self.translated {
            Some(endpoint) => Verdict::Delivered {
                endpoint,
                masqueraded: self.masqueraded,
            },
            None => Verdict::Untouched {
                masqueraded: self.masqueraded,
            },
        }
    }

    fn arriving(&mut self) -> Option<Verdict> {
        self.hook(Hook::Prerouting, true).or_else(|| {
            if self.host.is_local(&self.daddr) {
                return self.hook(Hook::Input, true);
            }
            self.hook(Hook::Forward, true)
                .or_else(|| self.hook(Hook::Postrouting, true))
        })
    }

    /// A packet to a local address comes back through the loopback device with the connection it
    /// has, so nat chains do not see it again.
    fn leaving(&mut self) -> Option<Verdict> {
        self.hook(Hook::Output, true)
            .or_else(|| self.hook(Hook::Postrouting, true))
            .or_else(|| {
                if self.host.is_local(&self.daddr) {
                    self.hook(Hook::Prerouting, false)
                        .or_else(|| self.hook(Hook::Input, false))
                } else {
                    None
                }
            })
    }

    fn hook(&mut self, hook: Hook, nat: bool) -> Option<Verdict> {
        let mut nat = nat;
        for (base, chain) in self.reader.base_chains(hook) {
            if base.kind == ChainKind::Nat && !nat {
                continue;
            }
            if self.entered {
                self.reader.next_base_chain();
            }
            self.entered = true;
            self.trace.push(Step::Hook {
                hook,
                chain: chain.clone(),
            });
            match self.chain(&chain, 0) {
                End::Drop => return Some(Verdict::Dropped),
                End::Reject => return Some(Verdict::Rejected),
                // The first nat chain that translates is the hook's last.
                End::Accept if base.kind == ChainKind::Nat => nat = false,
                End::Accept | End::Next | End::Through | End::Jump(_) | End::Goto(_) => {}
            }
        }
        None
    }

    fn chain(&mut self, name: &Name, depth: usize) -> End {
        if depth > MAX_DEPTH {
            return End::Drop;
        }
        if depth > 0 {
            self.trace.push(Step::Chain {
                chain: name.clone(),
            });
        }
        let Some(rules) = self.reader.rules(name) else {
            return End::Next;
        };
        for (index, rule) in rules.iter().enumerate() {
            let end = self.rule(rule);
            if !matches!(end, End::Next) {
                self.trace.push(Step::Rule {
                    chain: name.clone(),
                    index,
                });
            }
            match end {
                End::Next | End::Through => {}
                End::Jump(to) => match self.chain(&to, depth + 1) {
                    End::Next => {}
                    end => return end,
                },
                End::Goto(to) => return self.chain(&to, depth + 1),
                end => return end,
            }
        }
        End::Next
    }

    fn rule(&mut self, rule: &Rule) -> End {
        for statement in &rule.statements {
            let matched = match statement {
                Statement::CtStateNew => true,
                Statement::CtStatusDnat => self.is_dnat(),
                Statement::Saddr { prefix, invert } => {
                    prefix.contains(&self.packet.saddr) != *invert
                }
                Statement::Daddr { prefix, invert } => prefix.contains(&self.daddr) != *invert,
                Statement::Iifname {
                    name,
                    prefix,
                    invert,
                } => self.came_by(name, *prefix) != *invert,
                Statement::L4Proto(protocol) => self.ports.is_some_and(|(own, _)| own == *protocol),
                Statement::Counter => true,
                Statement::FibSaddrLocal => self.host.is_local(&self.packet.saddr),
                Statement::FibDaddrLocal => self.host.is_local(&self.daddr),
                Statement::MarkSet { mask } => self.mark & mask != 0,
                Statement::MarkOr { bits } => {
                    self.mark |= bits;
                    true
                }
                Statement::MarkXor { bits } => {
                    self.mark ^= bits;
                    true
                }
                Statement::InSet { key, set, invert } => self.lookup(key, set).is_some() != *invert,
                Statement::ScratchFromMap { key, map } => match self.lookup(key, map) {
                    Some(Datum::Route(route)) => {
                        self.scratch = route.0;
                        true
                    }
                    Some(Datum::List(list)) => {
                        self.scratch = list;
                        true
                    }
                    Some(Datum::EndpointId(id)) => {
                        self.scratch = id.0;
                        true
                    }
                    _ => false,
                },
                Statement::ScratchReset => {
                    self.scratch = 0;
                    true
                }
                Statement::ScratchMask { mask } => {
                    self.scratch &= mask;
                    true
                }
                Statement::ScratchOr { bits } => {
                    self.scratch |= bits;
                    true
                }
                Statement::ScratchSet { mask } => self.scratch & mask != 0,
                Statement::Stick { key, map, seconds } => self.stick(key, map, *seconds),
                Statement::Unstick { key, map } => {
                    if let Some(key) = self.key(key, map) {
                        self.effects.push(Effect {
                            map: map.clone(),
                            key,
                            stick: None,
                        });
                    }
                    true
                }
                Statement::VerdictMap { key, map } => match self.lookup(key, map) {
                    Some(Datum::Goto(chain)) => return End::Goto(chain),
                    Some(Datum::Drop) => return End::Drop,
                    _ => false,
                },
                Statement::Dnat { key, map } => match self.lookup(key, map) {
                    Some(Datum::Endpoint { address, port }) => {
                        self.scratch = 0;
                        self.daddr = address;
                        if let Some((_, destination)) = &mut self.ports {
                            *destination = port;
                        }
                        self.translated = Some(Endpoint { address, port });
                        return End::Accept;
                    }
                    _ => false,
                },
                Statement::Jump(chain) => return End::Jump(chain.clone()),
                Statement::Goto(chain) => return End::Goto(chain.clone()),
                Statement::Drop => return End::Drop,
                Statement::Reject => return End::Reject,
                Statement::Masquerade => {
                    self.masqueraded = true;
                    return End::Accept;
                }
            };
            if !matched {
                return End::Next;
            }
        }
        End::Through
    }

    /// A translation to what it was is none: `nf_nat_setup_info` compares the tuples.
    fn is_dnat(&self) -> bool {
        let sent_to = match self.packet.transport {
            Transport::Ports { destination, .. } => Some(destination),
            Transport::Other(_) => None,
        };
        self.translated.is_some_and(|to| {
            to.address != self.packet.daddr || sent_to.is_some_and(|port| port != to.port)
        })
    }

    /// Locally generated packets have no input interface.
    fn came_by(&self, name: &str, prefix: bool) -> bool {
        match &self.packet.origin {
            Origin::Local => false,
            Origin::Interface(interface) if prefix => interface.starts_with(name),
            Origin::Interface(interface) => &**interface == name,
        }
    }
}
