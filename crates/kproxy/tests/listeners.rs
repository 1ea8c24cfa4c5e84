//! `kproxy run`: health checks of load balancers, and node ports at loopback addresses, through real
//! sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod loopback;
mod sandbox;

use core::net::SocketAddr;
use core::time::Duration;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Instant;

use loopback::bring_up;
use sandbox::{PATIENCE, Running, Sandbox, sandboxed, service, slice};
use serde_json::{Value as Json, json};

const NODE: [&str; 2] = ["192.168.0.2", "fd00:192::2"];
const OTHER: &str = "192.168.0.3";

#[test]
fn health_checks_answer_on_the_nodes_addresses() {
    sandboxed(|sandbox| {
        bring_up(&[NODE[0], NODE[1], OTHER]);
        let all = [node(&NODE), balanced(32000)];
        sandbox.write_json("all.json", &all);
        let proxy = run(&sandbox, &[]);
        let [v4, v6] = NODE.map(|address| at(address, 32000));
        let nobody = (503, 0, true);
        until(|| ask(v4).is_ok_and(|it| it == nobody));
        until(|| ask(v6).is_ok_and(|it| it == nobody));
        // Of the families' endpoints each counts its own; one that terminates counts for none.
        sandbox.write_json(
            "slice.json",
            &[local_slice(&[("10.0.0.1", true), ("10.0.0.2", false)])],
        );
        until(|| ask(v4).is_ok_and(|it| it == (200, 1, true)));
        assert_eq!(ask(v6).unwrap(), nobody);
        assert!(
            ask(at(OTHER, 32000)).is_err(),
            "not an address for node ports"
        );
        sandbox.write_json("slice.json", &[local_slice(&[("10.0.0.1", false)])]);
        until(|| ask(v4).is_ok_and(|it| it == nobody));

        // Port, policy and node address change, forth and back: one listener, the right answer.
        sandbox.write_json("all.json", &[node(&NODE), balanced(32001)]);
        until(|| ask(at(NODE[0], 32001)).is_ok());
        until(|| ask(v4).is_err());
        let mut cluster = balanced(32001);
        cluster["spec"]["externalTrafficPolicy"] = json!("Cluster");
        sandbox.write_json("all.json", &[node(&NODE), cluster]);
        until(|| ask(at(NODE[0], 32001)).is_err());
        sandbox.write_json("all.json", &[node(&NODE), balanced(32000)]);
        until(|| ask(v4).is_ok() && ask(v6).is_ok());
        sandbox.write_json("all.json", &[node(&[OTHER, NODE[1]]), balanced(32000)]);
        until(|| ask(at(OTHER, 32000)).is_ok());
        until(|| ask(v4).is_err());
        sandbox.write_json("all.json", &[node(&NODE), balanced(32000)]);
        until(|| ask(v4).is_ok());
        until(|| ask(at(OTHER, 32000)).is_err());
        assert_eq!(proxy.stop(), 0);
        assert!(ask(v4).is_err() && ask(v6).is_err());
    });
}

/// Both families have the same port on all addresses; a port that is taken is waited for, and no
/// other Service waits with it.
#[test]
fn all_addresses_and_a_port_that_is_taken() {
    sandboxed(|sandbox| {
        bring_up(&[NODE[0], NODE[1], OTHER]);
        let taken = TcpListener::bind((NODE[0], 32001)).unwrap();
        let mut second = balanced(32001);
        second["metadata"]["name"] = json!("second");
        second["spec"]["clusterIPs"] = json!(["10.96.0.2", "fd00:96::2"]);
        second["spec"]["ports"][0]["nodePort"] = json!(30081);
        let all = [node(&NODE), balanced(32000), second];
        sandbox.write_json("all.json", &all);
        let _proxy = run(&sandbox, &["--nodeport-addresses=all"]);
        for address in [NODE[0], NODE[1], OTHER, "127.0.0.1", "::1"] {
            until(|| ask(at(address, 32000)).is_ok());
        }
        until(|| ask(at(NODE[1], 32001)).is_ok());
        assert!(ask(at(OTHER, 32001)).is_err());
        drop(taken);
        // A change is a reason to try again.
        sandbox.write_json("slice.json", &[local_slice(&[("10.0.0.1", true)])]);
        until(|| ask(at(OTHER, 32001)).is_ok());
        until(|| ask(at(NODE[0], 32000)).is_ok_and(|it| it == (200, 1, true)));
    });
}

