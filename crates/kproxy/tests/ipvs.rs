//! After a kube-proxy in mode ipvs: what it has in the kernel serves until ours does, then it goes.
//!
//! On a kernel without IPVS or dummy links nothing can be left, and nothing is found. With them, and with the
//! real kube-proxy: `cargo xtask kernels 6.12. --run kproxy:ipvs --kube-proxy`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

#[path = "ipvs/kube_proxy.rs"]
mod kube_proxy;
mod objects;

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use core::time::Duration;
use std::{fs, io, thread};

use kproxy::engine::{Engine, Wait};
use kproxy::leftovers::{self, IPVS_LINK, Options};
use kproxy::netns::Netns;
use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkFlags, LinkInfo, LinkMessage};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE};
use netlink_sys::{Socket, SocketAddr as Peer};
use netns_lab::{Probe, Topology, Transport, Verdict, add_address};
use svc_planner::Config;

/// As `objects` numbers it.
const SERVICE: u16 = 1;
const CLUSTER_IP: Ipv4Addr = Ipv4Addr::new(10, 96, 0, 1);
/// Where somebody else's virtual service is, in `ipvs.excludeCIDRs`.
const OTHERS_IP: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 9);
const POD: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);
const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 0, 2);
const PATIENCE: Duration = Duration::from_secs(30);

fn receive(socket: &Socket) -> Vec<u8> {
    socket.recv_from_full().unwrap().0
}

/// Makes the link that kube-proxy makes; false where the kernel has no such links.
fn add_link() -> bool {
    let mut link = LinkMessage::default();
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    link.attributes
        .push(LinkAttribute::IfName(IPVS_LINK.to_owned()));
    let info = vec![LinkInfo::Kind(InfoKind::Dummy)];
    link.attributes.push(LinkAttribute::LinkInfo(info));
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::NewLink(link));
    request.header.flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    let mut socket = Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.send_to(&bytes, &Peer::new(0, 0), 0).unwrap();
    let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&receive(&socket)).unwrap();
    match reply.payload {
        NetlinkPayload::Error(error) if error.code.is_some() => {
            let error = error.to_io();
            assert_eq!(error.raw_os_error(), Some(95), "EOPNOTSUPP: {error}");
            false
        }
        _ => true,
    }
}

