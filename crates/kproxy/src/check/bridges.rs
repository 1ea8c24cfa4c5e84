//! Bridges between pods. What pods of one bridge send each other goes past the hooks of IP unless
//! br_netfilter is on; a reply to a translated packet then keeps the endpoint's own address, and the
//! client does not know it.

use std::collections::BTreeMap;
use std::io;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, LinkAttribute, LinkInfo, LinkMessage,
};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};

use super::{Check, Finding, Level, finding, sysctl};

/// A bridge.
#[derive(Debug, Default)]
struct Bridge {
    name: String,
    is_bridge: bool,
    ports: u32,
    /// The bridge's own settings for IPv4 and IPv6.
    calls: [bool; 2],
}

pub(super) fn look() -> Finding {
    let links = match links() {
        Ok(links) => links,
        Err(error) => {
            let message = format!("links cannot be listed: {error}");
            return finding(Check::Bridge, Level::Problem, message);
        }
    };
    let all = [
        "bridge/bridge-nf-call-iptables",
        "bridge/bridge-nf-call-ip6tables",
    ]
    .map(|name| sysctl::read(name).is_some_and(|value| value == "1"));
    judge(&bridges(&links), all)
}

fn judge(bridges: &BTreeMap<u32, Bridge>, all: [bool; 2]) -> Finding {
    let past = |bridge: &&Bridge| {
        let families = bridge.calls.iter().zip(all);
        let missed = families.into_iter().any(|(own, all)| !own && !all);
        bridge.is_bridge && bridge.ports > 0 && missed
    };
    let names: Vec<_> = bridges.values().filter(past).map(|it| &*it.name).collect();
    if names.is_empty() {
        return finding(Check::Bridge, Level::Ok, "no bridge leads past the rules");
    }
    finding(
        Check::Bridge,
        Level::Problem,
        format!(
            "replies between pods on bridge {} go past the rules and are lost: load br_netfilter and \
             set sysctl net.bridge.bridge-nf-call-iptables and -ip6tables to 1",
            names.join(", ")
        ),
    )
}

fn bridges(links: &[LinkMessage]) -> BTreeMap<u32, Bridge> {
    let mut bridges: BTreeMap<u32, Bridge> = BTreeMap::new();
    for link in links {
        for attribute in &link.attributes {
            match attribute {
                LinkAttribute::IfName(name) => {
                    bridges
                        .entry(link.header.index)
                        .or_default()
                        .name
                        .clone_from(name);
                }
                LinkAttribute::Controller(bridge) => {
                    bridges.entry(*bridge).or_default().ports += 1;
                }
                LinkAttribute::LinkInfo(infos) => {
                    let bridge = bridges.entry(link.header.index).or_default();
                    infos.iter().for_each(|info| info_of(bridge, info));
                }
                _ => {}
            }
        }
    }
    bridges
}

fn info_of(bridge: &mut Bridge, info: &LinkInfo) {
    match info {
        LinkInfo::Kind(InfoKind::Bridge) => bridge.is_bridge = true,
        LinkInfo::Data(InfoData::Bridge(settings)) => {
            for setting in settings {
                match setting {
                    InfoBridge::NfCallIpTables(on) => bridge.calls[0] = *on,
                    InfoBridge::NfCallIp6Tables(on) => bridge.calls[1] = *on,
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// All links of the calling thread's network namespace.
fn links() -> io::Result<Vec<LinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(RouteNetlinkMessage::GetLink(LinkMessage::default()));
    request.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.header.sequence_number = 1;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let mut links = Vec::new();
    loop {
        let (bytes, _) = socket.recv_from_full()?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                .map_err(io::Error::other)?;
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            match message.payload {
                NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => {
                    links.push(link);
                }
                NetlinkPayload::Done(_) => return Ok(links),
                NetlinkPayload::Error(error) => return Err(error.to_io()),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bridge(ports: u32, calls: [bool; 2]) -> BTreeMap<u32, Bridge> {
        let bridge = Bridge {
            name: "cni0".to_owned(),
            is_bridge: true,
            ports,
            calls,
        };
        BTreeMap::from([(1, bridge)])
    }

    #[test]
    fn a_bridge_with_ports_needs_the_hooks_of_both_families() {
        let found = judge(&bridge(2, [false; 2]), [false; 2]);
        assert_eq!(found.level, Level::Problem);
        assert!(found.message.contains("cni0") && !found.message.contains('\n'));
        assert_eq!(
            judge(&bridge(2, [false; 2]), [true, false]).level,
            Level::Problem
        );
        assert_eq!(judge(&bridge(2, [false; 2]), [true; 2]).level, Level::Ok);
        assert_eq!(judge(&bridge(2, [true; 2]), [false; 2]).level, Level::Ok);
        assert_eq!(judge(&bridge(0, [false; 2]), [false; 2]).level, Level::Ok);
    }
}
