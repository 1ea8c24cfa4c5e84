//! Clients that stick to endpoints, by packets that are remembered.

mod limits;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use svc_planner::clients::{ClientScope, StuckClient};
use svc_planner::config::{Config, LocalDetector};
use svc_planner::fake::{Endpoint, Host, Packet, Verdict};
use svc_planner::object::{Change, Protocol, Service, TrafficPolicy};
use svc_planner::plan::{Datum, Family, Key};
use svc_planner::report::{PortName, Reason};
use svc_planner::{Next, Planner};

use crate::driver::Driver;
use crate::objects::{endpoint, ip, name, node, service, slice};

const HERE: &str = "here";
const NODE_IP: &str = "192.168.0.1";
const NODE_PORT: u16 = 30_080;
const PORT: (&str, Protocol, u16) = ("http", Protocol::Tcp, 8080);
const SECOND: Duration = Duration::from_secs(1);

fn host() -> Host {
    Host::new([ip(NODE_IP)])
}

fn driver(config: Config) -> Driver {
    let mut driver = Driver::new(
        Family::Ipv4,
        Config {
            node_name: HERE.into(),
            local: LocalDetector::Cidr("10.0.0.0/8".parse().unwrap()),
            ..config
        },
    );
    driver.change(Change::Node(node(HERE, &[NODE_IP])));
    driver
}

fn sticky(number: u8, seconds: Option<u32>) -> Service {
    let ports = [("http", Protocol::Tcp, 80, NODE_PORT + u16::from(number))];
    let cluster_ip = IpAddr::from([10, 96, 0, number]);
    let mut service = service(&format!("svc{number}"), cluster_ip, &ports);
    service.affinity = seconds;
    service.external_ips.push(IpAddr::from([192, 0, 2, number]));
    service
}

/// Endpoints of a Service by number; odd ones are on this node.
fn pods(number: u8, pods: impl IntoIterator<Item = u8>) -> Change {
    let of = format!("svc{number}");
    let endpoints = pods.into_iter().map(|pod| {
        let node = if pod % 2 == 1 { HERE } else { "there" };
        endpoint(IpAddr::from([10, 1, number, pod]), Some(node))
    });
    Change::EndpointSlice(slice(&of, &of, &[PORT], endpoints))
}

/// Where packets go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum To {
    ClusterIp(u8),
    External(u8),
    NodePort(u8),
}

fn packet(from: IpAddr, to: To) -> Packet {
    let (address, port) = match to {
        To::ClusterIp(number) => (IpAddr::from([10, 96, 0, number]), 80),
        To::External(number) => (IpAddr::from([192, 0, 2, number]), 80),
        To::NodePort(number) => (ip(NODE_IP), NODE_PORT + u16::from(number)),
    };
    Packet::arriving("eth0", from, address, Protocol::Tcp, port)
}

/// Pods of a Service that random packets reach.
struct Traffic {
    state: u64,
}

impl Traffic {
    fn below(&mut self, limit: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        u32::try_from(self.state >> 33).unwrap() % limit
    }

    /// Sends a packet and gives the endpoint's address.
    fn send(&mut self, driver: &mut Driver, from: IpAddr, to: To) -> IpAddr {
        let numbers: Vec<u32> = (0..4).map(|_| self.below(u32::MAX)).collect();
        let packet = packet(from, to);
        let outcome = driver
            .kernel
            .send(&packet, &host(), &mut numbers.into_iter(), driver.now);
        assert_eq!(outcome.scratch, 0, "{outcome:?}");
        match outcome.verdict {
            Verdict::Delivered { endpoint, .. } => {
                assert_eq!(endpoint.port, 8080);
                endpoint.address
            }
            verdict => panic!("{packet}: {verdict}\n{outcome:?}"),
        }
    }
}

/// The number of a pod.
fn pod(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(address) => address.octets()[3],
        IpAddr::V6(address) => panic!("{address}"),
    }
}

fn client(number: u8) -> IpAddr {
    IpAddr::from([203, 0, 113, number])
}