/// An attribute, padded.
fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let len = u16::try_from(payload.len() + 4).unwrap();
    let mut bytes = [len.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Sends a generic netlink request and returns the payload of the first reply; `None` is success.
fn generic(family: u16, command: u8, attributes: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut socket = Socket::new(NETLINK_GENERIC).unwrap();
    socket.bind_auto().unwrap();
    let len = u32::try_from(20 + attributes.len()).unwrap();
    let mut bytes = len.to_ne_bytes().to_vec();
    bytes.extend(family.to_ne_bytes());
    bytes.extend((NLM_F_REQUEST | NLM_F_ACK).to_ne_bytes());
    bytes.extend([0; 8]);
    bytes.extend([command, 1, 0, 0]);
    bytes.extend(attributes);
    socket.send_to(&bytes, &Peer::new(0, 0), 0).unwrap();
    let reply = receive(&socket);
    if u16::from_ne_bytes([reply[4], reply[5]]) != 2 {
        return Ok(Some(reply[20..].to_vec()));
    }
    match i32::from_ne_bytes(reply[16..20].try_into().unwrap()) {
        0 => Ok(None),
        error => Err(io::Error::from_raw_os_error(-error)),
    }
}

/// The number of generic netlink's family IPVS.
fn ipvs() -> Option<u16> {
    let reply = generic(0x10, 3, &attribute(2, b"IPVS\0")).ok()??;
    let mut rest = reply.as_slice();
    while let [a, b, c, d, ..] = *rest {
        let len = usize::from(u16::from_ne_bytes([a, b]));
        if u16::from_ne_bytes([c, d]) == 1 {
            return Some(u16::from_ne_bytes([rest[4], rest[5]]));
        }
        rest = rest.get(len.next_multiple_of(4)..)?;
    }
    None
}

/// The part of a request that names a virtual service at port 80.
fn service(address: Ipv4Addr, more: &[u8]) -> Vec<u8> {
    let mut wide = [0; 16];
    wide[..4].copy_from_slice(&address.octets());
    let parts = [
        attribute(1, &2_u16.to_ne_bytes()),
        attribute(2, &6_u16.to_ne_bytes()),
        attribute(3, &wide),
        attribute(4, &80_u16.to_be_bytes()),
        more.to_vec(),
    ];
    attribute(1 | 0x8000, &parts.concat())
}

/// A virtual service with the pod as its destination, masqueraded, as kube-proxy makes them.
fn add_service(family: u16, address: Ipv4Addr) {
    let parts = [
        attribute(6, b"rr\0"),
        attribute(7, &[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        attribute(8, &0_u32.to_ne_bytes()),
        attribute(9, &u32::MAX.to_ne_bytes()),
    ];
    generic(family, 1, &service(address, &parts.concat())).unwrap();
    let mut wide = [0; 16];
    wide[..4].copy_from_slice(&POD.octets());
    let destination = [
        attribute(1, &wide),
        attribute(2, &8080_u16.to_be_bytes()),
        attribute(3, &0_u32.to_ne_bytes()),
        attribute(4, &1_u32.to_ne_bytes()),
        attribute(5, &0_u32.to_ne_bytes()),
        attribute(6, &0_u32.to_ne_bytes()),
        attribute(11, &2_u16.to_ne_bytes()),
    ];
    let destination = attribute(2 | 0x8000, &destination.concat());
    let request = [service(address, &[]), destination].concat();
    generic(family, 5, &request).unwrap();
}

/// Addresses of the virtual services in the calling thread's namespace, in hex as the kernel shows them.
fn services() -> Vec<String> {
    let text = fs::read_to_string("/proc/thread-self/net/ip_vs").unwrap_or_default();
    let lines = text.lines().filter_map(|line| line.strip_prefix("TCP  "));
    lines
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect()
}

fn hex(address: Ipv4Addr) -> String {
    format!("{:08X}", u32::from(address))
}

fn topology() -> Topology {
    let topology = Topology::builder()
        .node([IpAddr::from(NODE)])
        .host("client", [IpAddr::from([10, 0, 9, 1])])
        .host("pod", [IpAddr::from(POD)])
        .build()
        .unwrap();
    topology.serve("pod", Transport::Tcp, 8080).unwrap();
    topology
}

/// A name for the node's namespace that any thread may use.
fn netns(topology: &Topology) -> Netns {
    let path = topology.node().run(|| {
        let thread = rustix::thread::gettid().as_raw_nonzero();
        format!("/proc/{thread}/ns/net")
    });
    Netns::from(path.unwrap().as_str())
}

fn options() -> Options {
    Options {
        exclude: vec!["198.51.100.0/24".parse().unwrap()],
        ..Options::default()
    }
}

/// Programs the Service, as `run` would.
fn programmed(netns: &Netns) -> Engine {
    let mut engine = Engine::open(netns, |_| Config::default()).unwrap();
    for change in objects::served(SERVICE) {
        engine.apply(change);
    }
    while let Wait::Until(time) = engine.sync(|_, _| ()).unwrap() {
        if engine.is_complete() {
            break;
        }
        // The planner's deadlines are points in time: there is no event to wait for.
        thread::sleep(time.saturating_sub(engine.clock().now()));
    }
    engine
}

/// Whether a client gets an answer: the address and the endpoint come one after the other.
fn is_served(topology: &Topology) -> bool {
    let probe = Probe {
        transport: Transport::Tcp,
        to: SocketAddr::new(CLUSTER_IP.into(), 80),
    };
    let verdict = topology.probe("client", probe, Duration::from_secs(1));
    matches!(verdict, Ok(Verdict::Answered(answer)) if &*answer.by == "pod")
}

/// Programs ours and removes what was there, while a client connects all the time.
fn goes_without_a_gap(topology: &Topology, netns: &Netns) {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    // For whoever reads that it failed: before our rules, while and after they are made, while and after what was
    // there goes.
    let phase = AtomicUsize::new(0);
    thread::scope(|scope| {
        let clients = scope.spawn(|| {
            let to = SocketAddr::new(CLUSTER_IP.into(), 80);
            while !stop.load(Ordering::Relaxed) {
                let probe = Probe {
                    transport: Transport::Tcp,
                    to,
                };
                match topology.probe("client", probe, PATIENCE) {
                    Ok(Verdict::Answered(answer)) if &*answer.by == "pod" => {}
                    other => panic!(
                        "phase {}, after {} answers: {other:?}",
                        phase.load(Ordering::Relaxed),
                        answered.load(Ordering::Relaxed)
                    ),
                }
                answered.fetch_add(1, Ordering::Relaxed);
            }
        });
        let more = |count: usize| {
            let until = answered.load(Ordering::Relaxed) + count;
            while answered.load(Ordering::Relaxed) < until && !clients.is_finished() {
                thread::yield_now();
            }
        };
        more(20);
        phase.store(1, Ordering::Relaxed);
        let engine = programmed(netns);
        phase.store(2, Ordering::Relaxed);
        more(20);
        phase.store(3, Ordering::Relaxed);
        assert_eq!(leftovers::cleanup(netns, options()).unwrap(), []);
        phase.store(4, Ordering::Relaxed);
        more(20);
        // Nothing is there to be removed any more.
        assert_eq!(leftovers::cleanup(netns, options()).unwrap(), []);
        drop(engine);
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_mode_ipvs_left_goes_without_a_gap() {
    if !test_support::has_netns() {
        return;
    }
    let topology = topology();
    let netns = netns(&topology);
    let there = topology.node().run(add_link).unwrap();
    let ipvs = topology.node().run(ipvs).unwrap();
    let (true, Some(ipvs)) = (there, ipvs) else {
        assert!(
            !kube_proxy::is_guest(),
            "this guest has no IPVS to test with"
        );
        assert_eq!(leftovers::cleanup(&netns, options()).unwrap(), []);
        return;
    };
    topology
        .node()
        .run(move || {
            add_address(IPVS_LINK, IpAddr::from(CLUSTER_IP)).unwrap();
            fs::write("/proc/sys/net/ipv4/vs/conntrack", "1").unwrap();
            add_service(ipvs, CLUSTER_IP);
            add_service(ipvs, OTHERS_IP);
            assert_eq!(services().len(), 2);
        })
        .unwrap();
    goes_without_a_gap(&topology, &netns);
    let left = topology.node().run(|| {
        let link = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        (services(), link.contains(IPVS_LINK))
    });
    assert_eq!(
        left.unwrap(),
        (vec![hex(OTHERS_IP)], false),
        "what is excluded stays"
    );
}

#[test]
fn what_the_real_kube_proxy_left_goes_without_a_gap() {
    if !kube_proxy::is_guest() {
        // There is no IPVS here for kube-proxy to use.
        return;
    }
    let programs = kube_proxy::Programs::find();
    let programs = programs.expect("cargo xtask kernels is to be told --kube-proxy");
    let topology = topology();
    let netns = netns(&topology);
    let kube_proxy = kube_proxy::KubeProxy::start(&programs, topology.node());
    kube_proxy.until(|| {
        let services = topology.node().run(services).unwrap();
        services.contains(&hex(CLUSTER_IP)) && is_served(&topology)
    });
    kube_proxy.stop();
    let chains = || programs.run(topology.node(), "iptables-save", &[]);
    let sets = || programs.run(topology.node(), "ipset", &["list", "-n"]);
    let (made, named) = (chains(), sets());
    assert!(made.contains("KUBE-SERVICES") && named.contains("KUBE-CLUSTER-IP"));
    println!(
        "kube-proxy made {} lines of rules, {} sets and {} virtual services",
        made.lines().filter(|line| line.contains("KUBE-")).count(),
        named.lines().count(),
        topology.node().run(services).unwrap().len(),
    );
    goes_without_a_gap(&topology, &netns);
    let left = topology.node().run(|| {
        let link = fs::read_to_string("/proc/thread-self/net/dev").unwrap();
        (services(), link.contains(IPVS_LINK))
    });
    assert_eq!(left.unwrap(), (Vec::new(), false));
    let kubelets = ["KUBE-FIREWALL", "KUBE-KUBELET-CANARY", "KUBE-IPTABLES-HINT"];
    for line in chains().lines().filter(|line| line.contains("KUBE-")) {
        assert!(
            kubelets.iter().any(|chain| line.contains(chain)),
            "left: {line}"
        );
    }
    assert_eq!(sets(), "");
}
