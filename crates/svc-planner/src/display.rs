//! Plans as text: one line per operation, spelled like commands of the nft program. Class and group
//! numbers are printed apart, so the text is to be read, not to be fed to nft.

use core::fmt::{self, Display, Formatter};

use crate::object::Protocol;
use crate::plan::{
    BaseChain, Chain, ChainKind, DataType, Datum, EndpointId, Family, Field, Hook, Key, KeyType,
    Route, Row, Rule, Set, SetChange, Statement, Transaction,
};

/// A part of a plan together with the family it is for, see [`Transaction::family`].
#[derive(Debug, Clone, Copy)]
pub struct Of<'a, T> {
    family: Family,
    part: &'a T,
}

impl<'a, T> Of<'a, T> {
    /// Prints `part` as it would be spelled in a table of `family`.
    pub const fn new(family: Family, part: &'a T) -> Self {
        Self { family, part }
    }

    const fn other<U>(&self, part: &'a U) -> Of<'a, U> {
        Of::new(self.family, part)
    }
}

impl Display for Transaction {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let family = self.family;
        if self.add_table {
            writeln!(f, "add table {family} kube-proxy")?;
        }
        for chain in &self.flush_chains {
            writeln!(f, "flush chain {family} kube-proxy {chain}")?;
        }
        for chain in &self.replace_chains {
            writeln!(f, "delete chain {family} kube-proxy {chain}")?;
        }
        for set in &self.add_sets {
            writeln!(f, "{}", Of::new(family, set))?;
        }
        for chain in &self.add_chains {
            writeln!(f, "{}", Of::new(family, chain))?;
        }
        for change in &self.elements {
            Of::new(family, change).fmt(f)?;
        }
        for rule in &self.add_rules {
            writeln!(f, "{}", Of::new(family, rule))?;
        }
        for set in &self.delete_sets {
            writeln!(f, "delete set {family} kube-proxy {set}")?;
        }
        for chain in &self.delete_chains {
            writeln!(f, "delete chain {family} kube-proxy {chain}")?;
        }
        if self.delete_table {
            writeln!(f, "delete table {family} kube-proxy")?;
        }
        Ok(())
    }
}

impl Display for Of<'_, Set> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Set {
            name,
            key,
            data,
            interval,
            dynamic,
            size,
        } = self.part;
        let noun = if *data == DataType::None {
            "set"
        } else {
            "map"
        };
        write!(f, "add {noun} {} kube-proxy {name} {{ type ", self.family)?;
        f.write_str(&self.key_type(*key))?;
        match data {
            DataType::None => {}
            DataType::Verdict => f.write_str(" : verdict")?,
            DataType::Route | DataType::List | DataType::EndpointId => f.write_str(" : classid")?,
            DataType::Endpoint => write!(f, " : {} . inet_service", self.address())?,
        }
        f.write_str(";")?;
        let flags: Vec<&str> = [("interval", *interval), ("dynamic,timeout", *dynamic)]
            .into_iter()
            .filter_map(|(flag, is_set)| is_set.then_some(flag))
            .collect();
        if !flags.is_empty() {
            write!(f, " flags {};", flags.join(","))?;
        }
        if let Some(size) = size {
            write!(f, " size {size};")?;
        }
        f.write_str(" }")
    }
}

impl<T> Of<'_, T> {
    const fn address(&self) -> &'static str {
        match self.family {
            Family::Ipv4 => "ipv4_addr",
            Family::Ipv6 => "ipv6_addr",
        }
    }

    fn key_type(&self, key: KeyType) -> String {
        let address = self.address();
        match key {
            KeyType::Address => address.into(),
            KeyType::Frontend => format!("{address} . inet_proto . inet_service"),
            KeyType::NodePort => "inet_proto . inet_service".into(),
            KeyType::Class | KeyType::Group | KeyType::EndpointId => "classid".into(),
            KeyType::Slot | KeyType::State => "classid . mark".into(),
            KeyType::Hairpin | KeyType::Client => {
                format!("{address} . {address} . inet_proto . inet_service")
            }
            KeyType::Source => format!("classid . {address}"),
        }
    }
}