/// Clients of a Service whose endpoints, timeout and process change all the time stay where they are
/// as long as they may.
#[test]
fn clients_stay_as_long_as_their_endpoint_and_time_do() {
    let ways = [To::ClusterIp(1), To::External(1), To::NodePort(1)];
    for seed in 1..=20 {
        let mut traffic = Traffic {
            state: 0x9E37_79B9_7F4A_7C15 ^ seed,
        };
        let mut driver = driver(Config::default());
        let mut seconds = 60;
        let mut serving: BTreeSet<u8> = [1, 2, 3].into();
        driver.change(Change::Service(sticky(1, Some(seconds))));
        driver.change(pods(1, serving.iter().copied()));
        driver.drain();
        // Endpoint, time of the last connection, and the timeout then.
        let mut known: BTreeMap<(IpAddr, To), (IpAddr, Duration, u32)> = BTreeMap::new();
        for _ in 0..120 {
            match traffic.below(10) {
                0..=2 => {
                    let pod = u8::try_from(traffic.below(8)).unwrap() + 1;
                    if !serving.remove(&pod) || serving.is_empty() {
                        serving.insert(pod);
                    }
                    driver.change(pods(1, serving.iter().copied()));
                    driver.settle();
                }
                3 => {
                    seconds = [30, 60, 300][traffic.below(3) as usize];
                    driver.change(Change::Service(sticky(1, Some(seconds))));
                }
                4 => driver.resume(),
                5 => {
                    restart(&mut driver);
                }
                _ => {}
            }
            driver.drain();
            // Who loses an endpoint may be led to any other.
            known.retain(|_, (at, _, _)| serving.contains(&pod(*at)));
            driver.now += SECOND * traffic.below(40);
            for _ in 0..3 {
                let from = client(u8::try_from(traffic.below(4)).unwrap());
                let to = ways[traffic.below(3) as usize];
                let reached = traffic.send(&mut driver, from, to);
                assert!(serving.contains(&pod(reached)), "{reached}");
                let before = known.get(&(from, to));
                let before = before.filter(|(_, at, timeout)| driver.now < *at + SECOND * *timeout);
                if let Some((before, _, _)) = before {
                    assert_eq!(reached, *before, "{from} moved");
                }
                known.insert((from, to), (reached, driver.now, seconds));
            }
        }
    }
}

/// A new process takes the table over; it is told which clients stick where.
fn restart(driver: &mut Driver) {
    let family = driver.family;
    driver.restart();
    driver.planner.promise_clients();
    until_asked(driver);
    let clients = stuck(driver);
    driver.planner.carry_over(clients);
    driver.drain();
    let maps = driver.kernel.sets(family);
    let maps = maps.iter().filter(|set| set.dynamic);
    assert_eq!(maps.count(), 1);
}

/// Commits all that is in force soon; what is to be deleted later stays.
fn soon(driver: &mut Driver) {
    let until = driver.now + Duration::from_millis(50);
    loop {
        driver.settle();
        match driver.planner.next(driver.now) {
            Next::WaitUntil(time) if time <= until => driver.now = time,
            _ => return,
        }
    }
}

/// Commits until the planner asks for clients.
fn until_asked(driver: &mut Driver) {
    for _ in 0..1_000 {
        driver.settle();
        match driver.planner.next(driver.now) {
            Next::Clients => return,
            Next::WaitUntil(time) => driver.now = time,
            next => panic!("{next:?}"),
        }
    }
    panic!("it never asks");
}

/// All clients that stick to endpoints in the table.
fn stuck(driver: &Driver) -> Vec<StuckClient> {
    let family = driver.family;
    let sets = driver.kernel.sets(family);
    let named = |stem: &str| {
        let named = sets.iter().filter(|set| set.name.starts_with(stem));
        named.map(|set| set.name.clone()).collect::<Vec<_>>()
    };
    let mut clients = Vec::new();
    for map in named("client-affinity") {
        for row in driver.kernel.stuck(family, &map) {
            let (
                Key::Client {
                    client,
                    address,
                    protocol,
                    port,
                },
                Datum::Stuck {
                    endpoint,
                    milliseconds,
                },
            ) = (row.key, row.datum)
            else {
                panic!("not a client");
            };
            // The first map is the one in force: the other is still empty.
            let endpoints = &named("sticky-endpoints")[0];
            let key = Key::EndpointId(endpoint);
            let Some(Datum::Endpoint {
                address: to,
                port: number,
            }) = driver.kernel.row(family, endpoints, &key)
            else {
                continue;
            };
            clients.push(StuckClient {
                client,
                scope: ClientScope::Frontend {
                    address,
                    protocol,
                    port,
                },
                endpoint: SocketAddr::new(*to, *number),
                left: Duration::from_millis(milliseconds.into()),
            });
        }
    }
    clients
}

