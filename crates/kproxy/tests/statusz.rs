//! The page for people, through real sockets and a real browser.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod browser;
mod loopback;
mod sandbox;
mod site;

use std::thread;
use std::time::Instant;

use browser::{Browser, DESK, PHONE};
use loopback::bring_up;
use sandbox::{PATIENCE, Running, Sandbox, sandboxed, service, slice};
use serde_json::json;
use site::{Site, link};

const NODE: &str = "192.0.2.1";
const HOSTILE: &str = "<img src=x onerror=alert(1)>\"'&";

#[test]
fn it_shows_services_with_search_pages_and_nothing_that_is_markup() {
    sandboxed(|sandbox| {
        let (_proxy, site) = start(&sandbox, &[]);
        let overview = site.page("/statusz");
        for expected in ["<h2>IPv4</h2>", "in step", "client-affinity", "<svg", "203"] {
            assert!(overview.contains(expected), "{expected}: {overview}");
        }
        let list = site.page("/statusz/services");
        assert!(
            list.contains("203 of 203 rows") && list.contains("1 to 100"),
            "{list}"
        );
        let second = site.page(&link(&list, "on →").unwrap());
        assert!(second.contains("101 to 200"), "{second}");
        let last = site.page(&link(&second, "on →").unwrap());
        assert!(
            last.contains("201 to 203") && last.contains("default/web"),
            "{last}"
        );
        assert_eq!(link(&last, "on →"), None, "{last}");
        let back = site.page(&link(&last, "← back").unwrap());
        assert!(back.contains("101 to 200"), "{back}");

        let found = site.page("/statusz/services?q=svc-19");
        assert!(found.contains("11 of 203 rows"), "{found}");
        let found = site.page("/statusz/services?q=10.96.0.10");
        assert!(
            found.contains("2 of 203 rows")
                && found.contains("default/web")
                && found.contains("default/rival"),
            "{found}"
        );
        let empty = site.page("/statusz/services?only=empty&q=web");
        assert!(empty.contains("No Service is like that"), "{empty}");

        let one = site.page("/statusz/service?name=default%2Fweb");
        for expected in [
            "10.96.0.10",
            "internal-2",
            "10.1.0.2",
            "2 of 2 ready",
            "class ",
        ] {
            assert!(one.contains(expected), "{expected}: {one}");
        }
        // What lost its address says so.
        let rival = site.page("/statusz/service?name=default%2Frival");
        assert!(rival.contains("another Service has it"), "{rival}");
        assert!(rival.contains("belongs to default/web"), "{rival}");
        assert!(site.page("/statusz").contains("belongs to default/web"));

        let encoded: String = HOSTILE.bytes().map(|byte| format!("%{byte:02X}")).collect();
        for path in [
            "/statusz/services".to_owned(),
            format!("/statusz/services?q={encoded}"),
            format!("/statusz/service?name=default%2F{encoded}"),
        ] {
            let page = site.page(&path);
            assert!(
                page.contains("&lt;img src=x onerror=alert(1)&gt;"),
                "{page}"
            );
            assert!(!page.contains("<img"), "{page}");
        }
        assert_eq!(site.ask("/statusz/service?name=default%2Fnone").0, 404);
        assert_eq!(site.ask("/statusz/service").0, 404);
        assert_eq!(site.ask("/statusz/else").0, 404);
    });
}

#[test]
fn other_hosts_see_it_only_if_they_may() {
    sandboxed(|sandbox| {
        let (proxy, site) = start(&sandbox, &[]);
        let far = Site(format!("{NODE}:10249"));
        assert_eq!(far.ask("/statusz").0, 403);
        assert_eq!(far.ask("/statusz/services").0, 403);
        assert_eq!((far.ask("/metrics").0, site.ask("/statusz").0), (200, 200));
        drop(proxy);
    });
    sandboxed(|sandbox| {
        let (_proxy, _) = start(&sandbox, &["--statusz=all"]);
        assert_eq!(Site(format!("{NODE}:10249")).ask("/statusz").0, 200);
    });
    sandboxed(|sandbox| {
        let (_proxy, site) = start(&sandbox, &["--statusz=off"]);
        assert_eq!(site.ask("/statusz").0, 404);
    });
}

/// Headless Chromium draws each page, in a phone's width and a desk's, light and dark. With
/// `KPROXY_SCREENSHOTS` the pictures are kept in that folder.
#[test]
fn a_browser_draws_it() {
    sandboxed(move |sandbox| {
        let Some(browser) = Browser::find(sandbox.folder()) else {
            test_support::skip("no chromium");
            return;
        };
        let (_proxy, site) = start(&sandbox, &[]);
        for (page, path) in [
            ("overview", "/statusz"),
            ("services", "/statusz/services"),
            ("service", "/statusz/service?name=default%2Fweb"),
        ] {
            for screen in [PHONE, DESK] {
                for dark in [false, true] {
                    browser.draw(page, &format!("http://{}{path}", site.0), screen, dark);
                }
            }
        }
    });
}

/// 203 Services: two hundred alike, one with a hostile name, two of which one lost its address.
fn start(sandbox: &Sandbox, more: &[&str]) -> (Running, Site) {
    bring_up(&[NODE]);
    let mut objects = vec![
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"addresses": [{"type": "InternalIP", "address": NODE}]}}),
        service(HOSTILE, "10.96.0.11"),
        service("web", "10.96.0.10"),
        slice("web", &["10.1.0.1", "10.1.0.2"]),
    ];
    let mut rival = service("rival", "10.96.0.10");
    rival["metadata"]["creationTimestamp"] = json!("2030-01-01T00:00:00Z");
    objects[2]["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    objects.push(rival);
    for number in 0..200 {
        let name = format!("svc-{number}");
        objects.push(service(&name, &format!("10.96.1.{number}")));
        objects.push(slice(&name, &[&format!("10.2.0.{number}")]));
    }
    sandbox.write_json("all.json", &objects);
    let flags = ["--node-name=node-a", "--metrics-bind-address=0.0.0.0:10249"];
    let proxy = sandbox.run_node(&[&flags, more].concat());
    let site = Site("127.0.0.1:10249".to_owned());
    let programmed = "kproxy_services{ip_family=\"IPv4\"} 203";
    until(|| {
        site.try_ask("/metrics")
            .is_ok_and(|(_, page)| page.contains(programmed))
    });
    (proxy, site)
}

/// Another process does it: there is nothing to wait on but what it tells.
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(core::time::Duration::from_millis(20));
    }
}
