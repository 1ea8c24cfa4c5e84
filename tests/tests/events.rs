//! Events against the real kube-apiserver: a fault of a Service is the same on every node, and all
//! nodes together write one event about it.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use e2e::control_plane::{ControlPlane, Method, Request};
use kproxy::events::{Event, EventType, Options, Recording, Sink, SinkError, Told};
use serde_json::{Value as Json, json};
use svc_planner::object::{ObjectName, Uid};

/// Nodes that see the same fault.
const NODES: u64 = 100;
/// How long all of them may take.
const PATIENCE: Duration = Duration::from_secs(300);
const NOTE: &str = "IPv4: default/web:http/TCP: 10.96.0.1:80 belongs to default/older:http/TCP";

/// Creates events as somebody who may do anything.
struct Server(Arc<ControlPlane>);

impl Sink for Server {
    fn create(&mut self, event: &Event) -> Result<Told, SinkError> {
        let request = Request::new(Method::Post, event.path()).with(event.object());
        match self.0.client().send_one(&request) {
            Ok(response) if response.is_ok() => Ok(Told::Created),
            Ok(response) if response.code == 409 => Ok(Told::Known),
            Ok(response) => Err(SinkError::Refused(response.message())),
            Err(error) => Err(SinkError::Failed(error.to_string())),
        }
    }
}

#[test]
fn a_hundred_nodes_write_one_event_about_a_service_and_one_each_about_themselves() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = Arc::new(ControlPlane::start()?);
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": "default"},
        "spec": {"ports": [{"port": 80}]}
    });
    let services = "/api/v1/namespaces/default/services";
    let made = control
        .client()
        .send_one(&Request::new(Method::Post, services).with(service))?;
    ensure!(made.is_ok(), "{}", made.message());
    let made = control.client().get(&format!("{services}/web"))?;
    let made: Json = serde_json::from_str(&made.body)?;
    let uid = made["metadata"]["uid"]
        .as_str()
        .and_then(Uid::parse)
        .context("a uid")?;

    let mut nodes = Vec::new();
    for number in 0..NODES {
        let options = Options {
            jitter: Duration::from_secs(2),
            period: Duration::from_millis(10),
            ..Options::new(&format!("node-{number}"))
        };
        nodes.push(Recording::start(options, Server(Arc::clone(&control)))?);
    }
    let name = ObjectName {
        namespace: "default".into(),
        name: "web".into(),
    };
    for node in &nodes {
        let recorder = node.recorder();
        // Both families, or the same again after a while.
        for _ in 0..2 {
            recorder.fault(&name, Some(uid), "AddressTaken", NOTE.to_owned());
        }
        recorder.node(
            EventType::Normal,
            "Starting",
            "StartKubeProxy",
            String::new(),
        );
    }
    let deadline = Instant::now() + PATIENCE;
    let totals = || {
        let totals = nodes.iter().map(|node| node.counters().totals());
        totals.fold((0, 0, 0), |(created, known, failed), it| {
            (created + it.created, known + it.known, failed + it.failed)
        })
    };
    while totals() != (NODES + 1, NODES - 1, 0) {
        ensure!(Instant::now() < deadline, "{:?}", totals());
        std::thread::sleep(Duration::from_millis(100));
    }
    let events = list(&control)?;
    let faults: Vec<_> = events
        .iter()
        .filter(|it| it["reason"] == "AddressTaken")
        .collect();
    ensure!(faults.len() == 1, "{faults:?}");
    let fault = faults.first().context("an event")?;
    ensure!(fault["regarding"]["uid"] == uid.to_string(), "{fault}");
    ensure!(
        fault["note"] == NOTE && fault["type"] == "Warning",
        "{fault}"
    );
    ensure!(
        fault["metadata"]["name"] == format!("web.{uid}.address-taken"),
        "{fault}"
    );
    let starts = events.iter().filter(|it| it["reason"] == "Starting");
    let mut names: Vec<_> = starts
        .filter_map(|it| it["regarding"]["name"].as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    ensure!(names.len() == 100, "{names:?}");

    // A fault that is over before its time comes is not told.
    let patient = Options {
        jitter: Duration::from_secs(3600),
        ..Options::new("patient")
    };
    let patient = Recording::start(patient, Server(Arc::clone(&control)))?;
    let recorder = patient.recorder();
    recorder.fault(&name, Some(uid), "SetAside", NOTE.to_owned());
    recorder.fault_over(uid, "SetAside");
    while patient.counters().totals().withdrawn != 1 {
        ensure!(Instant::now() < deadline, "it is not withdrawn");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(patient);
    ensure!(list(&control)?.iter().all(|it| it["reason"] != "SetAside"));
    Ok(())
}

fn list(control: &ControlPlane) -> Result<Vec<Json>> {
    let listed = control
        .client()
        .get("/apis/events.k8s.io/v1/namespaces/default/events")?;
    let listed: Json = serde_json::from_str(&listed.body)?;
    Ok(listed["items"].as_array().context("items")?.clone())
}

/// What is told of this node: tried again while the server cannot be reached, dropped when it is the
/// same as before, and given up when it is refused.
#[test]
fn failures_are_tried_again_and_refusals_given_up() -> Result<()> {
    type Answer = (String, Result<Told, SinkError>);
    struct Fails(Arc<Mutex<Vec<Answer>>>);
    impl Sink for Fails {
        fn create(&mut self, event: &Event) -> Result<Told, SinkError> {
            let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let tries = log.iter().filter(|(name, _)| *name == event.name).count();
            let outcome = match (event.reason, tries) {
                ("Refused", _) => Err(SinkError::Refused("no".to_owned())),
                (_, 0..2) => Err(SinkError::Failed("not there".to_owned())),
                _ => Ok(Told::Created),
            };
            log.push((event.name.clone(), outcome.clone()));
            outcome
        }
    }
    let log = Arc::default();
    let options = Options {
        retry: Duration::from_millis(5),
        period: Duration::from_millis(1),
        ..Options::new("node")
    };
    let node = Recording::start(options, Fails(Arc::clone(&log)))?;
    let recorder = node.recorder();
    for reason in ["Again", "Again", "Refused"] {
        recorder.node(EventType::Warning, reason, "Try", "words".to_owned());
    }
    let deadline = Instant::now() + PATIENCE;
    loop {
        let totals = node.counters().totals();
        if (totals.created, totals.failed, totals.dropped) == (1, 1, 1) {
            break;
        }
        ensure!(Instant::now() < deadline, "{totals:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(node);
    let log = log.lock().unwrap_or_else(PoisonError::into_inner);
    ensure!(log.len() == 4, "{log:?}");
    Ok(())
}
