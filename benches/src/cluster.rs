//! Generated clusters: N Services with M endpoints each, as planner changes or as a JSON List.

use core::net::{IpAddr, Ipv4Addr};
use std::io::{self, Write};

use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};

/// N Services, M ready endpoints each, IPv4, TCP port 80.
#[derive(Debug, Clone, Copy)]
pub struct Cluster {
    /// Number of Services, at most 2^20.
    pub services: u32,
    /// Endpoints of each Service.
    pub endpoints: u32,
}

/// First ClusterIP, as a number.
const CLUSTER_IP: u32 = u32::from_be_bytes([10, 96, 1, 0]);
/// First endpoint address, as a number.
const ENDPOINT: u32 = u32::from_be_bytes([100, 0, 0, 0]);

impl Cluster {
    /// ClusterIP of Service `service`.
    #[must_use]
    pub fn cluster_ip(self, service: u32) -> Ipv4Addr {
        Ipv4Addr::from(CLUSTER_IP.wrapping_add(service))
    }

    /// Address of endpoint `endpoint` of Service `service`.
    #[must_use]
    pub fn endpoint(self, service: u32, endpoint: u32) -> Ipv4Addr {
        Ipv4Addr::from(ENDPOINT.wrapping_add(service * self.endpoints + endpoint))
    }

    /// Everything, in the order in which initial lists arrive: Services, then slices.
    pub fn changes(self) -> impl Iterator<Item = Change> {
        let services = (0..self.services).map(move |i| Change::Service(self.service(i)));
        let slices = (0..self.services).map(move |i| Change::EndpointSlice(self.slice(i)));
        services.chain(slices)
    }

    /// Service number `service`.
    #[must_use]
    pub fn service(self, service: u32) -> Service {
        Service {
            name: name(service),
            created: Some(1_700_000_000),
            uid: None,
            cluster_ips: [IpAddr::V4(self.cluster_ip(service))].into_iter().collect(),
            external_ips: Default::default(),
            load_balancer_ips: Default::default(),
            source_ranges: Default::default(),
            internal_policy: TrafficPolicy::Cluster,
            external_policy: TrafficPolicy::Cluster,
            affinity: None,
            health_check_node_port: 0,
            algorithm: Algorithm::Random,
            ports: [ServicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port: 80,
                node_port: 0,
            }]
            .into_iter()
            .collect(),
        }
    }

    /// The slice of Service number `service`.
    #[must_use]
    pub fn slice(self, service: u32) -> EndpointSlice {
        self.slice_at(service, |endpoint| self.endpoint(service, endpoint))
    }

    /// The slice of Service number `service` with other addresses.
    pub fn slice_at(self, service: u32, address: impl Fn(u32) -> Ipv4Addr) -> EndpointSlice {
        EndpointSlice {
            name: name(service),
            service: name(service).name,
            triggers: Default::default(),
            ports: [SlicePort {
                name: "http".into(),
                protocol: Protocol::Tcp,
                port: 8080,
            }]
            .into_iter()
            .collect(),
            endpoints: (0..self.endpoints)
                .map(|endpoint| Endpoint {
                    address: IpAddr::V4(address(endpoint)),
                    ready: true,
                    serving: true,
                    terminating: false,
                    node: None,
                    zone_hints: Default::default(),
                    node_hints: Default::default(),
                    weight: 1,
                })
                .collect(),
        }
    }

    /// The same as a `v1` List in JSON, one item a line, with the fields and labels that a real API
    /// server returns.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            r#"{{"apiVersion":"v1","kind":"List","metadata":{{"resourceVersion":""}},"items":["#
        )?;
        for i in 0..self.services {
            writeln!(
                out,
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","labels":{{"app":"bench-{i}"}},"name":"bench-{i}","namespace":"default","resourceVersion":"{i}","uid":"00000000-0000-4000-8000-{i:012x}"}},"spec":{{"clusterIP":"{ip}","clusterIPs":["{ip}"],"internalTrafficPolicy":"Cluster","ipFamilies":["IPv4"],"ipFamilyPolicy":"SingleStack","ports":[{{"name":"http","port":80,"protocol":"TCP","targetPort":8080}}],"selector":{{"app":"bench-{i}"}},"sessionAffinity":"None","type":"ClusterIP"}},"status":{{"loadBalancer":{{}}}}}},"#,
                ip = self.cluster_ip(i),
            )?;
        }
        for i in 0..self.services {
            write!(
                out,
                r#"{{"addressType":"IPv4","apiVersion":"discovery.k8s.io/v1","kind":"EndpointSlice","metadata":{{"creationTimestamp":"2026-01-01T00:00:00Z","generateName":"bench-{i}-","generation":1,"labels":{{"app":"bench-{i}","endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io","kubernetes.io/service-name":"bench-{i}"}},"name":"bench-{i}","namespace":"default","resourceVersion":"{i}","uid":"00000000-0000-4000-9000-{i:012x}"}},"ports":[{{"name":"http","port":8080,"protocol":"TCP"}}],"endpoints":["#,
            )?;
            for j in 0..self.endpoints {
                let comma = if j == 0 { "" } else { "," };
                write!(
                    out,
                    r#"{comma}{{"addresses":["{}"],"conditions":{{"ready":true,"serving":true,"terminating":false}},"nodeName":"node-{}","targetRef":{{"kind":"Pod","name":"bench-{i}-{j}","namespace":"default"}}}}"#,
                    self.endpoint(i, j),
                    j % 100,
                )?;
            }
            let comma = if i + 1 == self.services { "" } else { "," };
            writeln!(out, "]}}{comma}")?;
        }
        writeln!(out, "]}}")
    }
}

fn name(service: u32) -> ObjectName {
    ObjectName {
        namespace: "default".into(),
        name: format!("bench-{service}").into(),
    }
}
