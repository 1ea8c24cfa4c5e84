//! Which entries the kernel is asked for: those of the protocols concerned, and if one port only is
//! concerned, those to that port. Addresses are compared here: the kernel's filter takes IPv6
//! addresses for a match that differ (Linux 6.18, `ctnetlink_filter_match_tuple`).

use svc_planner::object::Protocol;

/// Which entries may be concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Scope {
    udp: Ports,
    tcp: Ports,
    sctp: Ports,
}

/// Destination ports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ports {
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

    /// Protocols with something to look for.
    pub(super) fn protocols(self) -> impl Iterator<Item = (Protocol, Ports)> {
        [
            (Protocol::Udp, self.udp),
            (Protocol::Sctp, self.sctp),
            (Protocol::Tcp, self.tcp),
        ]
        .into_iter()
        .filter(|(_, ports)| *ports != Ports::None)
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
        let all: Vec<_> = scope.with(other).protocols().collect();
        assert_eq!(
            all,
            [(Protocol::Udp, Ports::One(53)), (Protocol::Tcp, Ports::All)]
        );
    }
}
