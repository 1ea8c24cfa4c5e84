//! An API server that makes up its objects while it sends them: streaming lists of clusters that a
//! real one takes hours to be filled with, in protobuf, with all that real objects carry and no proxy
//! reads.

use core::net::SocketAddr;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use crate::cluster::Cluster;

/// Nodes that endpoints are on.
const NODES: u32 = 5_000;
/// Namespaces.
const NAMESPACES: u32 = 500;
/// The version that everything is of.
const VERSION: &str = "1000000";

/// Starts it in the current network namespace; it serves until the process ends.
///
/// # Errors
/// When it cannot listen.
pub fn serve(cluster: Cluster) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || {
                // The client may go at any time.
                let _ = answer(cluster, &stream);
            });
        }
    });
    Ok(address)
}

/// One request a connection.
fn answer(cluster: Cluster, stream: &TcpStream) -> io::Result<()> {
    let mut request = String::new();
    let mut lines = BufReader::new(stream);
    lines.read_line(&mut request)?;
    let mut line = String::new();
    while lines.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut out = BufWriter::with_capacity(64 << 10, stream);
    let path = request.split(' ').nth(1).unwrap_or_default();
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let of = |plural: &str| path.ends_with(plural);
    if !(of("/services") || of("/endpointslices")) || !query.contains("sendInitialEvents=true") {
        out.write_all(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n")?;
        return out.flush();
    }
    out.write_all(
        b"HTTP/1.1 200 OK\r\nconnection: close\r\n\
          content-type: application/vnd.kubernetes.protobuf;stream=watch\r\n\r\n",
    )?;
    let mut object = Vec::new();
    for number in 0..cluster.services {
        object.clear();
        let kind = if of("/services") {
            service(cluster, number, &mut object);
            ("v1", "Service")
        } else {
            slice(cluster, number, &mut object);
            ("discovery.k8s.io/v1", "EndpointSlice")
        };
        event(&mut out, "ADDED", kind, &object)?;
    }
    object.clear();
    let metadata = message(|out| {
        text(out, 6, VERSION);
        entry(out, 12, "k8s.io/initial-events-end", "true");
    });
    bytes(&mut object, 1, &metadata);
    event(&mut out, "BOOKMARK", ("v1", "Service"), &object)?;
    out.flush()?;
    // The watch stays open until the client goes.
    io::copy(&mut lines, &mut io::sink())?;
    Ok(())
}

/// A Service as the API server stores it, managed fields included; about 900 bytes.
fn service(cluster: Cluster, number: u32, out: &mut Vec<u8>) {
    let ip = cluster.cluster_ip(number).to_string();
    let metadata = metadata(&name(number), number, &[("app", &name(number))], &[]);
    bytes(out, 1, &metadata);
    let spec = message(|out| {
        let port = message(|out| {
            text(out, 1, "http");
            text(out, 2, "TCP");
            int(out, 3, 80);
            bytes(out, 4, &message(|out| int(out, 2, 8080)));
            int(out, 5, 0);
        });
        bytes(out, 1, &port);
        entry(out, 2, "app", &name(number));
        text(out, 3, &ip);
        text(out, 4, "ClusterIP");
        text(out, 7, "None");
        text(out, 8, "");
        text(out, 10, "");
        text(out, 11, "");
        int(out, 12, 0);
        text(out, 17, "SingleStack");
        text(out, 18, &ip);
        text(out, 19, "IPv4");
        text(out, 22, "Cluster");
    });
    bytes(out, 2, &spec);
    bytes(out, 3, &message(|out| bytes(out, 1, b"")));
}

/// A slice as the EndpointSlice controller makes it; about 250 bytes an endpoint.
fn slice(cluster: Cluster, number: u32, out: &mut Vec<u8>) {
    let service = name(number);
    let labels = [
        (
            "endpointslice.kubernetes.io/managed-by",
            "endpointslice-controller.k8s.io",
        ),
        ("kubernetes.io/service-name", service.as_str()),
    ];
    let annotations = [(
        "endpoints.kubernetes.io/last-change-trigger-time",
        "2026-11-30T10:00:00Z",
    )];
    bytes(
        out,
        1,
        &metadata(&format!("{service}-x7k2p"), number, &labels, &annotations),
    );
    for endpoint in 0..cluster.endpoints {
        let pod = format!("{service}-5d9c7b8f6d-{endpoint:05}");
        let node = format!("node-{:04}.example.internal", (number + endpoint) % NODES);
        let endpoint = message(|out| {
            text(out, 1, &cluster.endpoint(number, endpoint).to_string());
            let conditions = message(|out| {
                int(out, 1, 1);
                int(out, 2, 1);
                int(out, 3, 0);
            });
            bytes(out, 2, &conditions);
            let target = message(|out| {
                text(out, 1, "Pod");
                text(out, 2, &namespace(number));
                text(out, 3, &pod);
                text(out, 4, "4be3f0c2-53f3-4c0b-9a57-6d2f2d9f3b11");
            });
            bytes(out, 4, &target);
            text(out, 6, &node);
            text(out, 7, "zone-a");
        });
        bytes(out, 2, &endpoint);
    }
    let port = message(|out| {
        text(out, 1, "http");
        text(out, 2, "TCP");
        int(out, 3, 8080);
    });
    bytes(out, 3, &port);
    text(out, 4, "IPv4");
}

fn metadata(
    name: &str,
    number: u32,
    labels: &[(&str, &str)],
    annotations: &[(&str, &str)],
) -> Vec<u8> {
    message(|out| {
        text(out, 1, name);
        text(out, 2, "");
        text(out, 3, &namespace(number));
        text(out, 4, "");
        text(out, 5, &format!("4be3f0c2-53f3-4c0b-9a57-{number:012x}"));
        text(out, 6, &number.saturating_add(1).to_string());
        int(out, 7, 1);
        let created = message(|out| {
            int(out, 1, 1_700_000_000);
            int(out, 2, 0);
        });
        bytes(out, 8, &created);
        labels
            .iter()
            .for_each(|(key, value)| entry(out, 11, key, value));
        annotations
            .iter()
            .for_each(|(key, value)| entry(out, 12, key, value));
        let managed = message(|out| {
            text(out, 1, "kube-controller-manager");
            text(out, 2, "Update");
            text(out, 3, "v1");
            bytes(out, 4, &created);
            text(out, 6, "FieldsV1");
            let fields = r#"{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:internalTrafficPolicy":{},
                "f:ports":{".":{},"k:{\"port\":80,\"protocol\":\"TCP\"}":{".":{},"f:name":{},"f:port":{},
                "f:protocol":{},"f:targetPort":{}}},"f:selector":{},"f:sessionAffinity":{},"f:type":{}}}"#;
            bytes(out, 7, &message(|out| text(out, 1, fields)));
        });
        bytes(out, 17, &managed);
    })
}

