//! What probes and Prometheus are told, through real sockets.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod faulty;
mod loopback;
mod sandbox;

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use faulty::{Faulty, How, Refusal, Which, add, faulty, node, with_engine, with_engine_as};
use kproxy::config::FeatureGates;
use kproxy::conntrack;
use kproxy::engine::{GuardOptions, Saver, Wait};
use kproxy::events::{self, Event, EventType, Options, Recording, Regarding, Sink, SinkError};
use kproxy::health::Health;
use kproxy::listeners::{Listeners, Site};
use kproxy::metrics::{MetricsSite, Sources};
use kproxy::netns::Netns;
use kproxy::proxy::{Periods, Proxy};
use loopback::bring_up;
use nft_batch::Errno;
use sandbox::{PATIENCE, sandboxed, service, slice};
use serde_json::{Value as Json, json};
use smallvec::smallvec;
use svc_planner::Config;
use svc_planner::mailbox;
use svc_planner::object::{Change, TrafficPolicy};
use svc_planner::plan::Family;

const HEALTHZ: &str = "127.0.0.1:10256";
const METRICS: &str = "127.0.0.1:10249";

/// After this a change waits for too long.
const LATE: Duration = Duration::from_secs(1);

#[test]
fn the_node_is_waited_for_and_heeded() {
    sandboxed(|sandbox| {
        bring_up(&[]);
        sandbox.write_web("web.json", "10.1.0.1");
        let taken = TcpListener::bind(METRICS).unwrap();
        let flags = [
            "--node-name=node-a",
            "--healthz-bind-address",
            HEALTHZ,
            "--metrics-bind-address",
            METRICS,
        ];
        let proxy = sandbox.run_node(&flags);
        until(|| ask(HEALTHZ, "/livez").is_ok());
        // Alive, but the node gets no traffic, and nothing is programmed.
        let (status, body) = health("/livez");
        assert_eq!((status, &body["healthy"]), (200, &json!(true)));
        assert_eq!(body.get("nodeEligible"), None);
        let (status, body) = health("/healthz");
        assert_eq!((status, &body["healthy"]), (503, &json!(true)));
        assert_eq!(body["nodeEligible"], false);
        for family in ["IPv4", "IPv6"] {
            assert_eq!(body["status"][family]["healthy"], true, "{body}");
        }
        let ready = ask(HEALTHZ, "/readyz").unwrap();
        assert_eq!(ready.code, 503);
        assert!(ready.body.contains("IPv6: not ready: not programmed yet\n"));
        assert_eq!(ask(HEALTHZ, "/").unwrap().code, 404);

        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
        });
        sandbox.write_json("node.json", &[node]);
        until(|| code("/readyz") == 200);
        assert_eq!((code("/healthz"), code("/livez")), (200, 200));
        assert_eq!(health("/healthz").1["nodeEligible"], true);

        std::fs::remove_file(sandbox.path("node.json")).unwrap();
        until(|| code("/healthz") == 503);
        assert_eq!((code("/livez"), code("/readyz")), (200, 200));

        // A port that is taken is waited for.
        drop(taken);
        until(|| ask(METRICS, "/healthz").is_ok_and(|it| it.body == "ok"));
        let body = |page| ask(METRICS, page).unwrap().body;
        assert_eq!(body("/healthz/ping"), "ok");
        assert_eq!(
            body("/healthz?verbose"),
            "[+]ping ok\nhealthz check passed\n"
        );
        assert_eq!(ask(METRICS, "/proxyMode").unwrap().body, "nftables");
        let metrics = ask(METRICS, "/metrics").unwrap();
        let plain = "content-type: text/plain; version=0.0.4; charset=utf-8";
        assert!(metrics.head.contains(plain), "{}", metrics.head);
        for expected in [
            "\nkubeproxy_sync_proxy_rules_nftables_sync_failures_total{ip_family=\"IPv6\"} 0\n",
            "\nkubeproxy_conntrack_reconciler_deleted_entries_total{ip_family=\"IPv4\"} 0\n",
            "\nkubeproxy_conntrack_reconciler_sync_duration_seconds_bucket\
             {ip_family=\"IPv4\",le=\"16.384\"} ",
            "\nkubeproxy_proxy_livez_total{code=\"503\"} 0\n",
            "\nkproxy_service_ports_not_served{ip_family=\"IPv4\",reason=\"SetAside\"} 0\n",
            "\nkproxy_objects_skipped_total{kind=\"Service\"} 0\n",
            "\nkubernetes_build_info{",
            "\nprocess_open_fds ",
        ] {
            assert!(
                metrics.body.contains(expected),
                "{expected}: {}",
                metrics.body
            );
        }
        let name = "kubeproxy_sync_proxy_rules_last_timestamp_seconds{ip_family=\"IPv4\"}";
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        let age = now - number(&metrics.body, name);
        assert!((0.0..120.0).contains(&age), "{age}");
        assert!(number(&metrics.body, "kubeproxy_proxy_healthz_total{code=\"503\"}") >= 2.0);
        assert_eq!(proxy.stop(), 0);
        assert!(ask(HEALTHZ, "/livez").is_err());
    });
}