/// Who sticks to an endpoint that the policy does not lead to any more moves at once, and so does who
/// sticks to one of another Service.
#[test]
fn nobody_is_led_to_what_a_frontend_no_longer_stands_for() {
    let mut driver = driver(Config::default());
    let mut traffic = Traffic { state: 1 };
    driver.change(Change::Service(sticky(1, Some(600))));
    driver.change(pods(1, [2, 4, 5]));
    driver.drain();
    for number in 0..30 {
        traffic.send(&mut driver, client(number), To::External(1));
        traffic.send(&mut driver, client(number), To::NodePort(1));
    }
    let mut local = sticky(1, Some(600));
    local.external_policy = TrafficPolicy::Local;
    driver.change(Change::Service(local));
    soon(&mut driver);
    for number in 0..30 {
        for to in [To::External(1), To::NodePort(1)] {
            let reached = traffic.send(&mut driver, client(number), to);
            assert_eq!(reached, IpAddr::from([10, 1, 1, 5]));
        }
        // A pod is led to all, by a shortcut, and sticks to one.
        let pod = IpAddr::from([10, 9, 9, number]);
        for to in [To::External(1), To::NodePort(1)] {
            let reached = traffic.send(&mut driver, pod, to);
            assert_eq!(traffic.send(&mut driver, pod, to), reached);
        }
    }
    driver.drain();

    // An older Service takes the address over.
    let mut older = sticky(2, Some(600));
    older.created = Some(1);
    older.external_ips = [IpAddr::from([192, 0, 2, 1])].into_iter().collect();
    driver.change(Change::Service(older));
    driver.change(pods(2, [7]));
    soon(&mut driver);
    for number in 0..30 {
        let reached = traffic.send(&mut driver, client(number), To::External(1));
        assert_eq!(reached, IpAddr::from([10, 1, 2, 7]));
    }

    // It goes, and nobody has the address; then the first Service has it as before.
    driver.change(Change::ServiceGone(name("svc2")));
    driver.drain();
    let packet = packet(client(1), To::External(1));
    driver.compare(&[packet], &host());
}

/// An address that is given up and taken by another Service later, while the first goes on.
#[test]
fn an_address_changes_hands_with_a_pause() {
    let mut driver = driver(Config::default());
    let mut traffic = Traffic { state: 3 };
    driver.change(Change::Service(sticky(1, Some(600))));
    driver.change(pods(1, [1, 2]));
    driver.drain();
    for number in 0..20 {
        traffic.send(&mut driver, client(number), To::External(1));
    }
    let by_cluster_ip: Vec<_> = (0..20)
        .map(|number| traffic.send(&mut driver, client(number), To::ClusterIp(1)))
        .collect();
    let mut without = sticky(1, Some(600));
    without.external_ips.clear();
    driver.change(Change::Service(without));
    driver.drain();
    // Nobody else is concerned.
    for (number, before) in (0..20).zip(&by_cluster_ip) {
        let reached = traffic.send(&mut driver, client(number), To::ClusterIp(1));
        assert_eq!(reached, *before);
    }
    let mut other = sticky(2, None);
    other.external_ips = [IpAddr::from([192, 0, 2, 1])].into_iter().collect();
    driver.change(Change::Service(other));
    driver.change(pods(2, [7]));
    soon(&mut driver);
    for number in 0..20 {
        let reached = traffic.send(&mut driver, client(number), To::External(1));
        assert_eq!(reached, IpAddr::from([10, 1, 2, 7]));
    }
}

