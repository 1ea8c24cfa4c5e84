//! Installing kproxy in an API server, as its operator would.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value as Json;

use crate::{
    control_plane::{ControlPlane, Kubectl, RELAYED, Token},
    folder::Folder,
    pod::{Pod, Programs, Provided},
    takeover::World,
};

/// What kubeadm 1.37.2 installs for kube-proxy, as it printed it itself.
pub const KUBEADM: &str = include_str!("../../deploy/kubeadm-1.37.yaml");

/// Which way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `deploy/base`: our own DaemonSet, ClusterRole and ConfigMap.
    Ours,
    /// kubeadm's, with the patch of `deploy/drop-in`: `system:node-proxier`, kube-proxy's ConfigMap.
    DropIn,
}

/// What there is then.
#[derive(Debug)]
pub struct Installed {
    /// As the API server has it.
    pub daemon_set: Json,
    /// Name of the ConfigMap.
    pub config_map: String,
    /// Its data.
    pub config: BTreeMap<String, String>,
    /// Service account, in `kube-system`.
    pub account: String,
    /// Its token.
    pub token: Token,
}

impl Kind {
    /// Name of the DaemonSet, of the ConfigMap and of the service account.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "kproxy",
            Self::DropIn => "kube-proxy",
        }
    }
}

impl Installed {
    /// What the audit log calls its user.
    #[must_use]
    pub fn user(&self) -> String {
        format!("system:serviceaccount:kube-system:{}", self.account)
    }

    /// A pod of it on the node of a world.
    ///
    /// # Errors
    /// When the DaemonSet is not understood.
    pub fn pod(&self, control: &ControlPlane, world: &World, programs: &Programs) -> Result<Pod> {
        let provided = Provided {
            config_maps: [(self.config_map.clone(), self.config.clone())].into(),
            token: self.token.text().to_owned(),
            authority: control.certificate()?,
        };
        Pod::new(
            &self.daemon_set,
            "node-a",
            world.node(),
            &provided,
            programs,
        )
    }
}

/// Installs it. A warning of the API server is an error.
///
/// # Errors
/// When the API server refuses something.
pub fn install(control: &ControlPlane, kind: Kind) -> Result<Installed> {
    let kubectl = control.kubectl()?;
    match kind {
        Kind::Ours => {
            let folder = Folder::new()?;
            let base = configured(folder.path())?;
            kubectl.run(&["apply", "-k", &base.display().to_string()])?;
        }
        Kind::DropIn => {
            kubectl.run_with(&["apply", "-f", "-"], KUBEADM)?;
            drop_in(&kubectl)?;
        }
    }
    let name = kind.name();
    let of = |kind: &str| kubectl.object(&["-n", "kube-system", kind, name]);
    let config: BTreeMap<String, String> =
        serde_json::from_value(of("configmap")?["data"].clone())?;
    let daemon_set = of("daemonset")?;
    let account = &daemon_set["spec"]["template"]["spec"]["serviceAccountName"];
    let account = account.as_str().context("no service account")?.to_owned();
    Ok(Installed {
        token: control.token("kube-system", &account)?,
        daemon_set,
        config_map: name.to_owned(),
        config,
        account,
    })
}

/// A copy of `deploy/base` in which is set what its README has people set.
fn configured(folder: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(super::path("base"))? {
        let entry = entry?;
        fs::copy(entry.path(), folder.join(entry.file_name()))?;
    }
    let edits = [
        (
            "kubeconfig.conf",
            "https://set-the-api-servers-address.invalid:6443",
            format!("https://{RELAYED}"),
        ),
        (
            "config.conf",
            "clusterCIDR: \"\"",
            "clusterCIDR: 10.0.0.0/8,fd00:10::/64".to_owned(),
        ),
    ];
    for (file, placeholder, value) in edits {
        let path = folder.join(file);
        let text = fs::read_to_string(&path)?;
        ensure!(
            text.matches(placeholder).count() == 1,
            "no {placeholder:?} in {file}"
        );
        fs::write(&path, text.replace(placeholder, &value))?;
    }
    Ok(folder.to_owned())
}

/// Changes image and command, and nothing else.
fn drop_in(kubectl: &Kubectl) -> Result<()> {
    let read = || kubectl.object(&["-n", "kube-system", "daemonset", "kube-proxy"]);
    let before = read()?;
    let patch = super::path("drop-in/kube-proxy.yaml").display().to_string();
    let target = ["-n", "kube-system", "patch", "daemonset", "kube-proxy"];
    kubectl.run(&[&target[..], &["--patch-file", &patch]].concat())?;
    let mut after = read()?;
    let container = "/spec/template/spec/containers/0";
    for field in ["image", "command"] {
        let pointer = format!("{container}/{field}");
        let (was, is) = (before.pointer(&pointer), after.pointer_mut(&pointer));
        let (was, is) = was.zip(is).context("no container")?;
        ensure!(was != is, "{field} is unchanged");
        *is = was.clone();
    }
    ensure!(
        before["spec"] == after["spec"],
        "more is changed: {} to {}",
        before["spec"],
        after["spec"]
    );
    Ok(())
}