/// Whoever begins where another process ended has nothing to send, and tells what there is all the same; so
/// does a Service that cannot be served and changes nothing in the kernel.
#[test]
fn what_changes_nothing_in_the_kernel_is_told() {
    sandboxed(|sandbox| {
        bring_up(&[]);
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
        });
        let mut web = service("web", "10.96.0.1");
        web["spec"]["internalTrafficPolicy"] = json!("Local");
        web["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
        let rival = |number: u8| {
            let mut rival = service(&format!("rival-{number}"), "10.96.0.1");
            rival["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:00Z");
            rival
        };
        let objects = [node, web, slice("web", &["10.1.0.1"]), rival(0)];
        sandbox.write_json("all.json", &objects);
        let pages = [
            "--node-name=node-a",
            "--healthz-bind-address",
            HEALTHZ,
            "--metrics-bind-address",
            METRICS,
        ];
        let told = || {
            let page = ask(METRICS, "/metrics").unwrap().body;
            [
                "kproxy_services{ip_family=\"IPv4\"}",
                "kproxy_endpoints{ip_family=\"IPv4\"}",
                "kubeproxy_sync_proxy_rules_no_local_endpoints_total\
                 {ip_family=\"IPv4\",traffic_policy=\"internal\"}",
                "kproxy_service_ports_not_served{ip_family=\"IPv4\",reason=\"AddressTaken\"}",
                "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"}",
                "kubeproxy_sync_full_proxy_rules_duration_seconds_count{ip_family=\"IPv6\"}",
            ]
            .map(|name| number(&page, name))
        };
        for start in ["first", "second"] {
            let proxy = sandbox.run_node(&pages);
            until(|| ask(HEALTHZ, "/readyz").is_ok_and(|it| it.code == 200));
            // Ready comes first, by some microseconds.
            until(|| told() == [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
            if start == "second" {
                sandbox.write_json("more.json", &[rival(1)]);
                until(|| told()[3] >= 2.0);
                std::fs::remove_file(sandbox.path("more.json")).unwrap();
                until(|| told()[3] < 2.0);
            }
            assert_eq!(proxy.stop(), 0);
        }
    });
}

