//! Random clusters, small enough that everything collides with everything.

use core::net::IpAddr;
use core::time::Duration;

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use svc_planner::config::{
    Config, LocalDetector, LocalhostNodePorts, NoLocalEndpoint, NodePortAddresses,
};
use svc_planner::fake::Host;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, Node, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::{Family, Name};

const SERVICES: u8 = 5;
const SLICES: u8 = 6;
/// Pods, numbered from 1.
pub(crate) const PODS: u8 = 8;
const HERE: &str = "here";
pub(crate) const NODE_PORT: u16 = 30_000;

/// Port name, protocol and number.
pub(crate) const PORTS: [(&str, Protocol, u16); 5] = [
    ("http", Protocol::Tcp, 80),
    ("https", Protocol::Tcp, 443),
    ("dns", Protocol::Udp, 53),
    ("dns-tcp", Protocol::Tcp, 53),
    ("sctp", Protocol::Sctp, 80),
];

/// Ports of endpoints.
pub(crate) const TARGET_PORTS: [u16; 2] = [8080, 9090];

/// One thing that happens.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// The cluster changes.
    Change(Box<Change>),
    /// The next transaction is committed.
    Commit,
    /// The next transaction is refused.
    Reject,
    /// Time goes by.
    Wait(Duration),
    /// All that can be done now is committed.
    Settle,
    /// All is done, however long it takes.
    Drain,
    /// A new process takes over.
    Restart,
    /// A new process goes on from a snapshot.
    Resume,
    /// The configuration changes.
    Reconfigure(Box<Config>),
}

/// Addresses of one family.
pub(crate) fn address(family: Family, net: u8, host: u8) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::from([10, net, 0, host]),
        Family::Ipv6 => IpAddr::from([0xfd00, 0, 0, net.into(), 0, 0, 0, host.into()]),
    }
}

pub(crate) fn prefix(family: Family, net: u8) -> IpNet {
    let length = if family == Family::Ipv4 { 16 } else { 64 };
    IpNet::new(address(family, net, 0), length).unwrap()
}

pub(crate) const CLUSTER_NET: u8 = 96;
pub(crate) const EXTERNAL_NET: u8 = 200;
pub(crate) const BALANCER_NET: u8 = 201;
pub(crate) const NODE_NET: u8 = 168;
pub(crate) const POD_NET: u8 = 1;
pub(crate) const CLIENT_NET: u8 = 203;

fn name(prefix: &str, number: u8) -> ObjectName {
    ObjectName {
        namespace: "ns".into(),
        name: format!("{prefix}{number}").into(),
    }
}

/// Addresses of the host: two of the node, one of a host-network pod.
pub(crate) fn host(family: Family) -> Host {
    Host::new(host_addresses(family))
}

pub(crate) fn host_addresses(family: Family) -> Vec<IpAddr> {
    vec![address(family, NODE_NET, 1), address(family, NODE_NET, 2)]
}

fn affinity() -> impl Strategy<Value = Option<u32>> {
    prop_oneof![
        3 => Just(None),
        2 => Just(Some(10_800)),
        1 => Just(Some(5)),
    ]
}

fn policy() -> impl Strategy<Value = TrafficPolicy> {
    prop_oneof![2 => Just(TrafficPolicy::Cluster), 1 => Just(TrafficPolicy::Local)]
}

