//! Endpoints that are themselves what a Service is reached by: nothing is translated twice.

use super::super::packet::{Endpoint, Host, Origin, Packet, Transport, Verdict};
use super::{Oracle, Way};
use crate::config::NoLocalEndpoint;
use crate::object::{Protocol, Service, ServicePort, TrafficPolicy};

impl Oracle {
    /// What stops a packet on its way to an endpoint.
    pub(super) fn stopped(
        &self,
        packet: &Packet,
        host: &Host,
        endpoint: &Endpoint,
    ) -> Option<Verdict> {
        let Transport::Ports {
            protocol,
            destination,
            ..
        } = packet.transport
        else {
            return None;
        };
        let Endpoint { address, port } = *endpoint;
        // What is translated to itself counts as not translated.
        let is_translated = (address, port) != (packet.daddr, destination);
        let counts = |verdict: &Verdict| is_translated || *verdict == Verdict::Rejected;
        let by_frontend = || self.unserved_address(endpoint, protocol).filter(counts);
        let arrives = host.is_local(&address);
        if packet.origin == Origin::Local || !arrives {
            let forwarded = by_frontend().or_else(|| {
                let verdict = self.by_address(&address);
                matches!(verdict, Verdict::Rejected | Verdict::Dropped).then_some(verdict)
            });
            if forwarded.is_some() || !arrives {
                return forwarded;
            }
            // It comes back by the loopback device.
            if let Some((service, _, Way::LoadBalancer)) = self.owner(&address, protocol, port)
                && !self.admits(service, &packet.saddr)
            {
                return Some(Verdict::Dropped);
            }
        }
        let by_node_port = self.node_port_owner(&address, host, protocol, port);
        let by_node_port = by_node_port.and_then(|(s, p)| self.unserved(s, p, Way::External));
        by_node_port.filter(counts).or_else(by_frontend)
    }

    fn unserved_address(&self, to: &Endpoint, protocol: Protocol) -> Option<Verdict> {
        let (service, port, way) = self.owner(&to.address, protocol, to.port)?;
        self.unserved(service, port, way)
    }

    /// What is told those for whom a Service port has no endpoint, whoever they are: where an
    /// endpoint of this node is asked for, endpoints elsewhere do not count.
    fn unserved(&self, service: &Service, port: &ServicePort, way: Way) -> Option<Verdict> {
        let candidates = self.candidates(service, port);
        if self.cluster_endpoints(&candidates).is_empty() {
            return Some(Verdict::Rejected);
        }
        let policy = match way {
            Way::ClusterIp => service.internal_policy,
            Way::External | Way::LoadBalancer => service.external_policy,
        };
        let is_local = policy == TrafficPolicy::Local;
        if !is_local || !self.local_endpoints(&candidates).is_empty() {
            return None;
        }
        Some(match (way, self.config.no_local_endpoint) {
            (Way::ClusterIp, NoLocalEndpoint::Reject) => Verdict::Rejected,
            _ => Verdict::Dropped,
        })
    }
}
