//! An object whose arrival in kube-proxy's table shows that everything written before it has
//! arrived there, too.
//!
//! kube-proxy watches each kind of object by itself, in order, and every sync takes all that has
//! arrived. The marker is a Service and its slices: the Service's only port has a new number and
//! name each time, and only slices of the same generation have a port of that name. So its frontend
//! has endpoints exactly when both kinds have arrived up to here.

use core::{
    net::IpAddr,
    sync::atomic::{AtomicU16, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use kproxy::{
    engine::TABLE,
    lower::{key_bytes, nf_family},
};
use nft_batch::{Connection, Errno};
use nl_codec::nft::{Elem, Value};
use serde_json::json;
use svc_planner::{
    object::Protocol,
    plan::{Family, Key, KeyType},
};

use super::client::{Client, Method, Request};

/// Namespace of the marker; the proxy under test need not see it.
pub(crate) const NAMESPACE: &str = "marker";
const NAME: &str = "marker";
/// ClusterIPs of the marker, at the end of the ranges.
const CLUSTER_IPS: [&str; 2] = ["172.30.255.254", "fd00:10:96::ffff:ffff:fffe"];
const ENDPOINTS: [(&str, &str); 2] = [("IPv4", "192.0.2.77"), ("IPv6", "2001:db8:ffff::77")];

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Marker {
    generation: AtomicU16,
}

impl Marker {
    /// Writes the next generation; returns the frontend that then has endpoints, in each family.
    pub(super) fn advance(&self, client: &Client) -> Result<[(Family, Key); 2]> {
        let generation = self.generation.fetch_add(1, Ordering::Relaxed) + 1;
        let (port_name, port) = (format!("g{generation}"), generation);
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": {"name": NAME, "namespace": NAMESPACE},
            "spec": {"clusterIP": CLUSTER_IPS[0], "clusterIPs": CLUSTER_IPS,
                     "ipFamilyPolicy": "RequireDualStack",
                     "ports": [{"name": port_name, "port": port}]}
        });
        let slices = ENDPOINTS.map(|(family, address)| {
            json!({
                "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
                "metadata": {"name": format!("{NAME}-{}", family.to_lowercase()),
                             "namespace": NAMESPACE,
                             "labels": {"kubernetes.io/service-name": NAME}},
                "addressType": family,
                "ports": [{"name": port_name, "port": 9}],
                "endpoints": [{"addresses": [address]}]
            })
        });
        let objects = [&service, &slices[0], &slices[1]];
        let first = generation == 1;
        let mut requests = Vec::new();
        for object in objects {
            let key = super::Key::of(object)?;
            requests.push(if first {
                Request::new(Method::Post, key.collection()?).with(object.clone())
            } else {
                Request::new(Method::Put, key.path()?).with(object.clone())
            });
        }
        for response in client.send(&requests)? {
            ensure!(response.is_ok(), "write the marker: {}", response.message());
        }
        let [four, six] = CLUSTER_IPS.map(str::parse::<IpAddr>);
        let frontend = |address| Key::Frontend {
            address,
            protocol: Protocol::Tcp,
            port,
        };
        Ok([
            (Family::Ipv4, frontend(four?)),
            (Family::Ipv6, frontend(six?)),
        ])
    }
}

/// Whether a map of frontends has a row.
pub(super) fn has_row(
    connection: &mut Connection,
    map: &str,
    family: Family,
    key: &Key,
) -> Result<bool> {
    let bytes = key_bytes(family, KeyType::Frontend, key).context("a key of the family")?;
    let key = Elem::new(Value::new(bytes.as_slice()));
    match connection.element(nf_family(family), TABLE, map, &key, |_| ()) {
        Ok(found) => Ok(found.is_some()),
        // No such table, or no such map.
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