fn service(family: Family) -> impl Strategy<Value = Service> {
    let ports = vec(
        (0..PORTS.len(), prop_oneof![2 => Just(0), 1 => 1..3_u16]),
        1..4,
    );
    let outside = |net| {
        vec(1..3_u8, 0..2).prop_map(move |hosts| {
            hosts
                .iter()
                .map(|host| address(family, net, *host))
                .collect()
        })
    };
    (
        (0..SERVICES, 1..8_u8, option::of(0..3_u64)),
        (
            outside(EXTERNAL_NET),
            outside(BALANCER_NET),
            source_ranges(family),
        ),
        (policy(), policy(), affinity()),
        ports,
    )
        .prop_map(
            move |((number, ip, created), (external, balancer, ranges), policies, ports)| {
                let mut chosen: Vec<ServicePort> = Vec::new();
                for (template, node_port) in ports {
                    let (name, protocol, port) = PORTS[template];
                    if chosen.iter().all(|other| &*other.name != name) {
                        let offset = u16::try_from(template).unwrap() * 2;
                        let node_port = if node_port == 0 {
                            0
                        } else {
                            NODE_PORT + offset + node_port
                        };
                        let name = name.into();
                        chosen.push(ServicePort {
                            name,
                            protocol,
                            port,
                            node_port,
                        });
                    }
                }
                Service {
                    name: name("svc", number),
                    created,
                    uid: None,
                    cluster_ips: [address(family, CLUSTER_NET, ip)].into_iter().collect(),
                    external_ips: external,
                    load_balancer_ips: balancer,
                    source_ranges: ranges.into_iter().collect(),
                    internal_policy: policies.0,
                    external_policy: policies.1,
                    affinity: policies.2,
                    health_check_node_port: 0,
                    algorithm: Algorithm::Random,
                    ports: chosen.into_iter().collect(),
                }
            },
        )
}

/// None, ranges that overlap, name the node, or are of the other family.
fn source_ranges(family: Family) -> impl Strategy<Value = Vec<IpNet>> {
    let other = match family {
        Family::Ipv4 => Family::Ipv6,
        Family::Ipv6 => Family::Ipv4,
    };
    let everybody = |family| IpNet::new(address(family, 0, 0), 0).unwrap();
    let own = [
        prefix(family, CLIENT_NET),
        IpNet::from(address(family, CLIENT_NET, 1)),
        IpNet::from(address(family, POD_NET, 1)),
        prefix(family, NODE_NET),
    ];
    let ranges = select([own.as_slice(), &[prefix(other, CLIENT_NET)]].concat());
    let all = select(vec![everybody(family), everybody(other)]);
    prop_oneof![
        4 => Just(vec![]),
        4 => vec(ranges, 1..4),
        1 => all.prop_map(move |all| vec![own[0], all]),
    ]
}

/// A pod is where it is: its node depends on its number alone. The last is on the host's network.
pub(crate) fn pod(family: Family, number: u8) -> (IpAddr, Option<Box<str>>) {
    if number == PODS {
        return (address(family, NODE_NET, 1), Some(HERE.into()));
    }
    let node = match number % 4 {
        0 => None,
        1 | 2 => Some(HERE.into()),
        _ => Some("there".into()),
    };
    (address(family, POD_NET, number), node)
}

fn endpoint(family: Family) -> impl Strategy<Value = Endpoint> {
    let conditions = prop_oneof![
        6 => Just((true, true, false)),
        1 => Just((false, true, true)),
        1 => Just((false, false, true)),
        1 => Just((false, true, false)),
        1 => Just((false, false, false)),
    ];
    let hints = prop_oneof![
        4 => Just(vec![]),
        2 => Just(vec!["a"]),
        1 => Just(vec!["a", "b"]),
        1 => Just(vec!["b"]),
    ];
    let node_hints = prop_oneof![
        6 => Just(vec![]),
        1 => Just(vec![HERE]),
        1 => Just(vec!["there"]),
    ];
    (1..=PODS, conditions, hints, node_hints).prop_map(
        move |(number, (ready, serving, terminating), zones, nodes)| {
            let (address, node) = pod(family, number);
            Endpoint {
                address,
                ready,
                serving,
                terminating,
                node,
                zone_hints: zones.into_iter().map(Into::into).collect(),
                node_hints: nodes.into_iter().map(Into::into).collect(),
                weight: 1,
            }
        },
    )
}

fn slice(family: Family) -> impl Strategy<Value = EndpointSlice> {
    let ports = vec((0..PORTS.len(), select(TARGET_PORTS.to_vec())), 1..4);
    (0..SLICES, 0..SERVICES, ports, vec(endpoint(family), 0..5)).prop_map(
        |(number, service, ports, endpoints)| {
            let mut chosen: Vec<SlicePort> = Vec::new();
            for (template, port) in ports {
                let (name, protocol, _) = PORTS[template];
                if chosen.iter().all(|other| &*other.name != name) {
                    chosen.push(SlicePort {
                        name: name.into(),
                        protocol,
                        port,
                    });
                }
            }
            EndpointSlice {
                name: name("slice", number),
                service: format!("svc{service}").into(),
                triggers: Default::default(),
                ports: chosen.into_iter().collect(),
                endpoints,
            }
        },
    )
}

