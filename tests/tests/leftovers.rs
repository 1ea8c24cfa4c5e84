//! kproxy comes after a kube-proxy in mode iptables: its rules serve until ours do, then they go, and
//! nothing else does; and kube-proxy comes back.

use core::time::Duration;
use std::{path::Path, thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    control_plane::{ControlPlane, KubeProxy, Settings},
    differential::Cluster,
    iptables::{Iptables, Kind, TOOLS, run},
    ruleset,
    takeover::{Traffic, World, echo},
};
use serde_json::json;

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const PATIENCE: Duration = Duration::from_secs(120);

/// What a kubelet (1.37, and `KUBE-MARK-DROP` of older ones), a CNI plugin and an operator have.
const OTHERS: &str = "\
*mangle
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-IPTABLES-HINT - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
COMMIT
*filter
:INPUT ACCEPT [0:0]
:FORWARD ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-KUBELET-CANARY - [0:0]
-A INPUT -j KUBE-FIREWALL
-A FORWARD -p tcp -m tcp --dport 9 -m comment --comment \"not \\\"-j KUBE-FORWARD\\\"\" -j DROP
-A OUTPUT -j KUBE-FIREWALL
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:INPUT ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
:KUBE-KUBELET-CANARY - [0:0]
:KUBE-MARK-DROP - [0:0]
-A PREROUTING -p tcp -m tcp --dport 9 -m comment --comment \"kubernetes service portals\" -j ACCEPT
-A KUBE-MARK-DROP -j MARK --set-xmark 0x8000/0x8000
COMMIT
";

/// The kubelet's rule for IPv4, which kube-proxy adds as well, and leaves.
const FIREWALL: &str = "\
*filter
-A KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m comment --comment \"block incoming localnet connections\" \
-m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
COMMIT
";

/// The CNI plugin `portmap` with `externalSetMarkChain`, and an operator: they use chains of kube-proxy's.
const USER: &str = "\
*nat
:CNI-HOSTPORT-SETMARK - [0:0]
:KUBE-MARK-MASQ - [0:0]
:KUBE-SERVICES - [0:0]
-A PREROUTING -p tcp -m tcp --dport 9 -j KUBE-SERVICES
-A OUTPUT -p tcp -m tcp --dport 9 -j CNI-HOSTPORT-SETMARK
-A CNI-HOSTPORT-SETMARK -j KUBE-MARK-MASQ
-A KUBE-MARK-MASQ -j MARK --set-xmark 0x4000/0x4000
COMMIT
";

/// A table of an operator's, in nft's own language, with names that look like kube-proxy's.
const NATIVE: &str = "
table inet mine {
    chain KUBE-SERVICES {
        type filter hook forward priority 5
        counter accept
    }
}
table ip kube {
    chain KUBE-SVC-AAAAAAAAAAAAAAAA {
        accept
    }
}
";

/// A node on which the real kube-proxy was at work in mode iptables.
struct Before<'c> {
    world: World,
    iptables: Iptables,
    /// Rules of others, of each family.
    others: [String; 2],
    native: String,
    _cluster: Cluster<'c>,
}

impl<'c> Before<'c> {
    fn new(control: &'c ControlPlane, kind: Kind, others: &[&str]) -> Result<Self> {
        let world = World::new()?;
        let iptables = Iptables::new(kind)?;
        for tool in TOOLS {
            for rules in others {
                iptables.load(world.node(), tool, rules)?;
            }
        }
        iptables.load(world.node(), "iptables", FIREWALL)?;
        ruleset::load(world.node(), NATIVE)?;
        let others = saved(&iptables, &world)?;
        let mut cluster = Cluster::new(control);
        cluster.apply(&World::objects())?;
        let kube_proxy = start_kube_proxy(control, &world, &iptables)?;
        kube_proxy.stop()?;
        Ok(Self {
            native: native(&world)?,
            world,
            iptables,
            others,
            _cluster: cluster,
        })
    }

    /// Waits until nothing is left but what others have, to the byte.
    fn until_clean(&self, mut alive: impl FnMut() -> Result<()>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = saved(&self.iptables, &self.world)?;
            if left == self.others {
                break;
            }
            alive()?;
            if Instant::now() > deadline {
                bail!(
                    "left:\n{}\nbefore:\n{}",
                    left.join("\n"),
                    self.others.join("\n")
                );
            }
            // Legacy tables have no events.
            thread::sleep(Duration::from_millis(50));
        }
        ensure!(native(&self.world)? == self.native, "native tables changed");
        Ok(())
    }
}

