//! From Services and EndpointSlices to transactions, without a kernel: what is sent first, and how
//! little when an endpoint goes. `cargo run -p svc-planner --example plan`.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::Family;
use svc_planner::{Config, Next, Planner};

fn main() {
    for (about, transactions) in tell() {
        println!("# {about}\n");
        for transaction in transactions {
            println!("{transaction}");
        }
    }
}

/// What happens, and the transactions that follow.
pub(crate) fn tell() -> Vec<(&'static str, Vec<String>)> {
    let mut planner = Planner::new(Family::Ipv4, Config::default());
    let mut now = Duration::ZERO;
    let mut story = Vec::new();
    planner.apply(service());
    planner.apply(slice(&[1, 2, 3]));
    story.push((
        "a Service with three endpoints",
        commit_all(&mut planner, &mut now),
    ));
    planner.apply(slice(&[1, 2]));
    story.push(("one endpoint less", commit_all(&mut planner, &mut now)));
    planner.apply(slice(&[1, 2]));
    story.push(("the same again", commit_all(&mut planner, &mut now)));
    story
}

/// Takes one transaction after the other. Here all of them succeed; who sends them says so, or that
/// they were refused, and is given the next one.
fn commit_all(planner: &mut Planner, now: &mut Duration) -> Vec<String> {
    let mut sent = Vec::new();
    loop {
        match planner.next(*now) {
            Next::Commit(transaction) => {
                sent.push(transaction.to_string());
                planner.committed(*now);
                planner.recycle(transaction);
            }
            // Deletions wait until no packet can be on its way that needs what is to be deleted.
            Next::WaitUntil(time) => *now = time,
            _ => return sent,
        }
    }
}

fn name(name: &str) -> ObjectName {
    ObjectName {
        namespace: "default".into(),
        name: name.into(),
    }
}

fn service() -> Change {
    Change::Service(Service {
        name: name("web"),
        created: None,
        uid: None,
        cluster_ips: [IpAddr::from(Ipv4Addr::new(10, 96, 0, 1))]
            .into_iter()
            .collect(),
        external_ips: [].into_iter().collect(),
        load_balancer_ips: [].into_iter().collect(),
        source_ranges: [].into_iter().collect(),
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
    })
}

/// Its slice, with these pods.
fn slice(pods: &[u8]) -> Change {
    let endpoint = |pod: &u8| Endpoint {
        address: IpAddr::from(Ipv4Addr::new(10, 244, 0, *pod)),
        ready: true,
        serving: true,
        terminating: false,
        node: None,
        zone_hints: [].into_iter().collect(),
        node_hints: [].into_iter().collect(),
        weight: 1,
    };
    Change::EndpointSlice(EndpointSlice {
        name: name("web-1"),
        service: "web".into(),
        triggers: [].into_iter().collect(),
        ports: [SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080,
        }]
        .into_iter()
        .collect(),
        endpoints: pods.iter().map(endpoint).collect(),
    })
}