/// A Service, and another one whose endpoints are the addresses and node ports of the first.
pub(crate) fn frontends_as_endpoints(family: Family) -> impl Strategy<Value = Vec<Change>> {
    let picks = vec((any::<bool>(), any::<prop::sample::Index>()), PORTS.len());
    let behind = (vec(endpoint(family), 1..4), any::<[bool; 2]>());
    (service(family), behind, picks).prop_map(move |(mut target, behind, picks)| {
        (target.name, target.created) = (name("svc", 0), Some(0));
        let (mut endpoints, [policy_local, elsewhere]) = behind;
        if policy_local {
            let local = TrafficPolicy::Local;
            (target.internal_policy, target.external_policy) = (local, local);
        }
        if elsewhere {
            endpoints.retain(|endpoint| endpoint.node.as_deref() != Some(HERE));
        }
        let behind = EndpointSlice {
            name: name("slice", 0),
            service: target.name.name.clone(),
            triggers: Default::default(),
            ports: target
                .ports
                .iter()
                .map(|port| slice_port(port, 8080))
                .collect(),
            endpoints,
        };
        let through = Service {
            name: name("through", 0),
            external_ips: Default::default(),
            load_balancer_ips: Default::default(),
            source_ranges: Default::default(),
            cluster_ips: [address(family, CLUSTER_NET, 8)].into_iter().collect(),
            internal_policy: TrafficPolicy::Cluster,
            affinity: None,
            ports: target
                .ports
                .iter()
                .cloned()
                .map(without_node_port)
                .collect(),
            ..target.clone()
        };
        let addresses = target.cluster_ips.iter().chain(&target.external_ips);
        let addresses = addresses.chain(&target.load_balancer_ips);
        let addresses: Vec<IpAddr> = addresses.copied().collect();
        let slices = target
            .ports
            .iter()
            .zip(&picks)
            .map(|(port, (by_node_port, pick))| {
                let (address, number) = match (by_node_port, port.node_port) {
                    (true, number) if number != 0 => (*pick.get(&host_addresses(family)), number),
                    _ => (*pick.get(&addresses), port.port),
                };
                let mut slice = EndpointSlice {
                    name: name("through", 0),
                    service: through.name.name.clone(),
                    triggers: Default::default(),
                    ports: [slice_port(port, number)].into_iter().collect(),
                    endpoints: vec![Endpoint {
                        address,
                        ready: true,
                        serving: true,
                        terminating: false,
                        node: None,
                        zone_hints: Default::default(),
                        node_hints: Default::default(),
                        weight: 1,
                    }],
                };
                slice.name.name = format!("through-{}", port.name).into();
                Change::EndpointSlice(slice)
            });
        let mut changes: Vec<Change> = slices.collect();
        changes.push(Change::EndpointSlice(behind));
        changes.push(Change::Service(target));
        changes.push(Change::Service(through));
        changes
    })
}

fn slice_port(of: &ServicePort, number: u16) -> SlicePort {
    SlicePort {
        name: of.name.clone(),
        protocol: of.protocol,
        port: number,
    }
}

fn without_node_port(port: ServicePort) -> ServicePort {
    ServicePort {
        node_port: 0,
        ..port
    }
}

fn node(family: Family) -> impl Strategy<Value = Node> {
    (
        vec(1..3_u8, 0..3),
        option::of(POD_NET..POD_NET + 2),
        option::of(select(vec!["a", "b"])),
    )
        .prop_map(move |(addresses, pods, zone)| Node {
            name: HERE.into(),
            addresses: addresses
                .iter()
                .map(|host| address(family, NODE_NET, *host))
                .collect(),
            pod_cidrs: pods.iter().map(|net| prefix(family, *net)).collect(),
            zone: zone.map(Into::into),
            eligible: true,
        })
}

