//! The real API server takes every manifest without a warning, and none has a field it does not know.

use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::ControlPlane,
    deploy::{KUBEADM, path},
    pod::PodSpec,
};
use serde_json::Value as Json;
use test_support::control_plane::{MODULES, file};

use crate::have_programs;

/// Kustomizations, and the kinds that each makes.
const KUSTOMIZATIONS: [(&str, &[&str]); 3] = [
    (
        "base",
        &[
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "DaemonSet",
            "ServiceAccount",
        ],
    ),
    (
        "by-node",
        &[
            "ClusterRole",
            "ClusterRoleBinding",
            "ConfigMap",
            "DaemonSet",
            "ServiceAccount",
        ],
    ),
    (
        "monitoring",
        &["ConfigMap", "PodMonitor", "PrometheusRule", "Service"],
    ),
];

#[test]
fn the_api_server_takes_all_of_it_without_a_warning() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let kubectl = control.kubectl()?;
    let definitions = MODULES.iter().flat_map(|module| module.files);
    for definition in definitions.flat_map(|(_, files)| *files) {
        let definition = file(definition).with_context(|| format!("no {definition}"))?;
        let definition = definition.display().to_string();
        kubectl.run(&["create", "-f", &definition])?;
    }
    kubectl.run(&["wait", "--for=condition=Established", "--all", "crd"])?;
    for (name, kinds) in KUSTOMIZATIONS {
        let folder = path(name).display().to_string();
        let built = kubectl.run(&["kustomize", &folder])?;
        ensure!(kinds_of(&built) == kinds, "{name}: {built}");
        // Strict is the default: an unknown or doubled field is an error.
        kubectl.run(&["apply", "--validate=strict", "-k", &folder])?;
        let repeated = kubectl.run(&["apply", "-k", &folder])?;
        let changed: Vec<_> = repeated
            .lines()
            .filter(|line| !line.ends_with("unchanged"))
            .collect();
        ensure!(changed.is_empty(), "applied twice: {changed:?}");
    }
    let daemon_set = kubectl.object(&["-n", "kube-system", "daemonset", "kproxy"])?;
    check_security(&daemon_set)?;
    Ok(())
}

/// What the main container must not be able to do.
fn check_security(daemon_set: &Json) -> Result<()> {
    let spec = &daemon_set["spec"]["template"]["spec"];
    let context = &spec["containers"][0]["securityContext"];
    let expected = serde_json::json!({
        "allowPrivilegeEscalation": false,
        "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        "readOnlyRootFilesystem": true,
        "seccompProfile": {"type": "RuntimeDefault"},
    });
    ensure!(context == &expected, "{context}");
    // Everything that is said is understood by the test's kubelet.
    PodSpec::of(daemon_set)?;
    Ok(())
}

/// kubeadm's own manifests stay as they are but for image and command, with either way of patching.
#[test]
fn kube_proxy_can_be_patched() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let kubectl = control.kubectl()?;
    kubectl.run_with(&["apply", "-f", "-"], KUBEADM)?;
    let target = ["-n", "kube-system", "patch", "daemonset", "kube-proxy"];
    let patch = path("by-node/kube-proxy.yaml").display().to_string();
    kubectl.run(&[&target[..], &["--patch-file", &patch]].concat())?;
    let patched = kubectl.object(&["-n", "kube-system", "daemonset", "kube-proxy"])?;
    let pod = &patched["spec"]["template"]["spec"];
    let terms = &pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let kept_off = &terms["nodeSelectorTerms"][0]["matchExpressions"][0];
    let ours = fs::read_to_string(path("by-node/kustomization.yaml"))?;
    let label = kept_off["key"].as_str().context("no label")?;
    let value = kept_off["values"][0].as_str().context("no value")?;
    ensure!(kept_off["operator"] == "NotIn");
    ensure!(ours.contains(&format!("{label}: {value}")), "another label");
    Ok(())
}

/// Kinds of the objects in a stream of YAML.
fn kinds_of(built: &str) -> Vec<&str> {
    let lines = built.lines();
    let mut kinds: Vec<_> = lines
        .filter_map(|line| line.strip_prefix("kind: "))
        .collect();
    kinds.sort_unstable();
    kinds
}