/// kube-proxy's clients stick to a Service port, by whatever address.
#[test]
fn clients_of_kube_proxy_go_on_to_their_endpoints() {
    let mut driver = driver(Config::default());
    let mut traffic = Traffic { state: 9 };
    driver.change(Change::Service(sticky(1, Some(600))));
    driver.change(Change::Service(sticky(2, None)));
    driver.change(pods(1, 1..=9));
    driver.change(pods(2, 1..=9));
    driver.drain();
    driver.restart();
    driver.planner.promise_clients();
    until_asked(&mut driver);
    let scope = |number: u8| {
        ClientScope::Port(PortName {
            service: name(&format!("svc{number}")),
            port: "http".into(),
            protocol: Protocol::Tcp,
        })
    };
    let told = |from: u8, service: u8, pod: u8, left: u64| StuckClient {
        client: client(from),
        scope: scope(service),
        endpoint: SocketAddr::new(IpAddr::from([10, 1, service, pod]), 8080),
        left: Duration::from_secs(left),
    };
    driver.planner.carry_over([
        told(1, 1, 7, 100),
        // The later one counts.
        told(2, 1, 3, 10),
        told(2, 1, 4, 500),
        told(2, 1, 5, 20),
        // Gone, of another port, without affinity, unknown.
        told(3, 1, 77, 100),
        told(4, 2, 1, 100),
        told(5, 3, 1, 100),
    ]);
    driver.drain();
    for to in [To::ClusterIp(1), To::External(1), To::NodePort(1)] {
        let reached = traffic.send(&mut driver, client(1), to);
        assert_eq!(reached, IpAddr::from([10, 1, 1, 7]), "{to:?}");
        let reached = traffic.send(&mut driver, client(2), to);
        assert_eq!(reached, IpAddr::from([10, 1, 1, 4]), "{to:?}");
    }
    let map = driver.kernel.sets(Family::Ipv4);
    let map = map.iter().find(|set| set.dynamic).unwrap();
    assert_eq!(driver.kernel.stuck(Family::Ipv4, &map.name).len(), 2 * 3);
}

/// A planner that was promised nothing, or is told nothing, goes on.
#[test]
fn nobody_needs_to_tell() {
    let mut driver = driver(Config::default());
    driver.change(Change::Service(sticky(1, Some(600))));
    driver.change(pods(1, [1, 2]));
    driver.drain();
    driver.restart();
    driver.drain();
    let endpoints: BTreeSet<Endpoint> = (0..20)
        .map(|number| {
            let mut traffic = Traffic {
                state: 11 + u64::from(number),
            };
            let address = traffic.send(&mut driver, client(number), To::ClusterIp(1));
            Endpoint {
                address,
                port: 8080,
            }
        })
        .collect();
    assert_eq!(endpoints.len(), 2);
    let fresh = Planner::new(Family::Ipv4, Config::default());
    assert_eq!(fresh.classes(), 0);
}

/// A change of traffic policy moves those whose endpoint it rules out, and nobody else, however
/// quickly it is changed back.
#[test]
fn a_policy_moves_only_those_who_must() {
    let ways = [To::ClusterIp(1), To::External(1), To::NodePort(1)];
    for seed in 1..=12 {
        let mut driver = driver(Config::default());
        let mut traffic = Traffic { state: seed };
        driver.change(pods(1, 1..=5));
        let mut stuck = BTreeMap::new();
        let mut policies = [TrafficPolicy::Cluster; 2];
        for step in 0..12 {
            let mut service = sticky(1, Some(10_000));
            [service.internal_policy, service.external_policy] = policies;
            driver.change(Change::Service(service));
            // At times the former group is still about to go.
            if traffic.below(2) == 0 {
                driver.drain();
            } else {
                soon(&mut driver);
            }
            for number in 0..20 {
                for to in ways {
                    let policy = policies[usize::from(to != To::ClusterIp(1))];
                    let reached = traffic.send(&mut driver, client(number), to);
                    let may =
                        |address: IpAddr| policy == TrafficPolicy::Cluster || pod(address) % 2 == 1;
                    assert!(may(reached), "{reached}");
                    let before = stuck.insert((number, to), reached);
                    if let Some(before) = before.filter(|before| may(*before)) {
                        let told = (seed, step, number, to, policies);
                        assert_eq!(reached, before, "{told:?}");
                    }
                }
            }
            let flipped = usize::from(traffic.below(2) == 0);
            policies[flipped] = if policies[flipped] == TrafficPolicy::Local {
                TrafficPolicy::Cluster
            } else {
                TrafficPolicy::Local
            };
        }
    }
}