fn change(family: Family) -> impl Strategy<Value = Change> {
    prop_oneof![
        8 => service(family).prop_map(Change::Service),
        3 => (0..SERVICES).prop_map(|number| Change::ServiceGone(name("svc", number))),
        12 => slice(family).prop_map(Change::EndpointSlice),
        3 => (0..SLICES).prop_map(|number| Change::EndpointSliceGone(name("slice", number))),
        2 => node(family).prop_map(Change::Node),
        1 => Just(Change::NodeGone),
        1 => select(vec![CLUSTER_NET, EXTERNAL_NET]).prop_map(move |net| Change::ServiceCidr {
            name: format!("cidr{net}").into(),
            cidrs: [prefix(family, net)].into_iter().collect(),
        }),
        1 => select(vec![CLUSTER_NET, EXTERNAL_NET])
            .prop_map(|net| Change::ServiceCidrGone(format!("cidr{net}").into())),
        1 => (0..3_usize).prop_map(move |count| {
            Change::HostAddresses(host_addresses(family).into_iter().take(count).collect())
        }),
    ]
}

fn action(family: Family) -> impl Strategy<Value = Action> {
    prop_oneof![
        10 => change(family).prop_map(|change| Action::Change(Box::new(change))),
        4 => Just(Action::Commit),
        1 => Just(Action::Reject),
        3 => select(vec![0_u64, 1, 5, 100, 400, 1_000, 3_000])
            .prop_map(|ms| Action::Wait(Duration::from_millis(ms))),
        2 => Just(Action::Settle),
        1 => Just(Action::Drain),
        1 => Just(Action::Restart),
        1 => Just(Action::Resume),
        1 => config(family).prop_map(|config| Action::Reconfigure(Box::new(config))),
    ]
}

pub(crate) fn history(family: Family) -> impl Strategy<Value = Vec<Action>> {
    vec(action(family), 1..40)
}

pub(crate) fn config(family: Family) -> impl Strategy<Value = Config> {
    let local = prop_oneof![
        1 => Just(LocalDetector::None),
        2 => Just(LocalDetector::Cidr(prefix(family, POD_NET))),
        1 => Just(LocalDetector::NodeCidr),
        1 => Just(LocalDetector::Iifname(Name::from("cni0"))),
        1 => Just(LocalDetector::IifnamePrefix(Name::from("cni"))),
    ];
    let node_ports = prop_oneof![
        2 => Just(NodePortAddresses::PRIMARY),
        1 => Just(NodePortAddresses::ALL),
        1 => Just(NodePortAddresses::prefixes(vec![prefix(family, NODE_NET)])),
        1 => Just(NodePortAddresses::prefixes(vec![prefix(family, POD_NET)])),
        1 => (any::<[bool; 2]>(), any::<bool>()).prop_map(move |([primary, localhost], named)| {
            NodePortAddresses {
                primary,
                localhost,
                prefixes: if named { vec![prefix(family, NODE_NET)] } else { Vec::new() },
                ..NodePortAddresses::NONE
            }
        }),
    ];
    let localhost = prop_oneof![
        Just(LocalhostNodePorts::Off),
        Just(LocalhostNodePorts::Proxied),
        Just(LocalhostNodePorts::Rejected),
    ];
    let none_here = prop_oneof![
        2 => Just(NoLocalEndpoint::Drop),
        1 => Just(NoLocalEndpoint::Reject),
    ];
    let other = (any::<bool>(), any::<bool>(), 0..32_u8, localhost, none_here);
    (
        local,
        node_ports,
        other,
        prop_oneof![Just(3_usize), Just(1_000)],
    )
        .prop_map(
            |(
                local,
                node_port_addresses,
                (
                    masquerade_all,
                    repeat_lookup,
                    masquerade_bit,
                    localhost_node_ports,
                    no_local_endpoint,
                ),
                chunk,
            )| {
                Config {
                    node_name: HERE.into(),
                    masquerade_all,
                    masquerade_bit,
                    local,
                    node_port_addresses,
                    localhost_node_ports,
                    no_local_endpoint,
                    repeat_lookup,
                    chunk,
                    ..Config::default()
                }
            },
        )
}
