//! Pages of the real kube-proxy and of ours, side by side on the same objects: whoever asks either gets
//! the same answer. Not compared: what a clock or a folder says, and pages that only one of them has.

use core::{net::SocketAddr, time::Duration};
use std::{
    collections::BTreeMap,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::Path,
    thread,
    time::Instant,
};

use anyhow::{Result, ensure};
use e2e::{
    control_plane::{ControlPlane, InPlace, InPlaceOptions, KubeProxy},
    differential::{Cluster, TrialStep},
    takeover::World,
};
use netns_lab::Namespace;
use serde_json::Value as Json;

/// How long either may take to tell what is to be told.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// Requests to each of the proxy's own ports.
const PAGES: [(&str, &str, &str); 21] = [
    ("127.0.0.1:10256", "GET", "/healthz"),
    ("127.0.0.1:10256", "HEAD", "/healthz"),
    ("127.0.0.1:10256", "POST", "/livez"),
    ("192.168.0.2:10256", "GET", "/livez?verbose"),
    ("[2001:db8::1]:10256", "GET", "/livez"),
    ("127.0.0.1:10256", "GET", "/healthz/"),
    ("127.0.0.1:10256", "GET", "/"),
    ("127.0.0.1:10256", "GET", "/metrics"),
    ("127.0.0.1:10249", "GET", "/healthz"),
    ("127.0.0.1:10249", "GET", "/healthz?verbose"),
    ("127.0.0.1:10249", "GET", "/healthz?timeout=1s&verbose=0"),
    ("127.0.0.1:10249", "GET", "/livez"),
    ("127.0.0.1:10249", "GET", "/proxyMode"),
    ("127.0.0.1:10249", "DELETE", "/proxyMode"),
    ("127.0.0.1:10249", "GET", "/proxymode"),
    ("127.0.0.1:10249", "GET", "/configz"),
    ("127.0.0.1:10249", "GET", "/debug/pprof/"),
    ("127.0.0.1:10249", "PUT", "/debug/flags/v"),
    ("127.0.0.1:10249", "GET", "/"),
    ("192.168.0.2:10249", "GET", "/healthz"),
    ("[::1]:10249", "GET", "/healthz"),
];
/// What scrapers say they take: Prometheus 2 and 3, browsers, and who says nothing.
const FORMS: [&str; 5] = [
    "Accept: application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,\
     text/plain;version=0.0.4;q=0.5,*/*;q=0.1\r\nAccept-Encoding: gzip",
    "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
     text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;q=0.2,*/*;q=0.1\r\n\
     Accept-Encoding: gzip",
    "Accept: text/html,*/*;q=0.8\r\nAccept-Encoding: br, gzip;q=0.5",
    "Accept-Encoding: gzip;q=0",
    "Accept-Encoding: identity",
];
/// Addresses at which load balancers, and others, may ask.
const NODE: [&str; 4] = ["192.168.0.2", "[2001:db8::1]", "127.0.0.1", "[::1]"];
/// `healthCheckNodePort`s of `takeover/health.yaml`, and one that no Service has.
const HEALTH: [u16; 8] = [32001, 32002, 32003, 32004, 32005, 32006, 32007, 32099];
const OBJECTS: &str = include_str!("../takeover/health.yaml");
const CHANGED: &str = include_str!("../takeover/health-changed.yaml");

#[test]
fn whoever_asks_gets_the_same_answer() -> Result<()> {
    for listened in [None, Some(["primary", "localhost"])] {
        compare(listened.as_ref().map(<[_; 2]>::as_slice))?;
    }
    Ok(())
}

