//! The page for people with a hundred thousand Services: an answer comes soon, the loop goes on
//! meanwhile, and no list of them is ever held.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod browser;
mod loopback;
mod objects;
mod site;

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;
use std::fs;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use browser::{Browser, PHONE};
use kproxy::engine::{Engine, Saver};
use kproxy::health::Health;
use kproxy::listeners::{Listeners, Site as Pages};
use kproxy::netns::Netns;
use kproxy::proxy::{Periods, Proxy};
use kproxy::statusz::{self, Audience};
use loopback::bring_up;
use site::{Site, link};
use svc_planner::Config;
use svc_planner::mailbox::{self, Publisher};
use svc_planner::object::{Change, Endpoint, ObjectName};

const SERVICES: u32 = 100_000;
/// Endpoints of the one Service that has many, a thousand to a slice.
const ENDPOINTS: u32 = 50_000;
/// Number of the first of them; others have lower ones.
const MANY: u32 = 1_000_000;
/// Clients at the same time.
const CLIENTS: usize = 40;
/// What all of them may cost at most; a list of all Services would be more than one of them.
const MEMORY: u64 = 12 << 20;
/// Longest wait; passes only when the test fails.
const PATIENCE: Duration = Duration::from_secs(60);

fn name(number: u32) -> ObjectName {
    ObjectName {
        namespace: format!("team-{:03}", number % 500).into(),
        name: format!("service-{number:06}").into(),
    }
}

fn service(number: u32) -> Change {
    let [_, a, b, c] = number.to_be_bytes();
    let Change::Service(mut service) = objects::service(0) else {
        panic!("no Service");
    };
    service.name = name(number);
    service.cluster_ips = [IpAddr::from([10, 100 + a, b, c])].into_iter().collect();
    if number == 77_777 {
        service.external_ips.push(IpAddr::from([192, 0, 2, 77]));
    }
    Change::Service(service)
}

/// A slice of a Service, with these endpoints.
fn slice(name: ObjectName, service: u32, endpoints: core::ops::Range<u32>) -> Change {
    let Change::EndpointSlice(mut slice) = objects::slice(0, IpAddr::from([0; 4])) else {
        panic!("no slice");
    };
    let like = slice.endpoints.remove(0);
    slice.name = name;
    slice.service = self::name(service).name;
    slice.endpoints = endpoints
        .map(|number| Endpoint {
            address: IpAddr::V4(Ipv4Addr::from_bits(0x0b00_0000 + number)),
            // Ten of a thousand are not.
            ready: number < MANY || number % 100 != 0,
            ..like.clone()
        })
        .collect();
    Change::EndpointSlice(slice)
}

fn slices() -> impl Iterator<Item = Change> {
    let single = (0..SERVICES).map(|number| slice(name(number), number, number..number + 1));
    let wide = (0..ENDPOINTS / 1_000).map(|part| {
        let name = ObjectName {
            namespace: name(0).namespace,
            name: format!("wide-{part}").into(),
        };
        let from = MANY + part * 1_000;
        slice(name, 0, from..from + 1_000)
    });
    single.chain(wide)
}

#[test]
fn a_hundred_thousand_services_are_shown_a_page_at_a_time() {
    test_support::in_new_netns(|| {
        bring_up(&[]);
        let engine = Engine::open(&Netns::Current, |_| Config::default()).unwrap();
        let clock = engine.clock();
        // The Node never comes: this is about what is planned, not about the kernel.
        let mut proxy = Proxy::new(engine, Saver::new(None), Periods::default()).awaiting("node-a");
        (0..SERVICES).map(service).for_each(|it| proxy.apply(it));
        slices().for_each(|it| proxy.apply(it));
        let listeners = Listeners::start(&Netns::Current, Arc::new(|| true)).unwrap();
        let site = Site("127.0.0.1:10249".to_owned());
        let sources = statusz::Sources {
            health: Arc::new(Health::new(proxy.board(), clock, PATIENCE)),
            sync: proxy.metrics(),
            history: proxy.history(),
            window: proxy.window(),
            api: None,
            node: "node-a".into(),
        };
        listeners.serve(Pages {
            address: site.0.parse().unwrap(),
            what: "pages",
            event: "none",
            pages: statusz::pages(sources, Audience::Local),
        });
        let (publisher, mut receiver) = mailbox::open();
        thread::scope(|scope| {
            let looking = scope.spawn(|| look(&site, publisher));
            proxy.run(&mut receiver);
            looking.join().unwrap();
        });
    });
}

fn look(site: &Site, publisher: Publisher) {
    until(|| matches!(site.try_ask("/statusz"), Ok((200, _))));
    // Whatever the first page takes once.
    turn_pages(site);
    let before = memory("VmRSS");
    // proc(5): forgets the peak.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    turn_pages(site);
    search(site);
    wide_service(site);
    crowd(site, &publisher);
    let peak = memory("VmHWM");
    assert!(
        peak < before + MEMORY,
        "{} MiB more",
        peak.saturating_sub(before) >> 20
    );
    draw(site);
    drop(publisher);
}

