//! The page for people, through real sockets and a real browser.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod loopback;
mod sandbox;

use core::net::SocketAddr;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use loopback::bring_up;
use sandbox::{PATIENCE, Running, Sandbox, sandboxed, service, slice};
use serde_json::json;

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
            list.contains("203 of 203 rows") && list.contains("page 1 of 3"),
            "{list}"
        );
        assert!(list.contains("href=\"/statusz/services?page=2\""), "{list}");
        let last = site.page("/statusz/services?page=3");
        assert!(last.contains("default/web"), "{last}");
        assert!(!last.contains("on →"), "{last}");

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
    let Some(browser) = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok())
    else {
        test_support::skip("no chromium");
        return;
    };
    sandboxed(move |sandbox| {
        let (_proxy, _) = start(&sandbox, &[]);
        let kept = std::env::var_os("KPROXY_SCREENSHOTS");
        let folder = kept
            .as_ref()
            .map_or_else(|| sandbox.folder(), |it| Path::new(it));
        for (page, path) in [
            ("overview", "/statusz"),
            ("services", "/statusz/services"),
            ("service", "/statusz/service?name=default%2Fweb"),
        ] {
            for (width, height) in [(390, 844), (1280, 900)] {
                for dark in [false, true] {
                    let scheme = if dark { "dark" } else { "light" };
                    let file = folder.join(format!("{page}-{width}-{scheme}.png"));
                    let mut chromium = Command::new(browser);
                    chromium
                        .args([
                            "--headless",
                            "--no-sandbox",
                            "--disable-gpu",
                            "--hide-scrollbars",
                        ])
                        .arg(format!(
                            "--user-data-dir={}",
                            sandbox.path("browser").display()
                        ))
                        .arg(format!("--window-size={width},{height}"))
                        .arg(format!("--screenshot={}", file.display()));
                    if dark {
                        chromium.arg("--blink-settings=preferredColorScheme=0");
                    }
                    chromium.arg(format!("http://127.0.0.1:10249{path}"));
                    let output = chromium.output().unwrap();
                    let picture = fs::read(&file).unwrap_or_else(|_| panic!("{output:?}"));
                    // PNG: width and height follow the first chunk's name.
                    assert!(picture.starts_with(b"\x89PNG"), "{output:?}");
                    let number =
                        |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
                    assert_eq!((number(16), number(20)), (width, height));
                    // An empty page packs into far less.
                    assert!(picture.len() > 8_000, "{page}: {} bytes", picture.len());
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

struct Site(String);

impl Site {
    fn page(&self, path: &str) -> String {
        let (code, page) = self.ask(path);
        assert_eq!(code, 200, "{path}: {page}");
        page
    }

    fn ask(&self, path: &str) -> (u16, String) {
        self.try_ask(path).unwrap()
    }

    fn try_ask(&self, path: &str) -> io::Result<(u16, String)> {
        let mut connection = TcpStream::connect(self.0.parse::<SocketAddr>().unwrap())?;
        connection.set_read_timeout(Some(PATIENCE))?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n");
        connection.write_all(request.as_bytes())?;
        let mut answer = String::new();
        connection.read_to_string(&mut answer)?;
        let ended = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let (head, body) = answer.split_once("\r\n\r\n").ok_or_else(ended)?;
        let head = head.to_ascii_lowercase();
        if path.starts_with("/statusz") && head.contains("text/html") {
            assert!(
                head.contains("content-security-policy: default-src 'none'"),
                "{head}"
            );
            assert!(head.contains("x-content-type-options: nosniff"), "{head}");
        }
        Ok((
            head.split(' ').nth(1).unwrap().parse().unwrap(),
            body.to_owned(),
        ))
    }
}

/// Another process does it: there is nothing to wait on but what it tells.
fn until(mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < deadline, "it never came");
        thread::sleep(core::time::Duration::from_millis(20));
    }
}