fn compare(addresses: Option<&[&str]>) -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let (theirs, ours) = (World::new()?, World::new()?);
    let mut cluster = Cluster::new(&control);
    cluster.apply(&World::objects())?;
    write(&mut cluster, OBJECTS)?;
    let mut settings = World::settings();
    if let Some(addresses) = addresses {
        let addresses = serde_json::json!(addresses);
        settings
            .configuration
            .push(("nodePortAddresses", addresses));
    }
    let options = InPlaceOptions {
        node_name: settings.node_name.clone(),
        configuration: settings.configuration.clone(),
        // As kube-proxy's.
        flags: vec!["--v=2".to_owned()],
        ..InPlaceOptions::default()
    };
    let program = Path::new(env!("CARGO_BIN_EXE_kproxy-under-test"));
    let mut kproxy = InPlace::start(&control, ours.node(), program, &options)?;
    let mut kube_proxy = KubeProxy::start(&control, theirs.node(), settings)?;
    kproxy.until_ready(200)?;
    for objects in [OBJECTS, CHANGED] {
        write(&mut cluster, objects)?;
        kube_proxy.settle(&control, theirs.node())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (theirs, ours) = (answers(theirs.node())?, answers(ours.node())?);
            let served = theirs.values().filter(|answer| answer.starts_with("HTTP"));
            ensure!(
                served.count() > 20,
                "kube-proxy does not answer: {theirs:?}"
            );
            let differ: Vec<_> = theirs
                .iter()
                .filter(|(page, answer)| ours.get(*page) != Some(answer))
                .map(|(page, answer)| {
                    format!("{page}\nkube-proxy: {answer}\nkproxy: {}\n", ours[page])
                })
                .collect();
            if differ.is_empty() {
                break;
            }
            ensure!(Instant::now() < deadline, "{}", differ.join("\n"));
            // Pages tell nobody that they have changed.
            thread::sleep(Duration::from_millis(500));
        }
    }
    kube_proxy.stop()?;
    ensure!(kproxy.stop()?.success());
    let refused = cluster.clear()?;
    ensure!(refused.is_empty(), "{refused:?}");
    Ok(())
}

fn write(cluster: &mut Cluster<'_>, objects: &str) -> Result<()> {
    cluster.apply(&TrialStep {
        write: BTreeMap::from([("health.yaml".to_owned(), objects.to_owned())]),
        ..TrialStep::default()
    })
}

/// What is answered to each request.
fn answers(node: &Namespace) -> Result<BTreeMap<String, String>> {
    let mut answers = BTreeMap::new();
    let health = HEALTH.iter().flat_map(|port| {
        NODE.iter()
            .map(move |address| (format!("{address}:{port}"), "GET", "/any/path"))
    });
    let pages = PAGES
        .iter()
        .map(|(address, method, path)| ((*address).to_owned(), *method, *path));
    for (address, method, path) in pages.chain(health) {
        let answer = ask(node, address.parse()?, method, path, "")?;
        answers.insert(format!("{method} {address}{path}"), answer);
    }
    for form in FORMS {
        let answer = ask(node, "127.0.0.1:10249".parse()?, "GET", "/metrics", form)?;
        // The numbers are another test's.
        let is_head = |line: &&str| line.starts_with("HTTP") || line.starts_with("content-");
        let head: Vec<_> = answer.lines().take_while(is_head).collect();
        answers.insert(format!("/metrics {form}"), head.join("\n"));
    }
    Ok(answers)
}

/// Code, the head's lines that say something of the body, and the body; or why there is none.
fn ask(
    node: &Namespace,
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &str,
) -> Result<String> {
    let end = if headers.is_empty() { "" } else { "\r\n" };
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: node\r\nConnection: close\r\nContent-Length: 0\r\n{headers}{end}\r\n"
    );
    let read = node.run(move || -> std::io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&address, ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.write_all(request.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    })?;
    let text = match read {
        Ok(text) => text,
        Err(error) => return Ok(format!("{:?}", error.kind())),
    };
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    let mut told: Vec<_> = lines
        .map(str::to_ascii_lowercase)
        .filter(|line| {
            let told = ["content-type", "content-encoding"];
            // Of /metrics both have this one only where nobody looks at it.
            told.iter().any(|name| line.starts_with(name))
                || line.starts_with("x-") && path != "/metrics"
        })
        // How names are written, of which none needs it.
        .map(|line| {
            line.split("; escaping=")
                .next()
                .unwrap_or_default()
                .to_owned()
        })
        .collect();
    told.sort();
    Ok(format!(
        "{first}\n{}\n{}",
        told.join("\n"),
        comparable(body)
    ))
}

/// A body without times and folders.
fn comparable(body: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<Json>(body) else {
        return body.to_owned();
    };
    // To the byte, but for times.
    if json.get("currentTime").is_none() && json.get("kubeproxy.config.k8s.io").is_none() {
        return body.to_owned();
    }
    strip(&mut json);
    json.to_string()
}

fn strip(json: &mut Json) {
    if let Json::Object(fields) = json {
        for (name, value) in fields {
            match name.as_str() {
                "currentTime" | "lastUpdated" | "kubeconfig" | "hostnameOverride" => {
                    *value = Json::String("…".to_owned());
                }
                _ => strip(value),
            }
        }
    }
}