/// B96, from the start and later: what cannot be programmed is not healthy for long.
#[test]
fn when_every_commit_fails_health_goes() {
    with_engine(|engine| {
        bring_up(&[]);
        let periods = Periods {
            min_sync: Duration::ZERO,
            sync: Duration::from_millis(50),
        };
        let mut proxy = Proxy::new(engine, Saver::new(None), periods);
        let _listeners = serve(&mut proxy);
        proxy.apply(node(&["192.0.2.1", "2001:db8::1"]));
        add(proxy.engine(), 2);
        faulty(proxy.engine()).refusals = vec![refusal()];
        sync(&mut proxy);
        assert_eq!((code("/healthz"), code("/readyz")), (200, 503), "for now");
        until(|| code("/healthz") == 503);
        assert_eq!(code("/livez"), 503);
        let (_, body) = health("/livez");
        assert_eq!(body["status"]["IPv4"]["healthy"], false);
        assert_eq!(body["status"]["IPv6"]["healthy"], true);
        assert_eq!(body["lastUpdated"], body["status"]["IPv6"]["lastUpdated"]);
        assert_ne!(body["lastUpdated"], body["currentTime"]);
        let ready = ask(HEALTHZ, "/readyz").unwrap().body;
        assert!(
            ready.contains("IPv4: not ready: never programmed: "),
            "{ready}"
        );
        assert!(ready.contains("EPERM"), "{ready}");
        assert!(ready.contains("IPv6: ready\n"), "{ready}");

        faulty(proxy.engine()).refusals.clear();
        until_synced(&mut proxy);
        for page in ["/healthz", "/livez", "/readyz"] {
            assert_eq!(code(page), 200, "{page}");
        }

        // What was programmed once is still in force.
        faulty(proxy.engine()).refusals = vec![refusal()];
        for change in faulty::service(3) {
            proxy.apply(change);
        }
        sync(&mut proxy);
        assert_eq!(code("/healthz"), 200);
        until(|| code("/healthz") == 503);
        assert_eq!((code("/livez"), code("/readyz")), (503, 200));
        let metrics = ask(METRICS, "/metrics").unwrap().body;
        let failures = "kubeproxy_sync_proxy_rules_nftables_sync_failures_total";
        assert!(number(&metrics, &format!("{failures}{{ip_family=\"IPv4\"}}")) >= 2.0);
        faulty(proxy.engine()).refusals.clear();
        until_synced(&mut proxy);
        assert_eq!((code("/healthz"), code("/livez")), (200, 200));
    });
}

/// Name of the own Node, as [`node`] has it.
const OWN: &str = "own";

/// A Service of policy Local that balancers ask about, and its endpoint on the own Node or another.
fn balanced(number: u8, port: u16, on: &str) -> [Change; 2] {
    let [
        Change::Service(mut service),
        Change::EndpointSlice(mut slice),
    ] = faulty::service(number)
    else {
        panic!("other changes");
    };
    service.external_policy = TrafficPolicy::Local;
    service.load_balancer_ips = smallvec![IpAddr::from([198, 51, 100, number])];
    service.health_check_node_port = port;
    slice.endpoints[0].node = Some(on.into());
    [Change::Service(service), Change::EndpointSlice(slice)]
}