/// Connections that say nothing, or half of something, keep neither balancers nor probes from being
/// answered, however many there are.
#[test]
fn a_crowd_that_says_nothing_keeps_nobody_waiting() {
    /// More than are kept of a port.
    const CROWD: usize = 600;
    sandboxed(|sandbox| {
        bring_up(&[NODE[0], NODE[1]]);
        sandbox.write_json("all.json", &[node(&NODE), balanced(32000)]);
        let pages = [
            "--healthz-bind-address=0.0.0.0:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ];
        let _proxy = run(&sandbox, &pages);
        until(|| ask(at(NODE[0], 32000)).is_ok());
        for address in [
            at(NODE[0], 32000),
            at("127.0.0.1", 10256),
            at("127.0.0.1", 10249),
        ] {
            // Somebody polite, who keeps the connection.
            let mut kept = connect(address);
            let mut crowd = Vec::new();
            for number in 0..CROWD {
                let mut silent = connect(address);
                if number % 2 == 0 {
                    silent.write_all(b"GET /livez HTTP/1.1\r\nHo").unwrap();
                }
                crowd.push(silent);
            }
            let mut fresh = connect(address);
            fresh
                .write_all(b"GET /healthz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            fresh.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 "), "{address}: {answer}");
            // The oldest went.
            let end = kept.read(&mut [0; 8]);
            assert!(matches!(end, Ok(0) | Err(_)), "{address}: {end:?}");
        }
    });
}

#[test]
fn node_ports_at_loopback_addresses_are_proxied() {
    sandboxed(|sandbox| {
        let endpoints = ["10.0.0.1", "fd00:10::1"];
        bring_up(&[NODE[0], NODE[1], endpoints[0], endpoints[1]]);
        for endpoint in endpoints {
            reverse(TcpListener::bind((endpoint, 8080)).unwrap());
        }
        let web = node_port("web", 30080);
        sandbox.write_json("all.json", &[node(&NODE), web]);
        let gate = "--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true";
        let proxy = run(&sandbox, &[gate, "--nodeport-addresses=primary,localhost"]);
        let here = ["127.0.0.1", "::1"].map(|address| at(address, 30080));
        let slices = endpoints.map(|endpoint| slice("web", &[endpoint]));
        sandbox.write_json("slices.json", &slices);
        for address in here {
            until(|| TcpStream::connect(address).is_ok());
            // The end of what is sent is passed on, and the answer comes after it.
            let mut client = connect(address);
            client.write_all(b"stressed").unwrap();
            client.shutdown(Shutdown::Write).unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert_eq!(answer, "desserts", "{address}");
        }

        // Without endpoints nothing listens, and nothing is left of what was open.
        let mut open = connect(here[0]);
        open.write_all(b"x").unwrap();
        sandbox.write_json("slices.json", &slices[1..]);
        let end = open.read(&mut [0; 8]);
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        until(|| refused(here[0]));
        assert!(TcpStream::connect(here[1]).is_ok());
        sandbox.write_json("slices.json", &slices);
        until(|| TcpStream::connect(here[0]).is_ok());
        let mut open = connect(here[0]);
        assert_eq!(proxy.stop(), 0);
        let end = open.read(&mut [0; 8]);
        assert!(matches!(end, Ok(0) | Err(_)), "{end:?}");
        assert!(refused(here[0]) && refused(here[1]));
    });
}

/// Parity LN-1 and LN-6. Something listens there, so that only a rule can refuse.
#[test]
fn other_node_ports_at_loopback_addresses_are_rejected() {
    for (flags, tcp_works, udp_works) in [
        (&[][..], true, true),
        (&["--nodeport-addresses=localhost"], true, true),
        (
            &["--feature-gates=KubeProxyNFTablesLocalhostNodePorts=true"],
            false,
            false,
        ),
    ] {
        sandboxed(move |sandbox| {
            bring_up(&[NODE[0], NODE[1]]);
            let mut web = node_port("web", 30080);
            let mut udp = web["spec"]["ports"][0].clone();
            udp["protocol"] = json!("UDP");
            web["spec"]["ports"].as_array_mut().unwrap().push(udp);
            sandbox.write_json("all.json", &[node(&NODE), web]);
            let tcp = [
                TcpListener::bind("127.0.0.1:30080"),
                TcpListener::bind("[::1]:30080"),
            ];
            let udp = [
                UdpSocket::bind("127.0.0.1:30080"),
                UdpSocket::bind("[::1]:30080"),
            ];
            let folder = sandbox.folder().to_str().unwrap();
            let args = ["apply", "-f", folder, "--node-name=node-a"];
            let applied = sandbox.node_command(&[&args, flags].concat()).output();
            let applied = applied.unwrap();
            assert!(applied.status.success(), "{applied:?}");
            for (listener, receiver) in tcp.into_iter().zip(udp) {
                let (listener, receiver) = (listener.unwrap(), receiver.unwrap());
                let address = listener.local_addr().unwrap();
                assert_eq!(
                    TcpStream::connect(address).is_ok(),
                    tcp_works,
                    "{flags:?} {address}"
                );
                assert_eq!(udp_reaches(&receiver), udp_works, "{flags:?} {address}");
                let table = if address.is_ipv4() { "ip" } else { "ip6" };
                let chain = [
                    "list",
                    "chain",
                    table,
                    "kube-proxy",
                    "nodeport-endpoints-check",
                ];
                let listed = String::from_utf8(sandbox.nft(&chain).stdout).unwrap();
                // A first segment may be sent twice.
                let counters = listed.split("counter packets ").skip(1);
                let counted = counters.filter(|it| !it.starts_with("0 ")).count();
                assert_eq!(counted, if tcp_works { 0 } else { 2 }, "{listed}");
            }
        });
    }
}

