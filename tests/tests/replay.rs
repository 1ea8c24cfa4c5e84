//! What the real kube-proxy sends is recorded, and replayed leads to the same ruleset.

use std::{collections::BTreeMap, process::Command};

use anyhow::{Result, ensure};
use e2e::{
    control_plane::{ControlPlane, KubeProxy, Settings},
    differential::{Cluster, TrialStep},
    folder::Folder,
    takeover::World,
};
use nft_replay::{
    capture::Capture,
    play::{Place, PlayOptions, Player, Verdict, in_place},
    session::{Outcome, Session},
};
use test_support::nft;

/// A Service that comes and goes.
const MORE: &str = "
apiVersion: v1
kind: Service
metadata: {name: more, namespace: default}
spec:
  clusterIP: 172.30.2.77
  clusterIPs: [172.30.2.77]
  ports: [{name: web, port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: more-1
  namespace: default
  labels: {kubernetes.io/service-name: more}
addressType: IPv4
endpoints: [{addresses: [10.0.1.1]}, {addresses: [10.0.2.1]}]
ports: [{name: web, port: 8080, protocol: TCP}]
";

const NFT_REPLAY: &str = env!("CARGO_BIN_EXE_nft-replay-under-test");

/// The ruleset of the calling thread's namespace, without what packets count.
fn listed() -> Result<String> {
    let Some(nft) = nft::versions().pop() else {
        return Ok(String::new());
    };
    let output = Command::new(nft.path)
        .args(["-s", "list", "ruleset"])
        .output()?;
    ensure!(output.status.success(), "{output:?}");
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn what_kube_proxy_sends_leads_to_the_same_ruleset() -> Result<()> {
    if !ControlPlane::available_or_skip() {
        return Ok(());
    }
    let folder = Folder::new()?;
    let file = folder.path().join("kube-proxy.pcapng");
    let control = ControlPlane::start()?;
    let world = World::new()?;
    let mut cluster = Cluster::new(&control);
    let settings = Settings {
        recorder: Some((NFT_REPLAY.into(), file.clone())),
        ..World::settings()
    };
    // The Node is there from the beginning: kube-proxy ends when it changes.
    cluster.apply(&World::objects())?;
    let mut kube_proxy = KubeProxy::start(&control, world.node(), settings)?;
    kube_proxy.settle(&control, world.node())?;
    cluster.apply(&TrialStep {
        write: BTreeMap::from([("more.yaml".to_owned(), MORE.to_owned())]),
        ..TrialStep::default()
    })?;
    kube_proxy.settle(&control, world.node())?;
    cluster.apply(&TrialStep {
        remove: vec!["more.yaml".to_owned()],
        ..TrialStep::default()
    })?;
    kube_proxy.settle(&control, world.node())?;
    kube_proxy.stop()?;
    let original = world.node().run(listed)??;
    ensure!(original.contains("chain service-"), "{original}");

    let capture = Capture::open(&file)?;
    ensure!(capture.damage.is_none(), "{:?}", capture.damage);
    let session = Session::new(&capture);
    let committed = session
        .transactions()
        .filter(|(_, exchange)| exchange.outcome() == Outcome::Committed)
        .count();
    ensure!(committed > 8, "{committed} transactions of kube-proxy's");
    let (report, again) = in_place(&Place::Fresh, || -> Result<_> {
        let mut player = Player::open(PlayOptions::default())?;
        let report = player.play(&session, |_| true)?;
        Ok((report, listed()?))
    })??;
    let differing: Vec<_> = report
        .transactions
        .iter()
        .filter(|played| matches!(played.verdict, Verdict::Differs(_)))
        .collect();
    ensure!(differing.is_empty(), "{differing:?}");
    ensure!(again == original, "{again}\n--- instead of\n{original}");
    Ok(())
}
