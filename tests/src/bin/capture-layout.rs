//! Prints the ruleset that the kube-proxy in `KUBEBUILDER_ASSETS` makes of
//! `tests/takeover/cluster.yaml`: how `tests/takeover/kube-proxy-*.nft` were recorded.

use anyhow::Result;
use e2e::{
    control_plane::{ControlPlane, KubeProxy},
    differential::Cluster,
    ruleset,
    takeover::World,
};

fn main() -> Result<()> {
    let control = ControlPlane::start()?;
    let world = World::new()?;
    let mut cluster = Cluster::new(&control);
    cluster.apply(&World::objects())?;
    let mut kube_proxy = KubeProxy::start(&control, world.node(), World::settings())?;
    kube_proxy.settle(&control, world.node())?;
    print!("{}", ruleset::nft(world.node(), &["list", "ruleset"])?);
    Ok(())
}
