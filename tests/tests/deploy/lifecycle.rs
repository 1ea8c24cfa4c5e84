//! What happens to an installed kproxy: an API server that goes and comes back, history that is
//! forgotten, credentials that change, a configuration that changes, and packets all the while.

use std::rc::Rc;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Options},
    deploy::{Kind, Queries, exposed},
    pod::HttpProbe,
    takeover::{CLUSTER, Traffic, echo},
};

use crate::{
    have_programs,
    stage::{Expected, Stage},
};

/// The cluster as it is at first.
const AT_FIRST: [Expected; 12] = [
    (
        "pod",
        "tcp 172.30.2.1 80",
        "near 8080 from pod, far 8080 from pod",
    ),
    (
        "pod",
        "udp 172.30.2.1 53",
        "near 8080 from pod, far 8080 from pod",
    ),
    (
        "pod",
        "tcp fd00:10:96::2:1 80",
        "near 8080 from pod, far 8080 from pod",
    ),
    (
        "external",
        "tcp 192.0.2.1 80",
        "near 8080 from node, far 8080 from node",
    ),
    (
        "external",
        "tcp 2001:db8:e::1 80",
        "near 8080 from node, far 8080 from node",
    ),
    ("external", "tcp 198.18.0.1 80", "near 8080 from external"),
    (
        "external",
        "tcp 192.168.0.2 30080",
        "near 8080 from external",
    ),
    (
        "external",
        "tcp 2001:db8::1 30080",
        "near 8080 from external",
    ),
    ("pod", "tcp 172.30.2.4 80", "rejected by node"),
    ("pod", "tcp 172.30.2.1 81", "rejected by node"),
    // A range of ClusterIPs, from the ServiceCIDR that the API server made.
    ("pod", "tcp 172.30.77.77 80", "silent"),
    ("external", "tcp 192.0.2.1 443", "untouched from external"),
];
/// After the Services were edited.
const EDITED: [Expected; 5] = [
    (
        "pod",
        "tcp 172.30.2.1 81",
        "near 8080 from pod, far 8080 from pod",
    ),
    ("pod", "tcp 172.30.2.1 80", "rejected by node"),
    ("pod", "tcp 172.30.2.4 80", "near 8080 from pod"),
    ("external", "tcp 192.168.0.2 30084", "near 8080 from node"),
    (
        "external",
        "tcp 192.168.0.2 30080",
        "near 8080 from external",
    ),
];
/// After all of them were deleted.
const EMPTY: [Expected; 5] = [
    ("pod", "tcp 172.30.2.1 80", "silent"),
    ("pod", "tcp fd00:10:96::2:1 80", "silent"),
    ("external", "tcp 192.0.2.1 80", "untouched from external"),
    ("external", "tcp 198.18.0.1 80", "untouched from external"),
    ("external", "tcp 192.168.0.2 30080", "reset"),
];

#[test]
fn with_our_own_manifests() -> Result<()> {
    live(Kind::Ours)
}

#[test]
fn with_kubeadms_manifests_and_system_node_proxier() -> Result<()> {
    live(Kind::DropIn)
}

fn live(kind: Kind) -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start_with(Options {
        rbac: true,
        ..Options::default()
    })?;
    let mut stage = Stage::new(&control, kind)?;
    stage.start()?;
    stage.expect(&AT_FIRST)?;
    lose_the_api_server(&mut stage)?;
    forget_history(&mut stage)?;
    change_credentials(&mut stage)?;
    change_configuration(&mut stage)?;
    restart(&mut stage)?;
    stage.apply(only_node()?)?;
    stage.expect(&EMPTY)?;
    check_requests(&stage)?;
    check_pages(&stage)?;
    check_by_hand(&mut stage)
}

/// What README.md tells to run in a pod finds nothing wrong, with what the pod may do.
fn check_by_hand(stage: &mut Stage<'_>) -> Result<()> {
    let check = ["/usr/local/bin/kproxy", "check"];
    let (status, said) = stage.pod.exec(stage.world.node(), &check)?;
    ensure!(status.success(), "kproxy check: {status}\n{said}");
    ensure!(said.contains("table ip kube-proxy"), "{said}");
    Ok(())
}

