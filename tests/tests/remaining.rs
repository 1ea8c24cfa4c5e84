//! What kube-proxy left and kproxy cannot remove: told in the log, as an Event, as a metric and by
//! `/readyz`, until it is gone.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, InPlace, InPlaceOptions},
    differential::{Check, Cluster, Outcomes},
    folder::Folder,
    iptables::{Iptables, Kind, run},
    takeover::{Traffic, World},
};
use nft_batch::{Batch, BatchOptions, Connection};
use nl_codec::{
    msg::Family,
    nft::{Chain, Table, table::TableFlags},
};
use rustix::fs::{FlockOperation, flock};
use serde_json::{Value as Json, json};
use test_support::skip;

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
/// One Service of kube-proxy's with one endpoint, where the cluster has two.
const LEFT: &str = "\
*nat
:PREROUTING ACCEPT [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-SVC-AAAAAAAAAAAAAAAA - [0:0]
-A PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES
-A KUBE-SERVICES -d 172.30.2.1/32 -p tcp -m tcp --dport 80 -j KUBE-SVC-AAAAAAAAAAAAAAAA
-A KUBE-SVC-AAAAAAAAAAAAAAAA -p tcp -j DNAT --to-destination 10.0.2.1:8080
COMMIT
";

/// A node, a cluster and a kproxy that comes after a kube-proxy in mode iptables.
struct Setting<'c> {
    control: &'c ControlPlane,
    world: World,
    _cluster: Cluster<'c>,
}

impl<'c> Setting<'c> {
    fn new(control: &'c ControlPlane) -> Result<Self> {
        let world = World::new()?;
        let mut cluster = Cluster::new(control);
        cluster.apply(&World::objects())?;
        Ok(Self {
            control,
            world,
            _cluster: cluster,
        })
    }

    fn start(&self, environment: Vec<(&'static str, std::ffi::OsString)>) -> Result<InPlace> {
        let options = InPlaceOptions {
            node_name: "node-a".to_owned(),
            configuration: vec![
                ("mode", json!("iptables")),
                ("clusterCIDR", json!("10.0.0.0/8,fd00:10::/64")),
            ],
            // A process that is confined as ever: it could not start a program any more.
            flags: vec!["--seccomp=kill".to_owned()],
            environment,
            ..InPlaceOptions::default()
        };
        InPlace::start(self.control, self.world.node(), Path::new(KPROXY), &options)
    }

    /// Who answers a pod at the Service's address.
    fn served(&self) -> Result<Outcomes> {
        let check = Check {
            id: String::new(),
            from: "pod".to_owned(),
            to: "tcp 172.30.2.1 80".parse()?,
            tries: 15,
            sticks_to: Vec::new(),
        };
        Outcomes::of(
            self.world.topology(),
            &check,
            core::time::Duration::from_secs(2),
        )
    }

    /// Events about leftovers.
    fn events(&self) -> Result<Vec<Json>> {
        let kubectl = self.control.kubectl()?;
        let events = kubectl.object(&["-A", "events.events.k8s.io"])?;
        let events = events["items"].as_array().context("no list")?.iter();
        let ours = events.filter(|event| event["reason"] == "LeftoversOfKubeProxy");
        Ok(ours.cloned().collect())
    }

    /// It is told everywhere, once; returns the command.
    fn check_told(&self, kproxy: &mut InPlace, label: &str, reason: &str) -> Result<String> {
        kproxy.until("an Event is written", |_| Ok(!self.events()?.is_empty()))?;
        let told = format!("cannot remove what kube-proxy left in {label} (ip): ");
        let log = kproxy.log()?;
        let lines: Vec<_> = log.lines().filter(|line| line.contains(&told)).collect();
        let &[line] = lines.as_slice() else {
            anyhow::bail!("{} lines:\n{log}", lines.len());
        };
        ensure!(line.contains(reason), "{line}");
        let (_, command) = line
            .split_once(" Run on the node: ")
            .context("no command")?;
        let events = self.events()?;
        let [event] = events.as_slice() else {
            anyhow::bail!("{} Events: {events:?}", events.len());
        };
        ensure!(
            event["type"] == "Warning"
                && event["regarding"]["kind"] == "Node"
                && event["regarding"]["name"] == "node-a",
            "{event}"
        );
        let note = event["note"].as_str().unwrap_or_default();
        ensure!(
            note.starts_with(&told) && note.ends_with(command),
            "{event}"
        );
        // The rules of ours are in force, so it is healthy and alive, but not ready.
        let ready = kproxy.health("/readyz")?;
        ensure!(
            ready.code == 503 && ready.text.contains(label),
            "{}",
            ready.text
        );
        for page in ["/healthz", "/livez"] {
            let page = kproxy.health(page)?;
            ensure!(page.code == 200, "{}", page.text);
        }
        ensure!(
            gauge(kproxy, label)? == Some(1.0),
            "{}",
            kproxy.metrics("/metrics")?.text
        );
        Ok(command.to_owned())
    }

    /// It is gone, and nothing says otherwise any more.
    fn check_gone(&self, kproxy: &mut InPlace, label: &str) -> Result<()> {
        kproxy.until_ready(200)?;
        let gauge = gauge(kproxy, label)?;
        ensure!(gauge.is_none_or(|value| value == 0.0), "{label}: {gauge:?}");
        let both = Outcomes::parse("near 8080 from pod, far 8080 from pod");
        let served = self.served()?;
        ensure!(served == both, "{served}");
        Traffic::during(self.world.topology(), || Ok(()))
    }
}

fn gauge(kproxy: &InPlace, label: &str) -> Result<Option<f64>> {
    let metrics = kproxy.metrics("/metrics")?.text;
    let mut lines = metrics.lines().filter(|line| {
        line.starts_with("kproxy_leftovers{")
            && line.contains(&format!("what=\"{label}\""))
            && line.contains("ip_family=\"IPv4\"")
    });
    let value = lines.next().and_then(|line| line.rsplit_once(' '));
    Ok(value.map(|(_, value)| value.parse()).transpose()?)
}

fn have_programs() -> bool {
    let missing = match ControlPlane::available() {
        Err(missing) => Some(missing.to_string()),
        Ok(()) if test_support::control_plane::program("kubectl").is_none() => {
            Some("no kubectl".to_owned())
        }
        Ok(()) => None,
    };
    if let Some(missing) = &missing {
        skip(missing);
    }
    missing.is_none()
}

/// Somebody holds the lock of legacy iptables. The command that is told removes what is there.
#[test]
fn legacy_tables_that_are_locked() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let setting = Setting::new(&control)?;
    let node = setting.world.node();
    Iptables::new(Kind::Legacy)?.load(node, "iptables", LEFT)?;
    let folder = Folder::new()?;
    let lock: PathBuf = folder.path().join("xtables.lock");
    let held = File::create(&lock)?;
    flock(&held, FlockOperation::LockExclusive)?;
    let mut kproxy = setting.start(vec![("XTABLES_LOCKFILE", lock.into())])?;
    let command = setting.check_told(&mut kproxy, "iptables-legacy", "xtables lock")?;
    // The lock is not free, but the operator's shell has another.
    run(node, Path::new("/bin/sh"), &["-c", &command], "")?;
    setting.check_gone(&mut kproxy, "iptables-legacy")?;
    let told = kproxy
        .log()?
        .matches("cannot remove what kube-proxy left")
        .count();
    ensure!(told == 1, "told {told} times:\n{}", kproxy.log()?);
    ensure!(kproxy.stop()?.success());
    Ok(())
}