/// B86: what a refused commit carried is told by health-check node ports and metrics once one succeeds.
#[test]
fn health_ports_and_metrics_follow_when_a_commit_succeeds_at_last() {
    let config = || Config {
        node_name: OWN.into(),
        ..Config::default()
    };
    with_engine_as(config, |engine| {
        bring_up(&["192.0.2.1"]);
        let periods = Periods {
            min_sync: Duration::ZERO,
            sync: Duration::from_millis(50),
        };
        let mut proxy = Proxy::new(engine, Saver::new(None), periods);
        let listeners = serve(&mut proxy);
        proxy.engine().tell_listeners(listeners.publisher());
        let at = |port: u16| ask(&format!("192.0.2.1:{port}"), "/").map(|answer| answer.code);
        let metric = |name: &str, label: &str| {
            let metrics = ask(METRICS, "/metrics").unwrap().body;
            let mut lines = metrics.lines().filter(|line| line.starts_with(name));
            let line = lines.find(|line| line.contains(label) && !line.contains("IPv6"));
            let line = line.unwrap_or_else(|| panic!("{name}: {metrics}"));
            line.rsplit(' ').next().unwrap().parse::<f64>().unwrap()
        };
        let pending = || metric("kubeproxy_sync_proxy_rules_endpoint_changes_pending", "");
        let nobody = || {
            let name = "kubeproxy_sync_proxy_rules_no_local_endpoints_total{";
            metric(name, "traffic_policy=\"external\"")
        };
        proxy.apply(node(&["192.0.2.1"]));
        for change in balanced(2, 32000, OWN) {
            proxy.apply(change);
        }
        until_synced(&mut proxy);
        until(|| at(32000).is_ok_and(|code| code == 200));
        until(|| (pending(), nobody()) == (0.0, 0.0));

        faulty(proxy.engine()).refusals = vec![refusal()];
        for change in balanced(2, 32000, "other")
            .into_iter()
            .chain(balanced(3, 32001, OWN))
        {
            proxy.apply(change);
        }
        // A busy machine may end a sync before the second family has had its turn.
        until(|| {
            sync(&mut proxy);
            faulty(proxy.engine()).turned_away > 0 && pending() == 2.0
        });
        assert_eq!(at(32000).unwrap(), 200, "as the kernel has it");
        assert!(at(32001).is_err(), "nothing is served there");

        faulty(proxy.engine()).refusals.clear();
        until_synced(&mut proxy);
        until(|| at(32000).is_ok_and(|code| code == 503));
        until(|| at(32001).is_ok_and(|code| code == 200));
        until(|| (pending(), nobody()) == (0.0, 1.0));
    });
}

/// A table that somebody keeps changing back is not ready, and is again when he stops.
#[test]
fn while_another_writer_fights_it_is_not_ready() {
    with_engine(|engine| {
        bring_up(&[]);
        let (tell, told) = mpsc::channel();
        let recording = Recording::start(Options::new(OWN), Told(tell)).unwrap();
        let mut proxy = Proxy::new(engine, Saver::new(None), Periods::default())
            .recording(recording.recorder());
        let _listeners = serve(&mut proxy);
        let (publisher, mut receiver) = mailbox::open();
        let bell = receiver.bell();
        let options = GuardOptions {
            window: Duration::from_millis(1500),
            first_pause: Duration::from_millis(300),
            longest_pause: Duration::from_millis(300),
            ..GuardOptions::default()
        };
        let guarded = proxy
            .engine()
            .guard(&Netns::Current, options, move || bell.ring());
        guarded.unwrap();
        // The publisher goes with a failed assertion, and with it what the loop waits for.
        thread::scope(move |scope| {
            let running = scope.spawn(move || proxy.run(&mut receiver));
            publisher.publish(node(&["192.0.2.1"])).unwrap();
            until(|| code("/readyz") == 200);
            until(|| code("/healthz") == 200);
            until(|| {
                // Nothing that keeps the questions from being heard.
                let edit = ["insert", "rule", "ip", "kube-proxy", "services", "counter"];
                let output = Command::new("nft").args(edit).output().unwrap();
                assert!(output.status.success(), "{output:?}");
                code("/readyz") == 503
            });
            let ready = ask(HEALTHZ, "/readyz").unwrap().body;
            assert!(ready.contains("IPv4: not ready: nft"), "{ready}");
            assert!(ready.contains("IPv6: ready\n"), "{ready}");
            assert_eq!(code("/livez"), 200, "no reason to be started again");
            let metrics = ask(METRICS, "/metrics").unwrap().body;
            assert_eq!(
                number(&metrics, "kproxy_contended{ip_family=\"IPv4\"}"),
                1.0
            );

            let event = told.recv_timeout(PATIENCE).unwrap();
            assert_eq!(event.reason, "ForeignTableChanges");
            assert_eq!(event.kind, EventType::Warning);
            assert_eq!(event.regarding, Regarding::Node(OWN.into()));
            assert!(event.note.contains("nft"), "{}", event.note);

            until(|| code("/readyz") == 200);
            let metrics = ask(METRICS, "/metrics").unwrap().body;
            let of = |name: &str| number(&metrics, &format!("{name}{{ip_family=\"IPv4\"}}"));
            assert_eq!(of("kproxy_contended"), 0.0);
            assert_eq!(of("kproxy_foreign_edits_contended_total"), 1.0);
            assert!(of("kproxy_foreign_edits_total") >= 3.0);
            assert!(of("kproxy_foreign_edits_mended_total") >= 3.0);
            publisher.close();
            running.join().unwrap();
            assert!(told.try_recv().is_err(), "told once");
        });
    });
}