fn name(number: u32) -> String {
    format!("service-{number:06}")
}

fn namespace(number: u32) -> String {
    format!("team-{:03}", number % NAMESPACES)
}

/// A frame with an event.
fn event(
    out: &mut impl Write,
    event: &str,
    (version, kind): (&str, &str),
    object: &[u8],
) -> io::Result<()> {
    let mut enveloped = b"k8s\0".to_vec();
    let types = message(|out| {
        text(out, 1, version);
        text(out, 2, kind);
    });
    bytes(&mut enveloped, 1, &types);
    bytes(&mut enveloped, 2, object);
    let frame = message(|out| {
        text(out, 1, event);
        bytes(out, 2, &message(|out| bytes(out, 1, &enveloped)));
    });
    let length = u32::try_from(frame.len()).map_err(io::Error::other)?;
    out.write_all(&length.to_be_bytes())?;
    out.write_all(&frame)
}

fn message(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

fn entry(out: &mut Vec<u8>, number: u64, key: &str, value: &str) {
    let entry = message(|out| {
        text(out, 1, key);
        text(out, 2, value);
    });
    bytes(out, number, &entry);
}

fn text(out: &mut Vec<u8>, number: u64, value: &str) {
    bytes(out, number, value.as_bytes());
}

fn bytes(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    varint(out, number << 3 | 2);
    varint(out, u64::try_from(value.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(value);
}

fn int(out: &mut Vec<u8>, number: u64, value: u64) {
    varint(out, number << 3);
    varint(out, value);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        let [low, ..] = value.to_le_bytes();
        out.push(low | 0x80);
        value >>= 7;
    }
    let [low, ..] = value.to_le_bytes();
    out.push(low);
}

#[cfg(test)]
mod tests {
    use kproxy::api::Kind;
    use kproxy::apiserver::decode::{Decoder, Encoding, Form, Item};

    use super::*;

    #[test]
    fn what_is_made_up_can_be_read() {
        let cluster = Cluster {
            services: 1,
            endpoints: 10,
        };
        let mut object = Vec::new();
        slice(cluster, 0, &mut object);
        let mut frame = Vec::new();
        event(
            &mut frame,
            "ADDED",
            ("discovery.k8s.io/v1", "EndpointSlice"),
            &object,
        )
        .unwrap();
        let mut decoder = Decoder::new(Kind::EndpointSlice, Encoding::Protobuf, Form::Watch);
        let mut endpoints = 0;
        decoder
            .push(&frame, |item| match item {
                Item::Object(kproxy::manifest::Object::EndpointSlice(slice)) => {
                    endpoints = slice.endpoints.len();
                    assert_eq!(
                        slice.metadata.labels.service_name.as_deref(),
                        Some("service-000000")
                    );
                }
                other => panic!("{other:?}"),
            })
            .unwrap();
        assert_eq!(endpoints, 10);
    }
}
