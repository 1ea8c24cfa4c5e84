//! Which clients stick to which endpoints in a table that is taken over: one of ours, whose numbers
//! nobody knows any more, or kube-proxy's.
//!
//! Ours: the rules tell which map of clients goes with which map of endpoints. kube-proxy's: a set
//! per endpoint, with the Service port and the endpoint in its name:
//! `affinity-HASH-NAMESPACE/NAME/PROTOCOL/PORT__ADDRESS/PORT`, `.` for `:` in addresses.
//!
//! Both are read whole, once, right before the switch. Dumps of many rows take long (about 5 s for the
//! 262,144 that there may be): clients that come meanwhile choose anew after the switch.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeSet, HashMap};

use nft_batch::{Connection, Errno, QueryError, Transport};
use nl_codec::nft::Elem;
use nl_codec::nft::expr::Expr;
use svc_planner::clients::{ClientScope, StuckClient};
use svc_planner::object::{ObjectName, Protocol};
use svc_planner::plan::{DataType, Datum, EndpointId, Family};
use svc_planner::report::PortName;

use super::TABLE;
use crate::lower::{base_name, datum_of, nf_family};

/// Beginning of the names of kube-proxy's sets.
const KUBE_PROXY: &str = "affinity-";

/// Reads all of a family. What goes away meanwhile is left out.
pub(super) fn read<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
) -> Result<Vec<StuckClient>, QueryError> {
    let mut clients = Vec::new();
    for (map, endpoints) in pairs(connection, family)? {
        let read = read_ours(connection, family, (&map, &endpoints), &mut clients);
        gone(read)?;
    }
    let mut sets = Vec::new();
    let dumped = connection.dump_sets(nf_family(family), TABLE, |set| {
        let name = set.name.and_then(|name| name.to_str());
        sets.extend(name.and_then(|name| Some((name.to_owned(), parse(name)?))));
    });
    gone(dumped.map(drop))?;
    for (set, (port, endpoint)) in sets {
        let dumped = connection.dump_elements(nf_family(family), TABLE, &set, |elem| {
            let client = elem.key_bytes().and_then(address);
            if let (Some(client), Some(left)) = (client, left(elem)) {
                clients.push(StuckClient {
                    client,
                    scope: ClientScope::Port(port.clone()),
                    endpoint,
                    left,
                });
            }
        });
        gone(dumped.map(drop))?;
    }
    Ok(clients)
}

/// Maps of clients of ours, each with the map that leads them on.
fn pairs<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
) -> Result<BTreeSet<(String, String)>, QueryError> {
    let mut pairs = BTreeSet::new();
    let dumped = connection.dump_rules(nf_family(family), TABLE, None, |rule| {
        let mut map = None;
        for expr in rule.exprs.iter().flatten().flatten() {
            let set = match &expr {
                Expr::Dynset(dynset) => dynset.set,
                Expr::Lookup(lookup) => lookup.set,
                _ => None,
            };
            let Some(set) = set.and_then(|set| set.to_str()) else {
                continue;
            };
            match (&map, base_name(set)) {
                (_, "client-affinity") => map = Some(set.to_owned()),
                (Some(map), "sticky-endpoints") => {
                    pairs.insert((map.clone(), set.to_owned()));
                }
                _ => {}
            }
        }
    });
    gone(dumped.map(drop))?;
    Ok(pairs)
}

fn read_ours<T: Transport>(
    connection: &mut Connection<T>,
    family: Family,
    (map, endpoints): (&str, &str),
    clients: &mut Vec<StuckClient>,
) -> Result<(), QueryError> {
    let nf = nf_family(family);
    let mut known = HashMap::new();
    connection.dump_elements(nf, TABLE, endpoints, |elem| {
        let id = elem.key_bytes().and_then(|key| key.try_into().ok());
        let datum = datum_of(family, DataType::Endpoint, elem);
        if let (Some(id), Some(Datum::Endpoint { address, port })) = (id, datum) {
            let id = EndpointId(u32::from_ne_bytes(id));
            known.insert(id, SocketAddr::new(address, port));
        }
    })?;
    connection.dump_elements(nf, TABLE, map, |elem| {
        let scope = elem.key_bytes().and_then(|key| client(family, key));
        let Some(Datum::Stuck { endpoint, .. }) = datum_of(family, DataType::EndpointId, elem)
        else {
            return;
        };
        // It may have been chosen when the traffic policy was another.
        let led = known.get(&endpoint).or_else(|| known.get(&endpoint.twin()));
        if let (Some((client, scope)), Some(endpoint), Some(left)) = (scope, led, left(elem)) {
            clients.push(StuckClient {
                client,
                scope,
                endpoint: *endpoint,
                left,
            });
        }
    })?;
    Ok(())
}