impl Display for Of<'_, Chain> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Chain { name, base } = self.part;
        write!(f, "add chain {} kube-proxy {name}", self.family)?;
        match base {
            None => Ok(()),
            Some(BaseChain {
                kind,
                hook,
                priority,
            }) => write!(f, " {{ type {kind} hook {hook} priority {priority}; }}"),
        }
    }
}

/// One line per row, each with its end of line.
impl Display for Of<'_, SetChange> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (family, set) = (self.family, &self.part.set);
        for key in &self.part.delete {
            writeln!(f, "delete element {family} kube-proxy {set} {{ {key} }}")?;
        }
        for row in &self.part.add {
            writeln!(f, "add element {family} kube-proxy {set} {{ {row} }}")?;
        }
        Ok(())
    }
}

impl Display for Row {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.datum {
            Datum::None => self.key.fmt(f),
            Datum::Stuck {
                endpoint,
                milliseconds,
            } => write!(f, "{} timeout {milliseconds}ms : {endpoint}", self.key),
            datum => write!(f, "{} : {datum}", self.key),
        }
    }
}

impl Display for Key {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Prefix(prefix) => prefix.fmt(f),
            Self::Frontend {
                address,
                protocol,
                port,
            } => write!(f, "{address} . {protocol} . {port}"),
            Self::NodePort { protocol, port } => write!(f, "{protocol} . {port}"),
            Self::Class(class) => write!(f, "class {}", Route(*class).class()),
            Self::Slot { group, slot } => write!(f, "group {group} . slot {slot}"),
            Self::Group(group) => write!(f, "group {group}"),
            Self::State { instance, sequence } => {
                write!(f, "instance {instance:#010x} . {sequence}")
            }
            Self::Hairpin {
                address,
                protocol,
                port,
            } => write!(f, "{address} . {address} . {protocol} . {port}"),
            Self::Source { list, range } => write!(f, "list {list} . {range}"),
            Self::Client {
                client,
                address,
                protocol,
                port,
            } => write!(f, "{client} . {address} . {protocol} . {port}"),
            Self::EndpointId(id) => id.fmt(f),
        }
    }
}

impl Display for EndpointId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "endpoint {}", self.0)
    }
}

impl Display for Datum {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Goto(chain) => write!(f, "goto {chain}"),
            Self::Drop => f.write_str("drop"),
            Self::Route(route) => route.fmt(f),
            Self::Endpoint { address, port } => write!(f, "{address} . {port}"),
            Self::List(list) => write!(f, "list {list}"),
            Self::EndpointId(id) | Self::Stuck { endpoint: id, .. } => id.fmt(f),
        }
    }
}

impl Display for Route {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "class {} group {}", self.class(), self.group())
    }
}

impl Display for Of<'_, Rule> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Rule {
            chain,
            statements,
            comment,
        } = self.part;
        write!(f, "add rule {} kube-proxy {chain}", self.family)?;
        for statement in statements {
            write!(f, " {}", self.other(statement))?;
        }
        if let Some(comment) = comment {
            write!(f, " comment {comment:?}")?;
        }
        Ok(())
    }
}

