//! kproxy takes over what kube-proxy left, and kube-proxy what kproxy left.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, KubeProxy, Method, Request},
    differential::{Cluster, TrialStep},
    ruleset,
    takeover::{CLUSTER, Layout, Traffic, World, echo},
};
use serde_json::{Value as Json, json};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
/// Changes after a roll-back; kube-proxy syncs twice for each.
const CHANGES: usize = 6;

/// More Services than the smallest of our sets has room for (1,536).
const MANY: usize = 1_700;

/// New connections of a client that must all reach the endpoint it stuck to.
const STICKS: usize = 5;

/// Takes over what is on the node: nothing changes for anybody.
fn take_over(world: &World) -> Result<()> {
    let before = world.observe()?;
    let stuck = world.stuck(1)?;
    let mut connections = world.connect()?;
    let flows = world.flows()?;
    let kproxy = Traffic::during(world.topology(), || {
        let mut kproxy = world.start_kproxy(Path::new(KPROXY))?;
        kproxy.take_over(world)?.check()?;
        Ok(kproxy)
    })?;
    flows.stay()?;
    ensure!(
        world.stuck(STICKS)? == stuck,
        "clients stuck to {stuck:?} before"
    );
    let after = world.observe()?;
    for (probe, before) in &before {
        ensure!(
            after.get(probe) == Some(before),
            "{probe}: {before} before, {} after",
            after.get(probe).context("not probed")?
        );
    }
    echo(&mut connections)?;
    flows.stay()?;
    kproxy.stop()?;
    Layout::read(world.node())?.check()?;
    echo(&mut connections)
}

#[test]
fn the_table_of_kube_proxy_1_37_is_taken_over() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let world = World::new()?;
    let mut cluster = Cluster::new(&control);
    cluster.apply(&World::objects())?;
    let mut kube_proxy = KubeProxy::start(&control, world.node(), World::settings())?;
    kube_proxy.settle(&control, world.node())?;
    kube_proxy.stop()?;
    take_over(&world)
}

/// Base chains for filtering up to kube-proxy 1.32: other names and priorities, before translation.
const FORMER_BASE_CHAINS: &str = "
    chain filter-prerouting { type filter hook prerouting priority -110;
        ct state new jump firewall-check; }
    chain filter-input { type filter hook input priority -110;
        ct state new jump nodeport-endpoints-check; ct state new jump service-endpoints-check; }
    chain filter-forward { type filter hook forward priority -110;
        ct state new jump service-endpoints-check; ct state new jump cluster-ips-check; }
    chain filter-output { type filter hook output priority -110;
        ct state new jump service-endpoints-check; ct state new jump firewall-check; }
    chain filter-output-post-dnat { type filter hook output priority -90;
        ct state new jump cluster-ips-check; }
";

/// Recorded with the program itself (`capture-layout`), but for the SCTP port, which is the UDP port's rules
/// and rows again; 1.34 and 1.35 have the same layout.
const KUBE_PROXY_1_33: &str = include_str!("../takeover/kube-proxy-1.33.nft");

#[test]
fn the_table_of_kube_proxy_1_33_is_taken_over() -> Result<()> {
    let world = World::new()?;
    ruleset::load(world.node(), KUBE_PROXY_1_33)?;
    take_over(&world)
}

/// Clients of hosts that are not there: nobody's time starts anew.
const ABSENT: [(&str, &str, &str); 2] = [
    ("ip", "203.0.113.77", "10.0.1.1"),
    ("ip6", "2001:db8:cafe::77", "fd00.10..1.1"),
];
/// Seconds left of the three hours that clients stick for.
const LEFT: u64 = 1_000;

#[test]
fn clients_of_kube_proxy_stick_for_as_long_as_they_would_have() -> Result<()> {
    let world = World::new()?;
    ruleset::load(world.node(), KUBE_PROXY_1_33)?;
    for (family, client, endpoint) in ABSENT {
        let set = KUBE_PROXY_1_33.lines().find_map(|line| {
            let set = line.trim().strip_prefix("set ")?.strip_suffix(" {")?;
            set.ends_with(&format!("/sticky/tcp/web__{endpoint}/8080"))
                .then_some(set)
        });
        let set = set.context("no set of that endpoint")?;
        let row = format!("{client} timeout 3h expires {LEFT}s");
        let rules = format!("add element {family} kube-proxy {set} {{ {row} }}");
        ruleset::load(world.node(), &rules)?;
    }
    let mut kproxy = world.start_kproxy(Path::new(KPROXY))?;
    kproxy.take_over(&world)?;
    for (family, client, endpoint) in ABSENT {
        let left = left(&world, family, client)?;
        let left = left.with_context(|| format!("{client} is forgotten"))?;
        ensure!(
            (1..=LEFT).contains(&left) && left > LEFT / 2,
            "{client} stuck to {endpoint} for {LEFT} s, and does for {left} s"
        );
    }
    kproxy.stop()
}

/// Seconds until our table forgets a client.
fn left(world: &World, family: &str, client: &str) -> Result<Option<u64>> {
    let listed = ruleset::nft(world.node(), &["-j", "list", "table", family, "kube-proxy"])?;
    let listed: Json = serde_json::from_str(&listed)?;
    let objects = listed["nftables"].as_array().into_iter().flatten();
    let clients = objects.filter_map(|object| {
        let map = &object["map"];
        let name = map["name"].as_str()?;
        name.starts_with("client-affinity")
            .then_some(map["elem"].as_array()?)
    });
    let keys = clients.flatten().map(|row| &row[0]["elem"]);
    let mut of_client = keys.filter(|key| key["val"]["concat"][0] == client);
    Ok(of_client.next().and_then(|key| key["expires"].as_u64()))
}