/// Hands events on.
struct Told(mpsc::Sender<Event>);

impl Sink for Told {
    fn create(&mut self, event: &Event) -> Result<events::Told, SinkError> {
        self.0
            .send(event.clone())
            .map_err(|why| SinkError::Refused(why.to_string()))?;
        Ok(events::Told::Created)
    }
}

/// Serves a loop's health and metrics.
fn serve(proxy: &mut Proxy<Faulty>) -> Listeners {
    let clock = proxy.engine().clock();
    let health = Arc::new(Health::new(proxy.board(), clock, LATE));
    let listeners = Listeners::start(&Netns::Current, Arc::new(|| true)).unwrap();
    let conntrack = Arc::<conntrack::Counters>::default();
    let sources = Sources {
        sync: proxy.metrics(),
        listeners: listeners.counters(),
        skipped: Arc::default(),
        events: None,
        api: None,
        gates: FeatureGates::default(),
        health: Arc::clone(&health),
        conntrack,
    };
    let metrics = MetricsSite::new(sources.registry()).pages();
    for (address, pages) in [(HEALTHZ, health.pages()), (METRICS, metrics)] {
        listeners.serve(Site {
            address: address.parse().unwrap(),
            what: "test",
            event: "Test",
            pages,
        });
        until(|| ask(address, "/healthz").is_ok());
    }
    listeners
}

fn refusal() -> Refusal {
    Refusal(Which::Of(Family::Ipv4), How::Whole(Errno::EPERM))
}

/// Sends what there is to send within the next tenth of a second.
fn sync(proxy: &mut Proxy<Faulty>) {
    let end = proxy.engine().clock().now() + Duration::from_millis(100);
    while let Wait::Until(time) = proxy.sync()
        && time <= end
    {
        while proxy.engine().clock().now() < time {
            thread::yield_now();
        }
    }
}

fn until_synced(proxy: &mut Proxy<Faulty>) {
    let board = proxy.board();
    until(|| {
        sync(proxy);
        board
            .read()
            .families
            .iter()
            .all(|it| it.queued_since.is_none())
    });
}

struct Answer {
    code: u16,
    head: String,
    body: String,
}

fn ask(address: &str, path: &str) -> io::Result<Answer> {
    let mut connection = TcpStream::connect(address.parse::<SocketAddr>().unwrap())?;
    connection.set_read_timeout(Some(PATIENCE))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
    connection.write_all(request.as_bytes())?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
    let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(ended)?;
    Ok(Answer {
        code: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_ascii_lowercase(),
        body: body.to_owned(),
    })
}

fn code(path: &str) -> u16 {
    ask(HEALTHZ, path).unwrap().code
}

fn health(path: &str) -> (u16, Json) {
    let answer = ask(HEALTHZ, path).unwrap();
    for header in [
        "content-type: application/json",
        "x-content-type-options: nosniff",
    ] {
        assert!(answer.head.contains(header), "{}", answer.head);
    }
    (answer.code, serde_json::from_str(&answer.body).unwrap())
}

/// The value of a metric with its labels.
fn number(metrics: &str, name: &str) -> f64 {
    let mut values = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.next().unwrap_or_else(|| panic!("{name}: {metrics}"));
    value.trim().parse().unwrap()
}

/// Another thread or process does it: there is nothing to wait on but what it tells.
#[track_caller]
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(Duration::from_millis(5));
    }
}