/// A lock that is free after a while needs nobody.
#[test]
fn legacy_tables_that_are_locked_for_a_while() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let setting = Setting::new(&control)?;
    Iptables::new(Kind::Legacy)?.load(setting.world.node(), "iptables", LEFT)?;
    let folder = Folder::new()?;
    let lock: PathBuf = folder.path().join("xtables.lock");
    let held = File::create(&lock)?;
    flock(&held, FlockOperation::LockExclusive)?;
    let mut kproxy = setting.start(vec![("XTABLES_LOCKFILE", lock.into())])?;
    setting.check_told(&mut kproxy, "iptables-legacy", "xtables lock")?;
    flock(&held, FlockOperation::Unlock)?;
    setting.check_gone(&mut kproxy, "iptables-legacy")?;
    ensure!(kproxy.stop()?.success());
    Ok(())
}

/// The table belongs to another process, so that the kernel lets nobody else change it.
#[test]
fn a_table_that_somebody_owns() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let setting = Setting::new(&control)?;
    let mut owner = setting.world.node().run(Connection::open)??;
    let mut batch = Batch::new(BatchOptions::default());
    let mut table = Table::named("nat");
    table.flags = Some(TableFlags::OWNER);
    batch.add_table(Family::IPV4, &table)?;
    batch.add_chain(Family::IPV4, &Chain::named("nat", "KUBE-SERVICES"))?;
    let outcome = owner.commit(&mut batch.seal());
    ensure!(outcome.is_committed(), "{outcome}");
    let mut kproxy = setting.start(Vec::new())?;
    setting.check_told(&mut kproxy, "iptables-nft", "owner")?;
    // It goes with its owner.
    drop(owner);
    setting.check_gone(&mut kproxy, "iptables-nft")?;
    ensure!(kproxy.stop()?.success());
    Ok(())
}
