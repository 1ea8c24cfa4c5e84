//! The commands that README.md, docs/MIGRATION.md and deploy/README.md tell people to run, as they are
//! written there, with the real kubectl against the real API server.
//!
//! Nothing runs the DaemonSet controller here; the test does of it what `kubectl rollout` looks at: the status,
//! and a ControllerRevision of each template.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, Kubectl, Method, Request},
    deploy::KUBEADM,
    folder::Folder,
};
use serde_json::{Value as Json, json};

use crate::have_programs;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
/// Where a node is to be named.
const PLACEHOLDER: &str = "NODE";
const NODE: &str = "node-a";
/// What cannot be run here, and why.
const ELSEWHERE: [(&str, &str); 6] = [
    (
        "kubectl -n kube-system exec daemonset/kube-proxy -- /usr/local/bin/kproxy check",
        "no kubelet that could be asked: `check` runs in a container's place in lifecycle.rs",
    ),
    (
        "docker build -f deploy/Dockerfile -t registry.example/kproxy:0.1.0 .",
        "no container builder: `cargo xtask image` makes the image's files as the Dockerfile does",
    ),
    (
        "docker push registry.example/kproxy:0.1.0",
        "there is no registry",
    ),
    (
        "cargo xtask image --test",
        "it runs these tests itself, with the image's files",
    ),
    (
        "cargo xtask image --tag registry.example/kproxy:0.1.0 --output kproxy.tar",
        "it compiles for minutes; xtask's own tests put an image together",
    ),
    (
        "skopeo copy docker-archive:kproxy.tar docker://registry.example/kproxy:0.1.0",
        "there is no registry",
    ),
];

/// Commands of a document: lines of its console blocks.
fn commands(document: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(Path::new(ROOT).join(document))?;
    let mut commands = Vec::new();
    let mut blocks = text.split("```");
    // Text, block, text, …
    while let (Some(_), Some(block)) = (blocks.next(), blocks.next()) {
        let Some(lines) = block.strip_prefix("console\n") else {
            continue;
        };
        for line in lines.lines().filter_map(|line| line.strip_prefix("$ ")) {
            let (command, _) = line.split_once(" #").unwrap_or((line, ""));
            commands.push(command.trim_end().to_owned());
        }
    }
    Ok(commands)
}

/// Those about a cluster.
fn of_cluster(document: &str) -> Result<Vec<String>> {
    let mut commands = commands(document)?;
    let programs = ["kubectl", "docker", "skopeo", "yq", "sed"];
    commands.retain(|command| {
        let first = command.split(' ').next().unwrap_or_default();
        programs.contains(&first) || command.starts_with("cargo xtask image")
    });
    ensure!(!commands.is_empty(), "{document} has no command");
    Ok(commands)
}

/// A cluster of kubeadm's and an operator's shell.
struct Operator<'c> {
    control: &'c ControlPlane,
    kubectl: Kubectl,
    /// A copy of the repository, as far as commands look at it.
    folder: Folder,
    revisions: u64,
}

impl<'c> Operator<'c> {
    fn new(control: &'c ControlPlane) -> Result<Self> {
        let kubectl = control.kubectl()?;
        let folder = Folder::new()?;
        copy(
            &Path::new(ROOT).join("deploy"),
            &folder.path().join("deploy"),
        )?;
        let bin = folder.path().join("bin");
        fs::create_dir(&bin)?;
        let script = bin.join("kubectl");
        fs::write(
            &script,
            format!("#!/bin/sh\nexec {} \"$@\"\n", kubectl.words()),
        )?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        kubectl.run_with(&["apply", "-f", "-"], KUBEADM)?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}});
        kubectl.run_with(&["apply", "-f", "-"], &node.to_string())?;
        Ok(Self {
            control,
            kubectl,
            folder,
            revisions: 0,
        })
    }

    /// Runs a command as it is written, in a shell at the repository's root.
    fn run(&self, command: &str) -> Result<String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell
            .args(["-e", "-c", &command.replace(PLACEHOLDER, NODE)])
            .current_dir(self.folder.path())
            .env(
                "PATH",
                format!("{}/bin:{path}", self.folder.path().display()),
            );
        let output = self.control.namespace().run(move || shell.output())??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{command}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    }

    fn daemon_set(&self, name: &str) -> Result<Json> {
        self.kubectl
            .object(&["-n", "kube-system", "daemonset", name])
    }

    /// What the DaemonSet controller does when a template has changed and all pods have followed.
    fn roll(&mut self, name: &str) -> Result<()> {
        let mut daemon_set = self.daemon_set(name)?;
        self.revisions += 1;
        let mut template = daemon_set["spec"]["template"].clone();
        template["$patch"] = json!("replace");
        let metadata = &daemon_set["metadata"];
        let revision = json!({
            "apiVersion": "apps/v1", "kind": "ControllerRevision",
            "metadata": {
                "name": format!("{name}-{}", self.revisions), "namespace": "kube-system",
                "labels": daemon_set["spec"]["selector"]["matchLabels"],
                "ownerReferences": [{
                    "apiVersion": "apps/v1", "kind": "DaemonSet", "name": name,
                    "uid": metadata["uid"], "controller": true
                }],
            },
            "revision": self.revisions,
            "data": {"spec": {"template": template}},
        });
        let group = "/apis/apps/v1/namespaces/kube-system";
        let create =
            Request::new(Method::Post, format!("{group}/controllerrevisions")).with(revision);
        let made = self.control.client().send_one(&create)?;
        ensure!(made.is_ok(), "a ControllerRevision: {}", made.message());
        daemon_set["status"] = json!({
            "observedGeneration": metadata["generation"], "desiredNumberScheduled": 1,
            "currentNumberScheduled": 1, "updatedNumberScheduled": 1, "numberAvailable": 1,
            "numberReady": 1, "numberMisscheduled": 0
        });
        let path = format!("{group}/daemonsets/{name}/status");
        let put = self
            .control
            .client()
            .send_one(&Request::new(Method::Put, path).with(daemon_set))?;
        ensure!(put.is_ok(), "the status: {}", put.message());
        Ok(())
    }
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