fn run(sandbox: &Sandbox, more: &[&str]) -> Running {
    let more = [more, &["--node-name=node-a", "--min-sync-period=1ms"]].concat();
    sandbox.run_node(&more)
}

fn node(addresses: &[&str]) -> Json {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|it| json!({"type": "InternalIP", "address": it}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": addresses}
    })
}

/// A load-balanced Service of both families with policy Local.
fn balanced(health: u16) -> Json {
    let mut balanced = service("web", "10.96.0.1");
    let spec = &mut balanced["spec"];
    spec["clusterIPs"] = json!(["10.96.0.1", "fd00:96::1"]);
    spec["type"] = json!("LoadBalancer");
    spec["externalTrafficPolicy"] = json!("Local");
    spec["healthCheckNodePort"] = json!(health);
    spec["ports"][0]["nodePort"] = json!(30080);
    balanced
}

fn node_port(name: &str, number: u16) -> Json {
    let mut service = service(name, "10.96.0.1");
    service["spec"]["clusterIPs"] = json!(["10.96.0.1", "fd00:96::1"]);
    service["spec"]["type"] = json!("NodePort");
    service["spec"]["ports"][0]["nodePort"] = json!(number);
    service
}

/// Endpoints of `web` on this node: ready, or serving until they are gone.
fn local_slice(endpoints: &[(&str, bool)]) -> Json {
    let mut slice = slice("web", &[]);
    let endpoints = endpoints.iter().map(|(address, ready)| {
        let conditions = json!({"ready": ready, "serving": true, "terminating": !ready});
        json!({"addresses": [address], "nodeName": "node-a", "conditions": conditions})
    });
    slice["endpoints"] = endpoints.collect();
    slice
}

fn at(address: &str, port: u16) -> SocketAddr {
    SocketAddr::new(address.parse().unwrap(), port)
}

/// Status, endpoints and health that a balancer is told. What cannot be understood is a panic.
fn ask(address: SocketAddr) -> io::Result<(u16, u64, bool)> {
    let mut connection = TcpStream::connect(address)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.write_all(b"GET /any HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n")?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let body: Json = serde_json::from_str(body).unwrap();
    let endpoints = body["localEndpoints"].as_u64().unwrap();
    let head = head.to_ascii_lowercase();
    for header in [
        "content-type: application/json".to_owned(),
        "x-content-type-options: nosniff".to_owned(),
        format!("x-load-balancing-endpoint-weight: {endpoints}"),
    ] {
        assert!(head.contains(&header), "{header} is missing: {head}");
    }
    assert!(body["service"]["namespace"] == "default", "{body}");
    Ok((
        status,
        endpoints,
        body["serviceProxyHealthy"].as_bool().unwrap(),
    ))
}

/// Another process opens and closes sockets: there is nothing to wait on but the sockets.
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(Duration::from_millis(5));
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let connection = TcpStream::connect(address).unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    connection
}

fn refused(address: SocketAddr) -> bool {
    let connected = TcpStream::connect(address);
    connected.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// Whether a datagram arrives; if not, its sender must hear of it.
fn udp_reaches(receiver: &UdpSocket) -> bool {
    let to = receiver.local_addr().unwrap();
    let sender = UdpSocket::bind((to.ip(), 0)).unwrap();
    sender.connect(to).unwrap();
    sender.set_read_timeout(Some(PATIENCE)).unwrap();
    sender.send(b"x").unwrap();
    receiver.set_nonblocking(true).unwrap();
    // Through the loopback device it has arrived, or not, when the call returns.
    match receiver.recv(&mut [0; 8]) {
        Ok(_) => true,
        Err(error) if error.kind() == ErrorKind::WouldBlock => {
            let told = sender.recv(&mut [0; 8]).unwrap_err();
            assert_eq!(told.kind(), ErrorKind::ConnectionRefused, "{told}");
            false
        }
        Err(error) => panic!("{error}"),
    }
}

/// Answers each connection, once it has said all, with the same backwards.
fn reverse(listener: TcpListener) {
    // Ends with the test's process.
    thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            thread::spawn(move || {
                let mut text = Vec::new();
                if connection.read_to_end(&mut text).is_ok() {
                    text.reverse();
                    let _ = connection.write_all(&text);
                }
            });
        }
    });
}