/// What is left of a row's lifetime.
fn left(elem: &Elem<'_>) -> Option<Duration> {
    elem.expiration.map(Duration::from_millis)
}

/// Client, address, protocol and port, see [`crate::lower`].
fn client(family: Family, key: &[u8]) -> Option<(IpAddr, ClientScope)> {
    let width = match family {
        Family::Ipv4 => 4,
        Family::Ipv6 => 16,
    };
    let (client, rest) = key.split_at_checked(width)?;
    let (own, rest) = rest.split_at_checked(width)?;
    let [protocol, _, _, _, high, low, ..] = *rest else {
        return None;
    };
    let protocols = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let scope = ClientScope::Frontend {
        address: address(own)?,
        protocol: protocols.into_iter().find(|it| *it as u8 == protocol)?,
        port: u16::from_be_bytes([high, low]),
    };
    Some((address(client)?, scope))
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = bytes.try_into().ok().map(|bytes: [u8; 4]| bytes.into());
    v4.or_else(|| bytes.try_into().ok().map(|bytes: [u8; 16]| bytes.into()))
}

/// The Service port and the endpoint in the name of a set of kube-proxy's.
fn parse(name: &str) -> Option<(PortName, SocketAddr)> {
    let (_, rest) = name.strip_prefix(KUBE_PROXY)?.split_once('-')?;
    let (port, endpoint) = rest.rsplit_once("__")?;
    let mut parts = port.splitn(4, '/');
    let namespace = parts.next()?.into();
    let name = parts.next()?.into();
    let protocol = match parts.next()? {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        "sctp" => Protocol::Sctp,
        _ => return None,
    };
    let port = PortName {
        service: ObjectName { namespace, name },
        port: parts.next()?.into(),
        protocol,
    };
    let (ip, number) = endpoint.split_once('/')?;
    let v4 = ip.parse().ok().map(IpAddr::V4);
    let ip = v4.or_else(|| ip.replace('.', ":").parse().ok().map(IpAddr::V6))?;
    Some((port, SocketAddr::new(ip, number.parse().ok()?)))
}

/// What is gone cannot be read.
fn gone(read: Result<(), QueryError>) -> Result<(), QueryError> {
    match read {
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(()),
        read => read,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_kube_proxys_sets() {
        let read = |name: &str| parse(name).map(|(port, to)| format!("{port} {to}"));
        let v4 = read("affinity-5S6H3H22-testing/service/tcp/http__10.180.0.2/80");
        assert_eq!(
            v4.as_deref(),
            Some("testing/service:http/TCP 10.180.0.2:80")
        );
        let v6 = read("affinity-U7E2ET36-a/b/udp/__fd80.abcd.12..a1b2.c3d4.e5f6.9999/53");
        let expected = "a/b/UDP [fd80:abcd:12:0:a1b2:c3d4:e5f6:9999]:53";
        assert_eq!(v6.as_deref(), Some(expected));
        for other in [
            "client-affinity",
            "affinity-X",
            "affinity-X-a/b/tcp/p",
            "affinity-X-a/b/icmp/p__10.0.0.1/80",
            "affinity-X-a/b/tcp/p__10.0.0.1...",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }

    #[test]
    fn keys_of_ours() {
        let mut key = vec![192, 0, 2, 7, 10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0];
        let (from, scope) = client(Family::Ipv4, &key).unwrap();
        assert_eq!(from, IpAddr::from([192, 0, 2, 7]));
        let expected = ClientScope::Frontend {
            address: [10, 96, 0, 10].into(),
            protocol: Protocol::Tcp,
            port: 80,
        };
        assert_eq!(scope, expected);
        key.truncate(12);
        assert_eq!(client(Family::Ipv4, &key), None);
        assert_eq!(client(Family::Ipv6, &key), None);
    }
}