/// Pages are there, and every metric that the dashboard and the alerts ask for.
fn check_pages(stage: &Stage<'_>) -> Result<()> {
    let fetch = |port, path: &str| {
        let path = path.to_owned();
        HttpProbe { path, port }.fetch(&stage.world.node().handle())
    };
    for (port, path) in [
        (10249, "/statusz"),
        (10249, "/statusz/services"),
        (10249, "/statusz/services?q=web"),
        (10249, "/configz"),
        (10249, "/proxyMode"),
        (10249, "/metrics/slis"),
        (10256, "/healthz"),
        (10256, "/livez"),
        (10256, "/readyz"),
    ] {
        let page = fetch(port, path)?;
        ensure!(page.split(' ').nth(1) == Some("200"), "{path}: {page}");
    }
    let exposed = exposed(&fetch(10249, "/metrics")?);
    let mut missing = Queries::of_dashboard()?.missing(&exposed)?;
    missing.extend(Queries::of_alerts()?.missing(&exposed)?);
    ensure!(
        missing.is_empty(),
        "no such metrics: {}",
        missing.join(", ")
    );
    Ok(())
}

/// The API server and etcd are killed. Nothing is touched until they are back.
fn lose_the_api_server(stage: &mut Stage<'_>) -> Result<()> {
    let before = stage.generation()?;
    let mut connections = stage.world.connect()?;
    let control = stage.control;
    control.kill_api()?;
    control.kill_etcd()?;
    // Its watches are broken, and it has tried to open them anew more than once.
    let attempts = stage.relay.attempts();
    stage.until("kproxy tries again", |stage| {
        Ok(stage.relay.attempts() >= attempts + 6)
    })?;
    stage.expect(&AT_FIRST)?;
    let after = stage.generation()?;
    ensure!(before == after, "{} transactions meanwhile", after - before);
    ensure!(stage.is_ready()?, "not ready for want of an API server");
    ensure!(fetch(stage, "/statusz")?.contains("what was received stays in force"));
    ensure!(fetch(stage, "/metrics")?.contains("kproxy_watch_failing{kind=\"Service\"} 1\n"));
    control.start_etcd()?;
    // Until it is ready, it may not have read its own roles, and refuses whoever asks.
    let from = stage.asked()?.len();
    control.start_api()?;
    stage.unready = from..stage.asked()?.len();
    stage.apply(&edited())?;
    stage.expect(&EDITED)?;
    // Watches of what did not change come when their pauses are over.
    stage.until("all is watched again", |stage| {
        Ok(fetch(stage, "/statusz")?.contains(">watching<"))
    })?;
    ensure!(fetch(stage, "/metrics")?.contains("kproxy_watch_failing{kind=\"Service\"} 0\n"));
    echo(&mut connections)
}

fn fetch(stage: &Stage<'_>, path: &str) -> Result<String> {
    let page = HttpProbe {
        path: path.to_owned(),
        port: 10249,
    };
    page.fetch(&stage.world.node().handle())
}

/// What kproxy has not seen is no longer in etcd: its watches are answered 410 Gone, and it lists
/// again. Packets go on.
fn forget_history(stage: &mut Stage<'_>) -> Result<()> {
    let relay = Rc::clone(&stage.relay);
    let held = relay.cut();
    stage.apply(CLUSTER)?;
    let control = stage.control;
    control.kill_api()?;
    control.compact_etcd()?;
    control.start_api()?;
    let from = stage.asked()?.len();
    drop(held);
    stage.expect(&AT_FIRST)?;
    let asked = stage.asked()?.split_off(from);
    let gone = asked.iter().filter(|entry| entry.code == Some(410)).count();
    let listed = asked.iter().filter(|entry| {
        entry.resource == "services"
            && (entry.verb == "list" || entry.uri.contains("sendInitialEvents=true"))
    });
    ensure!(
        listed.count() > 0,
        "services were not listed again ({gone} answers were 410): {asked:#?}"
    );
    Ok(())
}

/// The token is replaced, and the former one is worth nothing any more.
fn change_credentials(stage: &mut Stage<'_>) -> Result<()> {
    let control = stage.control;
    let former = stage.installed.token.clone();
    let token = control.token("kube-system", &stage.installed.account)?;
    stage
        .pod
        .change_token(token.text(), &control.certificate()?)?;
    control.revoke(&former)?;
    drop(stage.relay.cut());
    let id = token.id().to_owned();
    stage.installed.token = token;
    Traffic::during(stage.world.topology(), || Ok(()))?;
    stage.apply(&edited())?;
    stage.expect(&EDITED)?;
    let asked = stage.asked()?;
    ensure!(
        asked
            .iter()
            .any(|entry| entry.credential.as_deref() == Some(&*id)),
        "nothing was asked with the new token"
    );
    Ok(())
}

