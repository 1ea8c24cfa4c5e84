//! Which entries the kernel is asked for: those of the protocols concerned, and if one port only is
//! concerned, those to and from that port. Addresses are compared here: the kernel's filter takes IPv6
//! addresses for a match that differ (Linux 6.18, `ctnetlink_filter_match_tuple`).

use svc_planner::object::Protocol;

/// Which entries may be concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scope {
    udp: Ports,
    tcp: Ports,
    sctp: Ports,
}

/// Entries that the kernel is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Query {
    pub(super) protocol: Protocol,
    pub(super) select: Select,
}

/// By the ports of the original direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Select {
    /// All.
    All,
    /// To this port.
    To(u16),
    /// From this port.
    From(u16),
}

/// Ports of frontends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Ports {
    /// None.
    #[default]
    None,
    /// This one.
    One(u16),
    /// More.
    All,
}

impl Scope {
    pub(super) fn of(ports: impl IntoIterator<Item = (Protocol, u16)>) -> Self {
        let mut scope = Self::default();
        for (protocol, port) in ports {
            scope.add(protocol, port);
        }
        scope
    }

    fn add(&mut self, protocol: Protocol, port: u16) {
        let ports = match protocol {
            Protocol::Tcp => &mut self.tcp,
            Protocol::Sctp => &mut self.sctp,
            _ => &mut self.udp,
        };
        *ports = ports.with(Ports::One(port));
    }

    pub(super) fn with(self, other: Self) -> Self {
        Self {
            udp: self.udp.with(other.udp),
            tcp: self.tcp.with(other.tcp),
            sctp: self.sctp.with(other.sctp),
        }
    }

    /// What to ask the kernel for, one after the other.
    pub(super) fn queries(self) -> impl Iterator<Item = Query> {
        let protocols = [
            (Protocol::Udp, self.udp),
            (Protocol::Sctp, self.sctp),
            (Protocol::Tcp, self.tcp),
        ];
        protocols.into_iter().flat_map(|(protocol, ports)| {
            let queries = match ports {
                Ports::None => [None, None],
                Ports::All => [Some(Select::All), None],
                Ports::One(port) => {
                    let back = protocol != Protocol::Tcp;
                    [Some(Select::To(port)), back.then_some(Select::From(port))]
                }
            };
            let queries = queries.into_iter().flatten();
            queries.map(move |select| Query { protocol, select })
        })
    }
}

impl Ports {
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::None, ports) | (ports, Self::None) => ports,
            (a, b) if a == b => a,
            _ => Self::All,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_port_stays_single() {
        let scope = Scope::of([
            (Protocol::Udp, 53),
            (Protocol::Udp, 53),
            (Protocol::Tcp, 80),
        ]);
        let other = Scope::of([(Protocol::Tcp, 81)]);
        let query = |protocol, select| Query { protocol, select };
        assert!(scope.with(other).queries().eq([
            query(Protocol::Udp, Select::To(53)),
            query(Protocol::Udp, Select::From(53)),
            query(Protocol::Tcp, Select::All),
        ]));
        assert_eq!(Scope::default().queries().count(), 0);
    }
}