/// The layout before was much the same, but for its base chains.
#[test]
fn a_table_with_other_base_chains_is_taken_over() -> Result<()> {
    let world = World::new()?;
    let mut former = String::new();
    let mut skipped = false;
    for line in KUBE_PROXY_1_33.lines() {
        let is_filter = line.starts_with("\tchain filter-");
        skipped |= is_filter;
        if line == "\tchain filter-input {" {
            former.push_str(FORMER_BASE_CHAINS);
        }
        if !skipped {
            former.push_str(line);
            former.push('\n');
        }
        skipped &= line != "\t}";
    }
    ensure!(!former.contains("filter-prerouting-pre-dnat"), "{former}");
    ensure!(
        former.matches("filter-output-post-dnat").count() == 2,
        "{former}"
    );
    ruleset::load(world.node(), &former)?;
    take_over(&world)
}

#[test]
fn kube_proxy_takes_over_and_stays_well() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let world = World::new()?;
    let mut cluster = Cluster::new(&control);
    cluster.apply(&World::objects())?;
    let mut kproxy = world.start_kproxy(Path::new(KPROXY))?;
    kproxy.take_over(&world)?.check()?;
    kproxy.stop()?;
    let before = world.observe()?;
    let mut connections = world.connect()?;
    let flows = world.flows()?;
    let kube_proxy = Traffic::during(world.topology(), || {
        let mut kube_proxy = KubeProxy::start(&control, world.node(), World::settings())?;
        kube_proxy.settle(&control, world.node())?;
        // Every sync anew may trip over what we left: an endpoint that comes and goes.
        for change in 0..CHANGES {
            cluster.apply(&with_idle((change + 1) % 2))?;
            kube_proxy.settle(&control, world.node())?;
        }
        Ok(kube_proxy)
    })?;
    kube_proxy.check_counters()?;
    let errors = kube_proxy.errors()?;
    ensure!(
        errors.is_empty(),
        "kube-proxy logged:\n{}",
        errors.join("\n")
    );
    ensure!(
        world.observe()? == before,
        "something else becomes of a probe"
    );
    echo(&mut connections)?;
    flows.stay()?;
    // And back again, over a table that both have written.
    kube_proxy.stop()?;
    take_over(&world)
}

/// Our sets have a size, and are replaced when they get full. kube-proxy would add to them until they are:
/// none of those with a size has a name of its.
#[test]
fn kube_proxy_takes_over_with_more_services_than_our_sets_have_room_for() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let world = World::new()?;
    let mut cluster = Cluster::new(&control);
    let mut kproxy = world.start_kproxy(Path::new(KPROXY))?;
    kproxy.take_over(&world)?.check()?;
    kproxy.stop()?;
    cluster.apply(&World::objects())?;
    make_many(&control, MANY)?;
    let mut kube_proxy = KubeProxy::start(&control, world.node(), World::settings())?;
    kube_proxy.settle(&control, world.node())?;
    kube_proxy.check_counters()?;
    let errors = kube_proxy.errors()?;
    ensure!(
        errors.is_empty(),
        "kube-proxy logged:\n{}",
        errors.join("\n")
    );
    let set = ["-j", "list", "set", "ip", "kube-proxy", "cluster-ips"];
    let set: Json = serde_json::from_str(&ruleset::nft(world.node(), &set)?)?;
    let sets = set["nftables"].as_array().context("no set")?;
    let rows = sets
        .iter()
        .find_map(|object| object["set"]["elem"].as_array());
    let rows = rows.map_or(0, Vec::len);
    ensure!(rows > MANY, "{rows} of {MANY} ClusterIPs");
    kube_proxy.stop()?;
    Ok(())
}

#[test]
fn kube_proxy_cleans_up_after_us() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let world = World::new()?;
    let mut kproxy = world.start_kproxy(Path::new(KPROXY))?;
    kproxy.take_over(&world)?;
    kproxy.stop()?;
    KubeProxy::clean_up(world.node(), None)?;
    let left = ruleset::nft(world.node(), &["list", "ruleset"])?;
    ensure!(left.is_empty(), "left: {left}");
    Ok(())
}

/// Makes so many Services without endpoints, at addresses that nobody else is given.
fn make_many(control: &ControlPlane, services: usize) -> Result<()> {
    let request = |number| {
        let address = format!("172.30.{}.{}", 16 + number / 250, 1 + number % 250);
        Request::new(Method::Post, "/api/v1/namespaces/default/services").with(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": format!("many-{number}")},
            "spec": {"clusterIP": address, "ports": [{"port": 80}]},
        }))
    };
    let requests: Vec<_> = (0..services).map(request).collect();
    for response in control.client().send(&requests)? {
        ensure!(response.is_ok(), "{}", response.message());
    }
    Ok(())
}

/// The cluster, and Service `idle` with or without an endpoint.
fn with_idle(endpoints: usize) -> TrialStep {
    let mut step = World::objects();
    let slice = "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata:\n  \
                 name: idle-4\n  namespace: default\n  \
                 labels: {kubernetes.io/service-name: idle}\naddressType: IPv4\n\
                 ports: [{name: web, protocol: TCP, port: 8080}]\n\
                 endpoints: [{addresses: [10.0.1.1], nodeName: node-a}]\n";
    let text = format!("{CLUSTER}{}", slice.repeat(endpoints));
    step.write.insert("cluster.yaml".to_owned(), text);
    step
}