/// The ConfigMap changes while kproxy runs; a broken one changes nothing.
fn change_configuration(stage: &mut Stage<'_>) -> Result<()> {
    let name = stage.installed.config_map.clone();
    let before = stage.installed.config.clone();
    let config = before.get("config.conf").context("no config.conf")?;
    let mut changed = before.clone();
    let elsewhere = without(config, "nodePortAddresses");
    let elsewhere =
        format!("{elsewhere}nodePortAddresses: [198.51.100.0/24, \"2001:db8:7::/64\"]\n");
    changed.insert("config.conf".to_owned(), elsewhere);
    stage.pod.change_config(&name, &changed)?;
    let nowhere = [("external", "tcp 192.168.0.2 30084", "reset")];
    stage.expect(&nowhere)?;
    let mut broken = before.clone();
    broken.insert("config.conf".to_owned(), "kind: [".to_owned());
    stage.pod.change_config(&name, &broken)?;
    stage.until("the broken file is named", |stage| {
        Ok(stage.pod.log()?.contains("config.conf"))
    })?;
    stage.expect(&nowhere)?;
    stage.pod.change_config(&name, &before)?;
    stage.expect(&EDITED)
}

/// The pod is replaced, as by a rolling update: no packet is lost, and nothing is removed.
fn restart(stage: &mut Stage<'_>) -> Result<()> {
    stage.apply(CLUSTER)?;
    stage.expect(&AT_FIRST)?;
    let mut connections = stage.world.connect()?;
    let status = stage.pod.stop()?;
    ensure!(status.success(), "kproxy: {status}\n{}", stage.pod.log()?);
    Traffic::during(stage.world.topology(), || Ok(()))?;
    stage.start()?;
    stage.expect(&AT_FIRST)?;
    echo(&mut connections)
}

/// Nothing was refused by an API server that was ready, and what was done is known: the role is
/// enough.
fn check_requests(stage: &Stage<'_>) -> Result<()> {
    let asked = stage.asked()?;
    let refused: Vec<_> = asked
        .iter()
        .enumerate()
        .filter(|(at, _)| !stage.unready.contains(at))
        .filter(|(_, entry)| entry.forbidden || entry.code == Some(403))
        .collect();
    ensure!(refused.is_empty(), "refused: {refused:#?}");
    for resource in [
        "services",
        "endpointslices",
        "servicecidrs",
        "nodes",
        "events",
    ] {
        ensure!(
            asked.iter().any(|entry| entry.resource == resource),
            "{resource}: never asked for"
        );
    }
    let kubectl = stage.control.kubectl()?;
    let events = kubectl.object(&["-A", "events.events.k8s.io"])?;
    let events = events["items"].as_array().context("no list")?;
    let starting = events
        .iter()
        .filter(|event| event["reason"] == "Starting" && event["regarding"]["kind"] == "Node");
    ensure!(starting.count() > 0, "no event of the start: {events:?}");
    Ok(())
}

/// Another port, and endpoints for the Service that had none.
fn edited() -> String {
    let edited = CLUSTER.replace(
        "{name: web, protocol: TCP, port: 80}\n    - {name: dns",
        "{name: web, protocol: TCP, port: 81}\n    - {name: dns",
    );
    format!(
        "{edited}---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  \
         name: idle-4\n  namespace: default\n  labels: {{kubernetes.io/service-name: idle}}\n\
         addressType: IPv4\nports: [{{name: web, protocol: TCP, port: 8080}}]\n\
         endpoints: [{{addresses: [10.0.1.1], nodeName: node-a}}]\n"
    )
}

/// The cluster's Node alone.
fn only_node() -> Result<&'static str> {
    let end = CLUSTER.find("\n---").context("one document")?;
    let node = CLUSTER.get(..end).unwrap_or_default();
    ensure!(node.contains("kind: Node"), "not the Node: {node}");
    Ok(node)
}

/// A file without one field of one line.
fn without(config: &str, field: &str) -> String {
    let lines = config.lines().filter(|line| !line.starts_with(field));
    lines.map(|line| format!("{line}\n")).collect()
}