/// kube-proxy in mode iptables, once it has programmed the node.
fn start_kube_proxy(
    control: &ControlPlane,
    world: &World,
    iptables: &Iptables,
) -> Result<KubeProxy> {
    let settings = Settings {
        path: Some(iptables.path()?),
        configuration: vec![("mode", json!("iptables")), ("clusterCIDR", pods())],
        ..World::settings()
    };
    let kube_proxy = KubeProxy::start(control, world.node(), settings)?;
    let deadline = Instant::now() + PATIENCE;
    while !serves(iptables, world)? {
        ensure!(Instant::now() < deadline, "{}", kube_proxy.log()?);
        // It tells nobody when it has programmed something.
        thread::sleep(Duration::from_millis(50));
    }
    Ok(kube_proxy)
}

fn pods() -> serde_json::Value {
    json!("10.0.0.0/8,fd00:10::/64")
}

fn saved(iptables: &Iptables, world: &World) -> Result<[String; 2]> {
    let [four, six] = TOOLS.map(|tool| iptables.save(world.node(), tool));
    Ok([four?, six?])
}

/// Whether kube-proxy has programmed endpoints of both families.
fn serves(iptables: &Iptables, world: &World) -> Result<bool> {
    let saved = saved(iptables, world)?;
    let endpoints = ["10.0.1.1:8080", "[fd00:10::1:1]:8080"];
    let both = saved.iter().zip(endpoints);
    Ok(both
        .into_iter()
        .all(|(saved, endpoint)| saved.contains(endpoint)))
}

fn native(world: &World) -> Result<String> {
    let list = |family: &str, table: &str| {
        ruleset::nft(world.node(), &["-s", "list", "table", family, table])
    };
    Ok(list("inet", "mine")? + &list("ip", "kube")?)
}

/// The proxies change, clients notice nothing, and what others have stays.
fn comes_after(kind: Kind, others: &[&str]) -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let before = Before::new(&control, kind, others)?;
    let world = &before.world;
    let expected = world.observe()?;
    let mut connections = world.connect()?;
    let kproxy = Traffic::during(world.topology(), || {
        let more = ["--nodeport-addresses=all"];
        let mut kproxy = world.start_kproxy_with(Path::new(KPROXY), &more)?;
        before.until_clean(|| kproxy.check())?;
        Ok(kproxy)
    })?;
    let observed = world.observe()?;
    for (probe, expected) in &expected {
        let observed = observed.get(probe).context("not probed")?;
        ensure!(
            observed == expected,
            "{probe}: {expected} before, {observed} after\n{}",
            kproxy.log()?
        );
    }
    echo(&mut connections)?;
    ensure!(
        kproxy.log()?.contains("removed what kube-proxy left in"),
        "{}",
        kproxy.log()?
    );
    kproxy.stop()?;
    echo(&mut connections)?;
    // And back: kube-proxy removes our tables itself.
    let kube_proxy = start_kube_proxy(&control, world, &before.iptables)?;
    let tables = ruleset::nft(world.node(), &["list", "tables"])?;
    ensure!(!tables.contains(" kube-proxy"), "left: {tables}");
    let observed = world.observe()?;
    ensure!(
        observed == expected,
        "{expected:?} before, {observed:?} back"
    );
    echo(&mut connections)?;
    kube_proxy.stop()?;
    Ok(())
}

#[test]
fn iptables_in_nf_tables() -> Result<()> {
    comes_after(Kind::Nft, &[OTHERS])
}

#[test]
fn iptables_in_nf_tables_with_a_chain_that_others_use() -> Result<()> {
    comes_after(Kind::Nft, &[OTHERS, USER])
}

#[test]
fn legacy_iptables() -> Result<()> {
    comes_after(Kind::Legacy, &[OTHERS])
}

#[test]
fn legacy_iptables_with_a_chain_that_others_use() -> Result<()> {
    comes_after(Kind::Legacy, &[OTHERS, USER])
}

/// `kproxy cleanup` leaves what `kube-proxy --cleanup` leaves; so does the command that is logged where
/// nothing can be done from inside.
#[test]
fn cleaning_up_leaves_what_kube_proxy_leaves() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    for kind in [Kind::Nft, Kind::Legacy] {
        let theirs = Before::new(&control, kind, &[OTHERS])?;
        KubeProxy::clean_up(theirs.world.node(), Some(&theirs.iptables.path()?))?;
        theirs.until_clean(|| Ok(()))?;
        let ours = Before::new(&control, kind, &[OTHERS])?;
        for _ in 0..2 {
            run(ours.world.node(), Path::new(KPROXY), &["cleanup"], "")?;
            ours.until_clean(|| Ok(()))?;
        }
    }
    Ok(())
}