fn command_of(daemon_set: &Json) -> &Json {
    &daemon_set["spec"]["template"]["spec"]["containers"][0]["command"]
}

/// Runs those of a document in their order, and lets the pods follow each change.
fn follow(operator: &mut Operator<'_>, document: &str) -> Result<()> {
    for command in of_cluster(document)? {
        if ELSEWHERE.iter().any(|(elsewhere, _)| *elsewhere == command) {
            continue;
        }
        let before = operator.daemon_set("kube-proxy")?;
        operator
            .run(&command)
            .with_context(|| document.to_owned())?;
        let after = operator.daemon_set("kube-proxy")?;
        let changed = before["metadata"]["generation"] != after["metadata"]["generation"];
        if command.contains("patch daemonset") || command.contains("rollout undo") {
            ensure!(changed, "{command} changed nothing");
            operator.roll("kube-proxy")?;
        } else {
            ensure!(!changed, "{command} changed kube-proxy's DaemonSet");
        }
        let runs = command_of(&after)[0]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        if command.contains("drop-in") {
            ensure!(runs.ends_with("/kproxy"), "{command}: {after}");
        }
        if command.contains("rollout undo") {
            ensure!(runs.ends_with("/kube-proxy"), "{command}: {after}");
        }
        if command.starts_with("sed ") {
            let monitoring = operator.folder.path().join("deploy/monitoring");
            for file in ["prometheus-rule.yaml", "dashboard.json"] {
                let text = fs::read_to_string(monitoring.join(file))?.replace('\\', "");
                ensure!(!text.contains("job=\"kproxy"), "{file}: {command}");
                ensure!(text.contains("job=\"kube-proxy\""), "{file}: {command}");
            }
        }
        if command.starts_with("kubectl label node") {
            check_label(operator, &command)?;
        }
    }
    Ok(())
}

/// The label decides which of the two DaemonSets the node belongs to.
fn check_label(operator: &Operator<'_>, command: &str) -> Result<()> {
    let node = operator.kubectl.object(&["node", NODE])?;
    let label = &node["metadata"]["labels"]["service-proxy"];
    let ours = operator.daemon_set("kproxy")?;
    let wanted = &ours["spec"]["template"]["spec"]["nodeSelector"]["service-proxy"];
    ensure!(wanted == "kproxy", "{ours}");
    if command.ends_with('-') {
        ensure!(label.is_null(), "{command}: {node}");
    } else {
        ensure!(label == wanted, "{command}: {node}");
    }
    Ok(())
}

#[test]
fn those_of_the_readme_and_the_guides_work_as_written() -> Result<()> {
    if !have_programs() {
        return Ok(());
    }
    let control = ControlPlane::start()?;
    let mut operator = Operator::new(&control)?;
    operator.roll("kube-proxy")?;
    let first = operator.daemon_set("kube-proxy")?["spec"]["template"].clone();
    follow(&mut operator, "README.md")?;
    let back = operator.daemon_set("kube-proxy")?["spec"]["template"].clone();
    ensure!(first == back, "rolled back to {back}");
    follow(&mut operator, "docs/MIGRATION.md")?;
    follow(&mut operator, "deploy/README.md")?;
    // The files that were read from the cluster make a kproxy of its own.
    let config = fs::read_to_string(operator.folder.path().join("deploy/base/config.conf"))?;
    ensure!(config.contains("kind: KubeProxyConfiguration"), "{config}");
    let access = fs::read_to_string(operator.folder.path().join("deploy/base/kubeconfig.conf"))?;
    ensure!(access.contains("tokenFile:"), "{access}");
    operator.run("kubectl apply -k deploy/base")?;
    // As MIGRATION.md says: another image alone will do.
    operator
        .run("kubectl -n kube-system set image daemonset kube-proxy kube-proxy=kproxy:0.1.0")?;
    Ok(())
}

/// Whoever adds a command adds how it is tested.
#[test]
fn every_command_about_a_cluster_is_known() -> Result<()> {
    let mut all = Vec::new();
    for document in ["README.md", "docs/MIGRATION.md", "deploy/README.md"] {
        all.extend(of_cluster(document)?);
    }
    for (command, why) in ELSEWHERE {
        ensure!(
            all.iter().any(|it| it == command),
            "no document has {command:?} any more ({why})"
        );
    }
    Ok(())
}
