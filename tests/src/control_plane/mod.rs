//! A real control plane: etcd and kube-apiserver in a network namespace of their own, and the real
//! kube-proxy in that of a node.
//!
//! ```text
//!   namespace "control plane"              namespace of a node
//!   etcd ── kube-apiserver ── Client       kube-proxy ── 127.0.0.1:16443
//!                  └─────────── Relay ─────────────────────────┘
//! ```
//! No link joins the two: a relay carries kube-proxy's connections, so that the node is wired as it
//! is for ours. Nothing else runs: no controller makes slices, no kubelet makes Nodes.

mod client;
mod kube_proxy;
mod kubectl;
mod marker;
mod relay;

pub use client::{Client, Key, Method, Request, Response};
pub use kube_proxy::{KubeProxy, Settings};
pub use kubectl::Kubectl;
pub(crate) use marker::NAMESPACE as MARKER_NAMESPACE;
pub use relay::{Carried, Held, Relay};

use core::time::Duration;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::Namespace;
use serde_json::{Value as Json, json};
use svc_planner::plan::{Family, Key as RowKey};
use test_support::control_plane::program;

use self::marker::Marker;
use crate::{folder::Folder, program::Program};

/// Ranges of ClusterIPs; the ClusterIPs of all scenarios are in them.
pub const SERVICE_CIDRS: [&str; 2] = ["172.30.0.0/16", "fd00:10:96::/64"];
/// How long a program may take to start, or the API server to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// The user that everything here is.
const TOKEN: &str = "only-reachable-in-a-private-namespace";
/// An address that the API server may advertise.
const ADVERTISED: &str = "198.51.100.1";

/// etcd and kube-apiserver, both gone when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    client: Client,
    marker: Marker,
    // Dropped in this order: the API server before what it talks to.
    api: Program,
    _etcd: Program,
    namespace: Namespace,
    folder: Folder,
}

impl ControlPlane {
    /// Whether the programs are there; names them when not.
    ///
    /// # Errors
    /// The names of those that are missing.
    pub fn available() -> Result<()> {
        for name in ["etcd", "kube-apiserver", "kube-proxy"] {
            find(name)?;
        }
        Ok(())
    }

    /// Starts both and waits until the API server is ready.
    ///
    /// # Errors
    /// When a program is missing or does not become ready.
    pub fn start() -> Result<Self> {
        let folder = Folder::new()?;
        let namespace = Namespace::new("control plane")?;
        let etcd = start_etcd(&namespace, folder.path())?;
        make_keys(folder.path())?;
        fs::write(
            folder.path().join("tokens.csv"),
            format!("{TOKEN},admin,1,\"system:masters\"\n"),
        )?;
        let mut api = start_api_server(&namespace, folder.path())?;
        let client = Client::new(&namespace, folder.path(), TOKEN)?;
        wait_until_ready(&client, &mut api)?;
        let created = client.send_one(&namespace_request(MARKER_NAMESPACE))?;
        ensure!(created.is_ok(), "create a namespace: {}", created.message());
        Ok(Self {
            client,
            marker: Marker::default(),
            api,
            _etcd: etcd,
            namespace,
            folder,
        })
    }

    /// kubectl, as an administrator.
    ///
    /// # Errors
    /// When it is missing.
    pub fn kubectl(&self) -> Result<Kubectl> {
        Kubectl::new(&self.namespace, self.folder.path(), TOKEN)
    }

    /// Talks to the API server.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }

    /// Where both run.
    #[must_use]
    pub const fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// A kubeconfig for a server that is reached at `address`.
    #[must_use]
    pub fn kubeconfig(address: &str) -> Json {
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://{address}"), "insecure-skip-tls-verify": true}}],
            "users": [{"name": "it", "user": {"token": TOKEN}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]
        })
    }

    /// Writes the marker: a Service whose arrival shows that everything before it has arrived.
    /// Returns its frontends.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn mark(&self) -> Result<[(Family, RowKey); 2]> {
        self.marker.advance(&self.client)
    }

    /// Ends the API server and starts it again on what etcd holds: its caches begin anew.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn restart_api(&mut self) -> Result<()> {
        self.api.stop()?;
        self.api = start_api_server(&self.namespace, self.folder.path())?;
        wait_until_ready(&self.client, &mut self.api)
    }

    /// Where their files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Creates a Namespace.
#[must_use]
pub fn namespace_request(name: &str) -> Request {
    Request::new(Method::Post, "/api/v1/namespaces").with(json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}
    }))
}

fn find(name: &str) -> Result<PathBuf> {
    program(name).with_context(|| format!("no {name}: run `cargo xtask control-plane build`"))
}

fn start_etcd(namespace: &Namespace, folder: &Path) -> Result<Program> {
    let (clients, peers) = ("http://127.0.0.1:2379", "http://127.0.0.1:2380");
    let mut command = Command::new(find("etcd")?);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", clients])
        .args(["--advertise-client-urls", clients])
        .args(["--listen-peer-urls", peers])
        .args(["--unsafe-no-fsync", "--log-level", "warn"]);
    Program::start(namespace, command, &folder.join("etcd.log"))
}

fn start_api_server(namespace: &Namespace, folder: &Path) -> Result<Program> {
    let mut command = Command::new(find("kube-apiserver")?);
    let path = |option: &str, file: &str| format!("{option}={}", folder.join(file).display());
    command
        .args([
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=6443",
            "--bind-address=127.0.0.1",
            "--authorization-mode=AlwaysAllow",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--disable-admission-plugins=ServiceAccount",
            // The scenarios' node ports are those of kube-proxy's own tests.
            "--service-node-port-range=1-65535",
            // As kubeadm does: init containers that write sysctls are privileged.
            "--allow-privileged=true",
            "--profiling=false",
        ])
        .arg(format!("--advertise-address={ADVERTISED}"))
        .arg(format!(
            "--service-cluster-ip-range={}",
            SERVICE_CIDRS.join(",")
        ))
        .arg(path("--cert-dir", "certificates"))
        .arg(path("--token-auth-file", "tokens.csv"))
        .arg(path("--service-account-key-file", "accounts.pub"))
        .arg(path("--service-account-signing-key-file", "accounts.key"));
    Program::start(namespace, command, &folder.join("kube-apiserver.log"))
}

/// A key pair for service accounts, of which there are none.
fn make_keys(folder: &Path) -> Result<()> {
    let (private, public) = (folder.join("accounts.key"), folder.join("accounts.pub"));
    let mut make = Command::new("openssl");
    make.args([
        "genpkey",
        "-algorithm",
        "EC",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-out",
    ]);
    let mut extract = Command::new("openssl");
    extract
        .args(["pkey", "-pubout", "-in"])
        .arg(&private)
        .arg("-out");
    for (mut command, file) in [(make, &private), (extract, &public)] {
        let output = command.arg(file).output().context("start openssl")?;
        ensure!(
            output.status.success(),
            "openssl: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(())
}

fn wait_until_ready(client: &Client, api: &mut Program) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if let Some(status) = api.ended()? {
            bail!("kube-apiserver ended, {status}:\n{}", api.tail()?);
        }
        // curl itself waits until the port is open.
        if client.get("/readyz").is_ok_and(|reply| reply.code == 200) {
            return Ok(());
        }
        // It tells nobody when it is ready.
        std::thread::sleep(Duration::from_millis(100));
    }
    bail!("kube-apiserver is not ready:\n{}", api.tail()?)
}
