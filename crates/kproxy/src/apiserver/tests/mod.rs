//! The reader against a server that misbehaves.

mod credentials;
mod fake;
mod first_list;
mod goaway;
mod kubeconfig;
mod recovery;
mod restart;
mod secure;
mod upgrade;
mod way;

use core::time::Duration;
use std::os::unix::net::UnixStream;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Instant;

use serde_json::{Value as Json, json};
use svc_planner::mailbox::{self, Receiver, Wake};
use svc_planner::object::Change;

use self::fake::{Asked, Reply, Step, event};
use super::backoff::Limits;
use super::pace::Pace;
use super::{ApiBoard, ApiReader, ConnectionOptions, Loaded};
use crate::api::Kind;
use crate::watch::Stop;

/// What must happen happens within this time, on whatever machine.
const PATIENCE: Duration = Duration::from_secs(60);

fn quick() -> Pace {
    Pace {
        backoff: Limits {
            first: Duration::from_millis(10),
            most: Duration::from_millis(100),
            healthy: Duration::from_secs(120),
        },
        ..Pace::default()
    }
}

/// No order to stop.
fn never() -> Stop {
    Stop::new().unwrap()
}

fn options(url: String) -> ConnectionOptions {
    ConnectionOptions {
        master: Some(url),
        qps: -1.0,
        ..ConnectionOptions::default()
    }
}

fn reader(options: ConnectionOptions, pace: Pace) -> ApiReader {
    ApiReader::with_pace(options, Some("node-a"), pace).unwrap()
}

fn service(name: &str, version: u32, ip: &str) -> Json {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string()},
        "spec": {"type": "ClusterIP", "clusterIP": ip, "clusterIPs": [ip],
            "ports": [{"port": 80, "protocol": "TCP"}]}})
}

fn slice(name: &str, version: u32, address: &str) -> Json {
    json!({"metadata": {"name": name, "namespace": "shop", "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": [address]}], "ports": [{"port": 8080}]})
}

fn node() -> Json {
    node_at(1, "192.0.2.1")
}

fn node_at(version: u32, address: &str) -> Json {
    json!({"metadata": {"name": "node-a", "resourceVersion": version.to_string()},
        "status": {"addresses": [{"type": "InternalIP", "address": address}]}})
}

/// Two Services, a and b.
fn two() -> Vec<Json> {
    vec![service("a", 1, "10.96.0.1"), service("b", 2, "10.96.0.2")]
}

/// The events of a watch.
fn events(asked: &Asked, events: &[(&str, Json)]) -> Vec<u8> {
    events
        .iter()
        .flat_map(|(kind, object)| event(asked, kind, object))
        .collect()
}

/// Empty but for one kind, which `handler` answers.
fn only(
    kind: Kind,
    handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| {
        if asked.kind() == kind {
            handler(asked)
        } else {
            Reply::all(asked, "1", &[])
        }
    }
}

/// Answers the first request by the first of these, and so on; then with watches that stay open.
fn in_turn<const N: usize>(
    replies: [fn(&Asked) -> Reply; N],
) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    let next = once(replies);
    move |asked| next().map_or_else(|| Reply::body(asked, [Step::Hang]), |reply| reply(asked))
}

/// A change in a few words.
fn brief(change: &Change) -> String {
    match change {
        Change::Service(service) => format!("{} {}", service.name.name, service.cluster_ips[0]),
        Change::ServiceGone(name) => format!("{} gone", name.name),
        Change::EndpointSlice(slice) => {
            format!("{} {}", slice.name.name, slice.endpoints[0].address)
        }
        Change::EndpointSliceGone(name) => format!("{} gone", name.name),
        Change::Node(node) => format!("node {} {}", node.name, node.addresses[0]),
        Change::NodeGone => "node gone".to_owned(),
        Change::ServiceCidr { cidrs, .. } => format!("cidrs {}", cidrs[0]),
        other => format!("{other:?}"),
    }
}

/// A reader that has received everything, and goes on on a thread.
struct Running {
    changes: Vec<String>,
    board: ApiBoard,
    receiver: Receiver,
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    fn start(mut reader: ApiReader) -> Self {
        let mut changes = Vec::new();
        let synced = reader
            .load(&never(), |change| changes.push(brief(&change)))
            .unwrap();
        assert_eq!(synced, Loaded::Synced);
        let (publisher, receiver) = mailbox::open();
        let (stop, stopped) = UnixStream::pair().unwrap();
        let board = reader.board();
        let thread = std::thread::spawn(move || reader.run(&publisher, &stopped).unwrap());
        Self {
            changes,
            board,
            receiver,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// All changes in the order of their arrival, once there are `count`.
    fn all(&mut self, count: usize) -> &[String] {
        let deadline = Instant::now() + PATIENCE;
        while self.changes.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "only {:?}", self.changes);
            if self.receiver.wait(Some(left)) == Wake::Changes {
                self.changes.extend(self.receiver.drain().iter().map(brief));
            }
        }
        &self.changes
    }

    /// Those of the first reading, sorted.
    fn sorted(&self) -> Vec<String> {
        let mut changes = self.changes.clone();
        changes.sort();
        changes
    }

    /// Waits until the state of a kind is as said.
    fn until(&self, kind: Kind, is: impl Fn(&super::WatchStatus) -> bool) {
        until(|| {
            self.board
                .snapshot()
                .iter()
                .any(|it| it.kind == kind && is(it))
        });
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        let ended = self.thread.take().unwrap().join();
        if !std::thread::panicking() {
            ended.unwrap();
            assert_eq!(self.receiver.drain(), [], "more than was expected");
            assert_eq!(self.receiver.wait(None), Wake::Closed);
        }
    }
}

/// Waits for what nobody tells.
fn until(is: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < deadline, "it does not come about");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Sends what a handler is told, each once, to whoever asks next.
fn once<T: Send + 'static>(
    things: impl IntoIterator<Item = T>,
) -> impl Fn() -> Option<T> + Send + Sync {
    let (sender, receiver) = mpsc::channel();
    for thing in things {
        sender.send(thing).unwrap();
    }
    let receiver = std::sync::Mutex::new(receiver);
    move || receiver.lock().unwrap().try_recv().ok()
}
