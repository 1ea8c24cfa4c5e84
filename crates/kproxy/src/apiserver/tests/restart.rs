//! A proxy that begins anew beside a table full of Services, while the API server takes its time.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::os::fd::{AsFd as _, BorrowedFd};

use netns_lab::Namespace;
use nft_batch::Connection;
use svc_planner::Config;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::fake::{Asked, Fake, Reply, Step, event, whole};
use super::*;
use crate::engine::GuardOptions;
use crate::netns::Netns;
use crate::node::{self, Identity, Order, Orders, Settings, SiteSettings, SourceSettings};
use crate::proxy::Periods;
use crate::statusz::Audience;
use crate::watch::wait;

const SERVICES: u32 = 10_000;
const METRICS: &str = "127.0.0.1:10249";

/// Ends the proxy when the other end says so.
struct Told(UnixStream);

impl Orders for Told {
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<Order>> {
        let [told, _] = wait([self.0.as_fd(), stop], None)?;
        Ok(told.then_some(Order::End))
    }
}

/// Services with an endpoint each, as one kind of objects or the other.
fn cluster(kind: Kind, numbers: core::ops::Range<u32>) -> Vec<Json> {
    let numbers = numbers.map(|number| {
        let [_, a, b, c] = number.to_be_bytes();
        let name = format!("service-{number}");
        if kind == Kind::Service {
            return service(&name, 1, &format!("10.{}.{b}.{c}", 96 + a));
        }
        let mut slice = slice(&name, 1, &format!("10.{}.{b}.{c}", 128 + a));
        slice["metadata"]["labels"]["kubernetes.io/service-name"] = json!(name);
        slice
    });
    numbers.collect()
}

/// An API server that sends what `later` gives of one kind, and all the others at once.
fn server(held: Option<(Kind, UnboundedReceiver<Vec<u8>>)>) -> Fake {
    let (kind, later) = held.unzip();
    let later = later.map(|later| once([later]));
    Fake::start(move |asked| {
        if asked.is_event() {
            return Reply::refuse(403, "Forbidden", "no events here");
        }
        match asked.kind() {
            it if Some(it) == kind && asked.is_list() => {
                let later = later.as_ref().and_then(|later| later());
                Reply::body(asked, later.map(Step::Later))
            }
            Kind::Node => Reply::all(asked, "9", &[node()]),
            Kind::ServiceCidr => Reply::all(asked, "9", &[]),
            it => Reply::all(asked, "9", &cluster(it, 0..SERVICES)),
        }
    })
}

fn settings(url: String, state_dir: &std::path::Path) -> Settings {
    Settings {
        netns: Netns::Current,
        source: SourceSettings::Api(options(url)),
        node: Identity {
            name: "node-a".to_owned(),
            is_needed: true,
            is_named: true,
        },
        ipv4: Config::default(),
        ipv6: Config::default(),
        periods: Periods::default(),
        state_dir: state_dir.to_owned(),
        own_tables: false,
        recording: None,
        hard_fail: false,
        guard: GuardOptions::default(),
        sites: SiteSettings {
            metrics: Some(METRICS.parse().unwrap()),
            statusz: Audience::Nobody,
            ..SiteSettings::default()
        },
        warnings: Vec::new(),
    }
}

/// A number of the metrics page, once there is one.
fn metric(name: &str) -> Option<f64> {
    let mut connection = TcpStream::connect(METRICS).ok()?;
    let request = b"GET /metrics HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    connection.write_all(request).unwrap();
    let mut page = String::new();
    connection.read_to_string(&mut page).unwrap();
    let line = page.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().parse().ok()
}

fn services_in_the_kernel() -> Option<f64> {
    metric("kproxy_set_rows{ip_family=\"IPv4\",set=\"services\"}")
}

/// A proxy at work, until it is told to end.
fn running(settings: &Settings, look: impl FnOnce()) {
    let (told, tell) = UnixStream::pair().unwrap();
    std::thread::scope(|scope| {
        let proxy = scope.spawn(|| node::run(settings, None, &mut Told(told)).unwrap());
        // Whatever happens, it ends.
        let tell = tell;
        look();
        drop(tell);
        assert_eq!(proxy.join().unwrap(), Order::End);
    });
}

/// B83: however much of the first lists is missing, and for however long, nothing is deleted, nor written at
/// all; what is missing at their end is.
#[test]
fn nothing_is_deleted_before_the_first_lists_are_complete() {
    if !test_support::has_netns() {
        return;
    }
    for kind in [Kind::Service, Kind::EndpointSlice] {
        let namespace = Namespace::new("first lists").unwrap();
        namespace.run(move || restart(kind)).unwrap();
    }
}

fn restart(kind: Kind) {
    let folder = tempfile::tempdir().unwrap();
    let all = f64::from(SERVICES);
    let whole_server = server(None);
    running(&settings(whole_server.url(), folder.path()), || {
        until(|| services_in_the_kernel() == Some(all));
    });
    drop(whole_server);
    let mut kernel = Connection::open().unwrap();
    let before = kernel.generation().unwrap();

    let (release, later): (UnboundedSender<Vec<u8>>, _) = unbounded_channel();
    let slow = server(Some((kind, later)));
    running(&settings(slow.url(), folder.path()), || {
        until(|| !slow.asked(kind).is_empty());
        let asked: &Asked = &slow.asked(kind)[0];
        for object in cluster(kind, 0..SERVICES / 2) {
            release.send(event(asked, "ADDED", &object)).unwrap();
        }
        let received = format!("kproxy_watch_objects{{kind=\"{kind}\"}}");
        until(|| metric(&received) == Some(all / 2.0));
        let others = [Kind::Service, Kind::EndpointSlice, Kind::Node];
        for other in others.into_iter().filter(|other| *other != kind) {
            let synced = format!("kproxy_watch_synced{{kind=\"{other}\"}}");
            until(|| metric(&synced) == Some(1.0));
        }
        assert_eq!(kernel.generation().unwrap(), before);
        // One of them is no more.
        let rest = cluster(kind, SERVICES / 2..SERVICES - 1);
        release.send(whole(asked, "9", &rest)).unwrap();
        until(|| services_in_the_kernel().is_some_and(|rows| rows < all));
        assert!(services_in_the_kernel().is_some_and(|rows| rows >= all - 1.0));
    });
}
