//! Decisions: one by one, and against a naive model.

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use proptest::prelude::*;
use svc_planner::flows::{FlowChanges, Frontend, Served};

use super::*;

const VIP: &str = "10.96.0.10:53";
const NODE: &str = "192.168.0.2:30053";
const FIRST: &str = "10.0.0.1:5353";
const SECOND: &str = "10.0.0.2:5353";

fn socket(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

fn at(text: &str, protocol: Protocol) -> Frontend {
    let at = socket(text);
    Frontend {
        address: Some(at.ip()),
        protocol,
        port: at.port(),
    }
}

fn node_port(protocol: Protocol, port: u16) -> Frontend {
    Frontend {
        address: None,
        protocol,
        port,
    }
}

fn endpoints(list: &[&str]) -> Arc<[SocketAddr]> {
    let mut list: Vec<_> = list.iter().map(|text| socket(text)).collect();
    list.sort_unstable();
    list.into()
}

/// DNS at an address and a node port of one node.
fn dns(list: &[&str]) -> FlowChanges {
    let served = |at_cluster_ip| Served {
        by: endpoints(list),
        at_cluster_ip,
    };
    FlowChanges {
        serving: vec![
            (at(VIP, Protocol::Udp), served(true)),
            (node_port(Protocol::Udp, 30_053), served(false)),
        ],
        node_ports: Some(vec![socket(NODE).ip()]),
        ..FlowChanges::default()
    }
}

fn known(changes: impl IntoIterator<Item = FlowChanges>) -> Frontends {
    let mut frontends = Frontends::default();
    for change in changes {
        frontends.add(change);
        frontends.begin_pass();
    }
    frontends
}

fn entry(protocol: Protocol, to: &str, served_by: &str) -> Entry {
    let from = SocketAddr::from(([10, 0, 9, 9], 4000));
    Entry::new(protocol, [from, socket(to)], socket(served_by))
}

fn is_stale(frontends: &Frontends, to: &str, served_by: &str) -> bool {
    verdict(frontends, &entry(Protocol::Udp, to, served_by))
}

#[test]
fn who_does_not_serve_is_stale_by_address_and_port() {
    let frontends = known([dns(&[FIRST, SECOND])]);
    for to in [VIP, NODE] {
        assert!(!is_stale(&frontends, to, FIRST));
        assert!(!is_stale(&frontends, to, SECOND));
        assert!(is_stale(&frontends, to, "10.0.0.1:53"), "another port");
        assert!(is_stale(&frontends, to, "10.0.0.3:5353"));
        assert!(is_stale(&frontends, to, to), "never translated");
    }
}

#[test]
fn without_endpoints_everything_is_stale() {
    let frontends = known([dns(&[])]);
    for to in [VIP, NODE] {
        assert!(is_stale(&frontends, to, FIRST) && is_stale(&frontends, to, to));
    }
}

#[test]
fn foreign_flows_stay() {
    let frontends = known([dns(&[FIRST])]);
    for to in [
        "10.96.0.10:54",
        "10.96.0.11:53",
        // The number of the node port, elsewhere: another host's, another address of this one, a
        // Service's address.
        "203.0.113.1:30053",
        "127.0.0.1:30053",
        "10.96.0.10:30053",
        "192.168.0.2:53",
    ] {
        assert!(!is_stale(&frontends, to, to), "{to}");
        assert!(!is_stale(&frontends, to, "10.0.0.9:5353"), "{to}");
    }
    let mut other_zone = entry(Protocol::Udp, VIP, VIP);
    other_zone.default_zone = false;
    assert!(!verdict(&frontends, &other_zone));
    other_zone.served_by = socket(SECOND);
    assert!(verdict(&frontends, &other_zone));
}

#[test]
fn a_reply_that_made_an_entry_of_its_own_is_no_reply_any_more() {
    let frontends = known([dns(&[FIRST])]);
    let back = |from: &str| Entry::new(Protocol::Udp, [from, FIRST].map(socket), socket(FIRST));
    assert!(verdict(&frontends, &back(VIP)));
    // A host may have the others, and send from there.
    for from in [NODE, "10.96.0.10:54", "10.96.0.11:53", "203.0.113.1:53"] {
        assert!(!verdict(&frontends, &back(from)), "{from}");
    }
    let mut translated = back(VIP);
    translated.replies_to = socket(NODE);
    assert!(!verdict(&frontends, &translated));
    translated = back(VIP);
    translated.served_by = socket(SECOND);
    assert!(!verdict(&frontends, &translated));
}

#[test]
fn of_a_frontend_that_is_gone_only_its_own_flows_are_stale() {
    let gone = |frontend, row: &[&str]| FlowChanges {
        gone: vec![(frontend, row.iter().map(|it| socket(it)).collect())],
        ..FlowChanges::default()
    };
    let udp = Protocol::Udp;
    // One endpoint was told, another one only the row led to.
    let frontends = known([dns(&[FIRST]), gone(at(VIP, udp), &[SECOND])]);
    for served_by in [FIRST, SECOND, VIP] {
        assert!(is_stale(&frontends, VIP, served_by));
    }
    assert!(!is_stale(&frontends, VIP, "10.0.0.3:5353"));
    assert!(!is_stale(&frontends, NODE, FIRST));

    let frontends = known([dns(&[FIRST]), gone(node_port(udp, 30_053), &[])]);
    assert!(is_stale(&frontends, NODE, FIRST));
    // A process of the host may listen there now.
    assert!(!is_stale(&frontends, NODE, NODE));
    assert!(!is_stale(&frontends, VIP, FIRST));

    // Back again, it is like any other.
    let frontends = known([dns(&[FIRST]), gone(at(VIP, udp), &[]), dns(&[SECOND])]);
    assert!(is_stale(&frontends, VIP, FIRST) && !is_stale(&frontends, VIP, SECOND));
}

#[test]
fn an_address_that_serves_no_node_ports_any_more_loses_their_flows() {
    let moved = FlowChanges {
        node_ports: Some(vec!["192.168.0.3".parse().unwrap()]),
        ..FlowChanges::default()
    };
    let mut frontends = known([dns(&[FIRST]), moved]);
    assert!(is_stale(&frontends, NODE, FIRST));
    assert!(!is_stale(&frontends, NODE, NODE) && !is_stale(&frontends, NODE, SECOND));
    assert!(is_stale(&frontends, "192.168.0.3:30053", SECOND));
    let next = frontends.begin_pass();
    frontends.forget_before(next);
    assert!(!is_stale(&frontends, NODE, FIRST));
    assert!(!frontends.has_recent());
}

#[test]
fn of_tcp_only_a_lonely_syn_to_a_new_frontend_is_stale() {
    let appeared = FlowChanges {
        appeared: vec![
            at("10.96.0.10:80", Protocol::Tcp),
            node_port(Protocol::Tcp, 30_080),
        ],
        ..FlowChanges::default()
    };
    let mut frontends = known([dns(&[FIRST]), appeared]);
    let entry = |to: &str, served_by: &str, syn_sent| Entry {
        syn_sent,
        ..entry(Protocol::Tcp, to, served_by)
    };
    let (vip, node) = ("10.96.0.10:80", "192.168.0.2:30080");
    for to in [vip, node] {
        assert!(verdict(&frontends, &entry(to, to, true)));
        assert!(!verdict(&frontends, &entry(to, to, false)), "established");
        assert!(!verdict(&frontends, &entry(to, FIRST, true)), "translated");
    }
    let others = ["10.96.0.10:81", "203.0.113.1:30080", "10.96.0.10:53"];
    for to in others {
        assert!(!verdict(&frontends, &entry(to, to, true)), "{to}");
    }
    let next = frontends.begin_pass();
    frontends.forget_before(next);
    assert!(
        !verdict(&frontends, &entry(vip, vip, true)),
        "not new any more"
    );
}

/// What is told, in a world of few addresses.
#[derive(Debug, Clone)]
enum Told {
    Serving(Frontend, Vec<SocketAddr>),
    Gone(Frontend, Vec<SocketAddr>),
    NodePorts(Vec<IpAddr>),
}

fn any_address() -> impl Strategy<Value = IpAddr> + Clone {
    (1_u8..4).prop_map(|last| IpAddr::from([10, 0, 0, last]))
}

fn any_socket() -> impl Strategy<Value = SocketAddr> + Clone {
    (any_address(), 1_u16..4).prop_map(SocketAddr::from)
}

fn any_told() -> impl Strategy<Value = Told> {
    let frontend = || {
        let key = (prop::option::of(any_address()), 1_u16..4);
        key.prop_map(|(address, port)| Frontend {
            address,
            protocol: Protocol::Udp,
            port,
        })
    };
    let sockets = || {
        let all = prop::collection::btree_set(any_socket(), 0..4);
        all.prop_map(|all| all.into_iter().collect::<Vec<_>>())
    };
    prop_oneof![
        4 => (frontend(), sockets()).prop_map(|(key, all)| Told::Serving(key, all)),
        2 => (frontend(), sockets()).prop_map(|(key, all)| Told::Gone(key, all)),
        1 => prop::collection::vec(any_address(), 0..3).prop_map(Told::NodePorts),
    ]
}

/// The table in the documentation of [`verdict`], from the whole history, by search.
fn naive(history: &[Told], to: SocketAddr, served_by: SocketAddr) -> bool {
    let untranslated = to == served_by;
    let node_ports = |history: &[Told]| {
        let last = history.iter().rev().find_map(|told| match told {
            Told::NodePorts(all) => Some(all.clone()),
            _ => None,
        });
        last.unwrap_or_default()
    };
    let left_node_ports = (0..history.len())
        .any(|end| node_ports(&history[..end]).contains(&to.ip()))
        && !node_ports(history).contains(&to.ip());
    let about = |key: Option<IpAddr>, frontend: &Frontend| {
        (frontend.address, frontend.port) == (key, to.port())
    };
    // What was last said of a frontend: who serves it, or who did since it last came.
    let state = |key: Option<IpAddr>| {
        let mut serving: Option<Vec<SocketAddr>> = None;
        let mut former: Option<Vec<SocketAddr>> = None;
        for told in history {
            match told {
                Told::Serving(frontend, all) if about(key, frontend) => {
                    (serving, former) = (Some(all.clone()), None);
                }
                Told::Gone(frontend, all) if about(key, frontend) => {
                    let mut known = former.take().unwrap_or_default();
                    known.extend(serving.take().unwrap_or_default());
                    known.extend(all);
                    former = Some(known);
                }
                _ => {}
            }
        }
        (serving, former)
    };
    let (serving, former) = state(Some(to.ip()));
    if let Some(serving) = &serving {
        return !serving.contains(&served_by);
    }
    let (port_serving, port_former) = state(None);
    let serves_here = node_ports(history).contains(&to.ip());
    if let Some(serving) = port_serving.as_ref().filter(|_| serves_here) {
        return !serving.contains(&served_by);
    }
    if let Some(former) = former {
        return untranslated || former.contains(&served_by);
    }
    if !serves_here && !left_node_ports {
        return false;
    }
    port_former
        .or(port_serving)
        .is_some_and(|former| former.contains(&served_by))
}

proptest! {
    #[test]
    fn decides_as_a_search_through_the_history_does(
        history in prop::collection::vec(any_told(), 0..12),
        apart in any::<bool>(),
    ) {
        let mut frontends = Frontends::default();
        let mut together = super::super::news::News::default();
        for told in &history {
            let mut changes = FlowChanges::default();
            match told.clone() {
                Told::Serving(key, all) => {
                    let by = all.into();
                    let at_cluster_ip = false;
                    changes.serving.push((key, Served { by, at_cluster_ip }));
                }
                Told::Gone(key, all) => changes.gone.push((key, all)),
                Told::NodePorts(all) => changes.node_ports = Some(all),
            }
            if apart || changes.node_ports.is_some() {
                frontends.take(core::mem::take(&mut together));
                frontends.add(changes);
            } else {
                together.add(changes);
            }
        }
        frontends.take(together);
        for to in 1..4_u8 {
            for port in 1..4 {
                let to = SocketAddr::from(([10, 0, 0, to], port));
                for by in 1..5_u8 {
                    for port in 1..4 {
                        let by = SocketAddr::from(([10, 0, 0, by], port));
                        let from = SocketAddr::from(([10, 0, 9, 9], 4000));
                        let entry = Entry::new(Protocol::Udp, [from, to], by);
                        let (stale, expected) = (verdict(&frontends, &entry), naive(&history, to, by));
                        // What was told in between and taken together is remembered longer.
                        let once_served = history.iter().any(|told| {
                            matches!(told, Told::Serving(_, all) | Told::Gone(_, all) if all.contains(&by))
                        });
                        prop_assert!(
                            stale == expected || (stale && !apart && once_served),
                            "to {} served by {}: {}", to, by, stale
                        );
                    }
                }
            }
        }
    }
}
