//! `kproxy run` and `kproxy apply` cut the flows that nobody serves any more, whatever happened to the
//! program in between.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::Instant;

use netns_lab::{Flow, SINK, Topology, Transport, Verdict};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value as Json, json};

/// Longest wait for what must happen; passes only when the test fails.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest wait for an answer to one datagram.
const ANSWER: Duration = Duration::from_millis(200);
/// How often a sender sends.
const RHYTHM: Duration = Duration::from_millis(5);

const PORT: u16 = 53;
const TARGET: u16 = 5353;

struct Family {
    kind: &'static str,
    node: &'static str,
    client: &'static str,
    vip: &'static str,
    a: &'static str,
    b: &'static str,
}

const FAMILIES: [Family; 2] = [
    Family {
        kind: "IPv4",
        node: "192.168.0.2",
        client: "10.0.9.1",
        vip: "172.30.0.41",
        a: "10.0.1.1",
        b: "10.0.1.2",
    },
    Family {
        kind: "IPv6",
        node: "2001:db8::1",
        client: "fd00:10::9:1",
        vip: "fd00:10:96::41",
        a: "fd00:10::1",
        b: "fd00:10::2",
    },
];

/// A node, its pods, and what the program is given.
struct Bench {
    family: &'static Family,
    topology: Topology,
    manifests: tempfile::TempDir,
    state: tempfile::TempDir,
}

/// The program at work; killed when dropped.
struct Running(Child);

impl Running {
    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.0.id().try_into().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until it stands still.
    fn freeze(&self) {
        self.signal(Signal::STOP);
        let stat = PathBuf::from(format!("/proc/{}/stat", self.0.id()));
        let end = Instant::now() + PATIENCE;
        // After the name in parentheses: the state, T if stopped.
        while !fs::read_to_string(&stat).unwrap().contains(") T ") {
            assert!(Instant::now() < end, "it does not stop");
            thread::yield_now();
        }
    }

    fn stop(mut self) {
        self.signal(Signal::TERM);
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    fn new(family: &'static Family) -> Self {
        let ip = |text: &str| -> IpAddr { text.parse().unwrap() };
        let topology = Topology::builder()
            .node([ip(family.node)])
            .host("client", [ip(family.client)])
            .host("a", [ip(family.a)])
            .host("b", [ip(family.b)])
            .build()
            .unwrap();
        for pod in ["a", "b"] {
            topology.serve(pod, Transport::Udp, TARGET).unwrap();
        }
        Self {
            family,
            topology,
            manifests: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
        }
    }

    fn write(&self, file: &str, object: &Json) {
        let new = self.manifests.path().join(".new");
        fs::write(&new, object.to_string()).unwrap();
        fs::rename(new, self.manifests.path().join(file)).unwrap();
    }

    fn write_service(&self) {
        let Family { vip, kind, .. } = self.family;
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "dns", "namespace": "default"},
            "spec": {"clusterIP": vip, "clusterIPs": [vip], "ipFamilies": [kind],
                     "ports": [{"name": "dns", "protocol": "UDP", "port": PORT}]}});
        self.write("service.json", &service);
    }

    fn write_slice(&self, endpoint: &str) {
        let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "dns", "namespace": "default",
                         "labels": {"kubernetes.io/service-name": "dns"}},
            "addressType": self.family.kind,
            "endpoints": [{"addresses": [endpoint]}],
            "ports": [{"name": "dns", "protocol": "UDP", "port": TARGET}]});
        self.write("slice.json", &slice);
    }

    fn remove_service(&self) {
        fs::remove_file(self.manifests.path().join("service.json")).unwrap();
    }

    /// The program on the node.
    fn command(&self, command: &str) -> Command {
        let mut program = Command::new(env!("CARGO_BIN_EXE_kproxy"));
        program
            .arg(command)
            .arg("--state-dir")
            .arg(self.state.path());
        program.args(["--node-name", "node", "--no-node"]);
        program
    }

    fn start(&self) -> Running {
        let mut command = self.command("run");
        let source = format!("dir:{}", self.manifests.path().display());
        command.args(["--source", &source, "--min-sync-period", "10ms"]);
        command.arg("--seccomp=kill");
        command.stderr(Stdio::null());
        // A process is born in the namespace of the thread that makes it.
        let spawn = move || command.spawn().unwrap();
        Running(self.topology.node().run(spawn).unwrap())
    }

    fn apply(&self) -> Output {
        let mut command = self.command("apply");
        command.arg("-f").arg(self.manifests.path());
        let apply = move || command.output().unwrap();
        self.topology.node().run(apply).unwrap()
    }

    fn flow(&self) -> Flow {
        let vip = self.family.vip.parse().unwrap();
        let to = SocketAddr::new(vip, PORT);
        self.topology.flow("client", to).unwrap()
    }
}

fn who(flow: &Flow) -> String {
    match flow.ask(ANSWER).unwrap() {
        Verdict::Answered(answer) => answer.by.into(),
        other => format!("{other:?}"),
    }
}

/// Sends until the flow ends as expected, which it must soon.
#[track_caller]
fn until(flow: &Flow, expected: &str) {
    let end = Instant::now() + PATIENCE;
    loop {
        let by = who(flow);
        if by == expected {
            return;
        }
        assert!(Instant::now() < end, "{by} instead of {expected}");
        thread::sleep(RHYTHM);
    }
}

/// Runs a test for each family; skips where namespaces cannot be made.
fn on_each(test: impl Fn(&Bench)) {
    if !test_support::has_netns() {
        return;
    }
    for family in &FAMILIES {
        test(&Bench::new(family));
    }
}

#[test]
fn an_endpoint_replaced_while_the_program_is_frozen() {
    on_each(|bench| {
        bench.write_service();
        bench.write_slice(bench.family.a);
        let running = bench.start();
        let flow = bench.flow();
        until(&flow, "a");
        running.freeze();
        bench.write_slice(bench.family.b);
        assert_eq!(who(&flow), "a");
        running.signal(Signal::CONT);
        until(&flow, "b");
        running.stop();
    });
}

#[test]
fn an_endpoint_replaced_while_the_program_is_down() {
    on_each(|bench| {
        bench.write_service();
        bench.write_slice(bench.family.a);
        let running = bench.start();
        let flow = bench.flow();
        until(&flow, "a");
        // Killed, not asked.
        drop(running);
        bench.write_slice(bench.family.b);
        assert_eq!(who(&flow), "a");
        let running = bench.start();
        until(&flow, "b");
        running.stop();
    });
}

#[test]
fn a_service_deleted_while_the_program_is_down() {
    on_each(|bench| {
        bench.write_service();
        bench.write_slice(bench.family.a);
        let running = bench.start();
        let flow = bench.flow();
        until(&flow, "a");
        running.stop();
        bench.remove_service();
        assert_eq!(who(&flow), "a");
        let running = bench.start();
        until(&flow, SINK);
        running.stop();
    });
}

#[test]
fn one_application_of_the_manifests_is_enough() {
    on_each(|bench| {
        bench.write_service();
        bench.write_slice(bench.family.a);
        assert!(bench.apply().status.success());
        let flow = bench.flow();
        assert_eq!(who(&flow), "a");
        bench.write_slice(bench.family.b);
        let output = bench.apply();
        assert!(output.status.success(), "{output:?}");
        // When it has ended, it is done.
        assert_eq!(who(&flow), "b");
    });
}
