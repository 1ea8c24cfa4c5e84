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

mod account;
mod audit;
mod certificate;
mod client;
mod etcd;
mod in_place;
mod kproxy_program;
mod kube_proxy;
mod kubectl;
mod marker;
mod relay;
mod server;

pub use account::Token;
pub use audit::{Audit, Entry};
pub use certificate::ClientCertificate;
pub use client::{Client, Key, Method, Request, Response};
pub use in_place::{InPlace, InPlaceOptions, Page};
pub use kproxy_program::KproxyProgram;
pub use kube_proxy::{KubeProxy, Settings};
pub use kubectl::Kubectl;
pub(crate) use marker::NAMESPACE as MARKER_NAMESPACE;
pub use relay::{Carried, Held, Relay};
pub use server::Options;

use core::net::SocketAddr;
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use netns_lab::Namespace;
use serde_json::{Value as Json, json};
use svc_planner::plan::{Family, Key as RowKey};
use test_support::control_plane::program;

use self::marker::Marker;
use crate::{folder::Folder, program::Program};

/// Ranges of ClusterIPs; the ClusterIPs of all scenarios are in them.
pub const SERVICE_CIDRS: [&str; 2] = ["172.30.0.0/16", "fd00:10:96::/64"];
/// The user that everything here is.
const TOKEN: &str = "only-reachable-in-a-private-namespace";
/// Where the API server listens.
const SERVER: &str = "127.0.0.1:6443";
/// Where a node finds it: a port that no host of a scenario answers on.
pub const RELAYED: &str = "127.0.0.1:16443";

/// etcd and kube-apiserver, both gone when dropped.
#[derive(Debug)]
pub struct ControlPlane {
    client: Client,
    marker: Marker,
    options: Options,
    // Dropped in this order: the API server before what it talks to.
    api: Mutex<Program>,
    etcd: Mutex<Program>,
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

    /// Whether the programs are there; a test that needs them is skipped when not, or fails with `CI=true`.
    #[must_use]
    pub fn available_or_skip() -> bool {
        let available = Self::available();
        if let Err(missing) = &available {
            test_support::skip(&missing.to_string());
        }
        available.is_ok()
    }

    /// Starts both and waits until the API server is ready.
    ///
    /// # Errors
    /// When a program is missing or does not become ready.
    pub fn start() -> Result<Self> {
        Self::start_with(Options::default())
    }

    /// As [`ControlPlane::start`], set up otherwise.
    ///
    /// # Errors
    /// As there.
    pub fn start_with(options: Options) -> Result<Self> {
        let folder = Folder::new()?;
        let namespace = Namespace::new("control plane")?;
        let etcd = etcd::start(&namespace, folder.path())?;
        server::make_keys(folder.path())?;
        certificate::make_authority(folder.path())?;
        fs::write(
            folder.path().join("tokens.csv"),
            format!("{TOKEN},admin,1,\"system:masters\"\n"),
        )?;
        let mut api = server::start(&namespace, folder.path(), options)?;
        let client = Client::new(&namespace, folder.path(), TOKEN)?;
        server::wait_until_ready(&client, &mut api)?;
        let created = client.send_one(&namespace_request(MARKER_NAMESPACE))?;
        ensure!(created.is_ok(), "create a namespace: {}", created.message());
        Ok(Self {
            client,
            marker: Marker::default(),
            options,
            api: Mutex::new(api),
            etcd: Mutex::new(etcd),
            namespace,
            folder,
        })
    }

    /// Kills the API server, as a crash would.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_api(&self) -> Result<()> {
        held(&self.api).kill()?;
        Ok(())
    }

    /// Starts the API server that has ended, with the same certificate and keys.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn start_api(&self) -> Result<()> {
        let mut api = held(&self.api);
        *api = server::start(&self.namespace, self.folder.path(), self.options)?;
        server::wait_until_ready(&self.client, &mut api)
    }

    /// Ends the API server and starts it again on what etcd holds: its caches begin anew.
    ///
    /// # Errors
    /// When it does not become ready.
    pub fn restart_api(&self) -> Result<()> {
        held(&self.api).stop()?;
        self.start_api()
    }

    /// Kills etcd; what was written stays.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill_etcd(&self) -> Result<()> {
        held(&self.etcd).kill()?;
        Ok(())
    }

    /// Starts the etcd that was killed.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_etcd(&self) -> Result<()> {
        *held(&self.etcd) = etcd::start(&self.namespace, self.folder.path())?;
        Ok(())
    }

    /// Has etcd forget every revision but the last.
    ///
    /// # Errors
    /// When it refuses.
    pub fn compact_etcd(&self) -> Result<()> {
        etcd::compact(&self.namespace)
    }

    /// Lets a node reach the API server.
    ///
    /// # Errors
    /// When its port is taken there.
    pub fn relay_to(&self, node: &Namespace) -> Result<Relay> {
        let (near, far): (SocketAddr, SocketAddr) = (RELAYED.parse()?, SERVER.parse()?);
        Relay::start((node, near), (&self.namespace, far))
    }

    /// A certificate for a user of a group.
    ///
    /// # Errors
    /// When openssl fails.
    pub fn certify(&self, user: &str, group: &str) -> Result<ClientCertificate> {
        ClientCertificate::sign(self.folder.path(), user, group)
    }

    /// Has the API server trust another authority: it will not accept, from then on, what the former
    /// one signed.
    ///
    /// # Errors
    /// When openssl fails.
    pub fn replace_authority(&self) -> Result<()> {
        certificate::make_authority(self.folder.path())
    }

    /// Has the API server sign itself another certificate when it starts next.
    ///
    /// # Errors
    /// When the present one cannot be removed.
    pub fn forget_certificate(&self) -> Result<()> {
        fs::remove_dir_all(self.folder.path().join("certificates"))?;
        Ok(())
    }

    /// Certificate of the API server, which it signed itself.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn certificate(&self) -> Result<String> {
        let path = self.folder.path().join("certificates/apiserver.crt");
        fs::read_to_string(&path).with_context(|| path.display().to_string())
    }

    /// What the API server was asked.
    ///
    /// # Errors
    /// When it keeps no record.
    pub fn audit(&self) -> Result<Audit> {
        Audit::read(&self.folder.path().join(server::AUDIT))
    }

    /// A token of a service account, as its kubelet would ask for one.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn token(&self, namespace: &str, account: &str) -> Result<Token> {
        Token::request(&self.client, namespace, account)
    }

    /// Makes a token worthless.
    ///
    /// # Errors
    /// When the API server refuses.
    pub fn revoke(&self, token: &Token) -> Result<()> {
        token.revoke(&self.client)
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

    /// A kubeconfig for a server that is reached at `address`, for an administrator.
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

    /// Where their files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn held(program: &Mutex<Program>) -> MutexGuard<'_, Program> {
    program.lock().unwrap_or_else(PoisonError::into_inner)
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