fn turn_pages(site: &Site) {
    let first = site.page("/statusz/services");
    assert!(first.contains("100 000 of 100 000 rows"), "{first}");
    assert!(first.contains("1 to 100<"), "{first}");
    assert_eq!(link(&first, "← back"), None);
    let names = |page: &str| -> Vec<String> {
        let after = page.split("class=\"name\"><a href=\"").skip(1);
        after
            .map(|it| it[it.find('>').unwrap() + 1..it.find("</a>").unwrap()].to_owned())
            .collect()
    };
    let mut all = names(&first);
    let mut page = first.clone();
    for _ in 0..3 {
        page = site.page(&link(&page, "on →").unwrap());
        all.extend(names(&page));
    }
    // 200 in each namespace, every 500th.
    let expected = (0..2_u32).flat_map(|team| (0..200).map(move |it| team + 500 * it));
    let expected: Vec<_> = expected
        .map(name)
        .map(|it| format!("{}/{}", it.namespace, it.name))
        .collect();
    assert_eq!(all, expected);
    for _ in 0..3 {
        page = site.page(&link(&page, "← back").unwrap());
    }
    assert_eq!(names(&page), names(&first));
    let end = site.page("/statusz/services?before=z/IPv6");
    assert!(end.contains("99 901 to 100 000<"), "{end}");
    assert_eq!(link(&end, "on →"), None);
    // A place where no Service is any more is a place still.
    let within = site.page("/statusz/services?after=team-000/service-000250/IPv4");
    assert!(within.contains("2 to 101<"), "{within}");
}

fn search(site: &Site) {
    for (query, found) in [
        ("q=SERVICE-09999", "10 of"),
        ("q=team-007", "200 of"),
        ("q=team-007/service-000507", "1 of"),
        // The 5th, and an address that is no ClusterIP.
        ("q=10.100.0.5", "1 of"),
        ("q=192.0.2.77", "1 of"),
        ("q=nothing", "0 of"),
        ("only=unready", "1 of"),
        ("only=empty", "0 of"),
        ("only=unready&q=service-000001", "0 of"),
    ] {
        let page = site.page(&format!("/statusz/services?{query}"));
        assert!(
            page.contains(&format!(">{found} 100 000 rows")),
            "{query}: {page}"
        );
    }
}

fn wide_service(site: &Site) {
    let path = "/statusz/service?name=team-000%2Fservice-000000";
    let first = site.page(path);
    assert!(first.contains("49 501 of 50 001 ready"), "{first}");
    assert!(first.contains("page 1 of 201"), "{first}");
    let last = site.page(&format!("{path}&page=201"));
    assert!(last.contains("page 201 of 201"), "{last}");
    assert_eq!(last.matches("<td class=\"addr\">11.").count(), 1, "{last}");
    for beyond in ["&page=999", "&page=18446744073709551615"] {
        let page = site.page(&format!("{path}{beyond}"));
        assert!(!page.contains("<td class=\"addr\">11."), "{page}");
        let back = link(&page, "← back").unwrap();
        assert!(back.ends_with("page=201"), "{back}");
    }
}

/// More clients than may ask at once: some are told to come again, all get an answer, and what
/// changes meanwhile is taken in.
fn crowd(site: &Site, publisher: &Publisher) {
    let gone = name(99_999);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|_| scope.spawn(|| site.ask("/statusz/services?q=service").0))
            .collect();
        publisher.publish(Change::ServiceGone(gone)).unwrap();
        until(|| {
            let (_, page) = site.ask("/statusz/services?q=service-099999");
            page.contains(">0 of 99 999 rows")
        });
        let codes: Vec<_> = clients.into_iter().map(|it| it.join().unwrap()).collect();
        assert!(codes.iter().all(|it| [200, 503].contains(it)), "{codes:?}");
        assert!(
            codes.iter().filter(|it| **it == 200).count() >= 16,
            "{codes:?}"
        );
    });
}

/// As it looks on a phone.
fn draw(site: &Site) {
    let folder = tempfile::tempdir().unwrap();
    let Some(browser) = Browser::find(folder.path()) else {
        test_support::skip("no chromium");
        return;
    };
    for (page, path) in [
        ("many-overview", "/statusz"),
        (
            "many-services",
            "/statusz/services?after=team-250%2F%2FIPv4",
        ),
        (
            "many-endpoints",
            "/statusz/service?name=team-000%2Fservice-000000",
        ),
    ] {
        browser.draw(page, &format!("http://{}{path}", site.0), PHONE, false);
    }
}

/// A line of /proc/self/status, in bytes.
fn memory(field: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    let kib: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kib << 10
}

/// Other threads do it: there is nothing to wait on but what they tell.
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(Duration::from_millis(20));
    }
}