impl Display for Of<'_, Statement> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let ip = self.family;
        let not = |invert: &bool| if *invert { "!= " } else { "" };
        let key = |fields| Fields(ip, fields);
        match self.part {
            Statement::CtStateNew => f.write_str("ct state new"),
            Statement::CtStatusDnat => f.write_str("ct status dnat"),
            Statement::Saddr { prefix, invert } => write!(f, "{ip} saddr {}{prefix}", not(invert)),
            Statement::Daddr { prefix, invert } => write!(f, "{ip} daddr {}{prefix}", not(invert)),
            Statement::Iifname {
                name,
                prefix,
                invert,
            } => {
                let star = if *prefix { "*" } else { "" };
                write!(f, "iifname {}\"{name}{star}\"", not(invert))
            }
            Statement::FibSaddrLocal => f.write_str("fib saddr type local"),
            Statement::FibDaddrLocal => f.write_str("fib daddr type local"),
            Statement::MarkSet { mask } => write!(f, "meta mark & {mask:#010x} != 0"),
            Statement::MarkOr { bits } => write!(f, "meta mark set meta mark | {bits:#010x}"),
            Statement::MarkXor { bits } => write!(f, "meta mark set meta mark ^ {bits:#010x}"),
            Statement::InSet {
                key: fields,
                set,
                invert,
            } => write!(f, "{} {}@{set}", key(fields), not(invert)),
            Statement::ScratchFromMap { key: fields, map } => {
                write!(f, "meta priority set {} map @{map}", key(fields))
            }
            Statement::L4Proto(protocol) => write!(f, "meta l4proto {protocol}"),
            Statement::Counter => f.write_str("counter"),
            Statement::ScratchReset => f.write_str("meta priority set 0"),
            Statement::ScratchMask { mask } => {
                write!(f, "meta priority set meta priority & {mask:#010x}")
            }
            Statement::ScratchOr { bits } => {
                write!(f, "meta priority set meta priority | {bits:#010x}")
            }
            Statement::ScratchSet { mask } => write!(f, "meta priority & {mask:#010x} != 0"),
            Statement::Stick {
                key: fields,
                map,
                seconds,
            } => {
                let key = key(fields);
                write!(
                    f,
                    "update @{map} {{ {key} timeout {seconds}s : meta priority }}"
                )
            }
            Statement::Unstick { key: fields, map } => {
                write!(f, "delete @{map} {{ {} : meta priority }}", key(fields))
            }
            Statement::VerdictMap { key: fields, map } => {
                write!(f, "{} vmap @{map}", key(fields))
            }
            Statement::Dnat { key: fields, map } => {
                write!(
                    f,
                    "meta priority set 0 dnat {ip} to {} map @{map}",
                    key(fields)
                )
            }
            Statement::Jump(chain) => write!(f, "jump {chain}"),
            Statement::Goto(chain) => write!(f, "goto {chain}"),
            Statement::Drop => f.write_str("drop"),
            Statement::Reject => f.write_str(match ip {
                Family::Ipv4 => "reject with icmp port-unreachable",
                Family::Ipv6 => "reject with icmpv6 port-unreachable",
            }),
            Statement::Masquerade => f.write_str("masquerade fully-random"),
        }
    }
}

/// A concatenated key.
struct Fields<'a>(Family, &'a [Field]);

impl Display for Fields<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self(ip, fields) = self;
        for (index, field) in fields.iter().enumerate() {
            if index > 0 {
                f.write_str(" . ")?;
            }
            match field {
                Field::Saddr => write!(f, "{ip} saddr"),
                Field::Daddr => write!(f, "{ip} daddr"),
                Field::L4Proto => f.write_str("meta l4proto"),
                Field::Dport => f.write_str("th dport"),
                Field::Scratch { mask: u32::MAX } => f.write_str("meta priority"),
                Field::Scratch { mask } => write!(f, "meta priority & {mask:#010x}"),
                Field::Random { modulus, offset: 0 } => write!(f, "numgen random mod {modulus}"),
                Field::Random { modulus, offset } => {
                    write!(f, "numgen random mod {modulus} offset {offset}")
                }
            }?;
        }
        Ok(())
    }
}

impl Display for Family {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ipv4 => "ip",
            Self::Ipv6 => "ip6",
        })
    }
}

impl Display for ChainKind {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Filter => "filter",
            Self::Nat => "nat",
        })
    }
}

impl Display for Hook {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        })
    }
}

impl Display for Protocol {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

#[cfg(test)]
mod tests;
