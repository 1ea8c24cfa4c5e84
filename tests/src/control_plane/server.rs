//! Starting kube-apiserver.

use core::time::Duration;
use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::Namespace;

use super::{Client, SERVICE_CIDRS, certificate, find};
use crate::program::Program;

/// How long a program may take to start, or the API server to answer.
const PATIENCE: Duration = Duration::from_secs(120);
/// An address that the API server may advertise.
const ADVERTISED: &str = "198.51.100.1";
/// Its record of requests.
pub(super) const AUDIT: &str = "audit.log";

/// How the API server is set up.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether it asks RBAC what a user may do (else everybody may do everything), and writes down
    /// what it was asked.
    pub rbac: bool,
    /// Whether it refuses streaming lists, as servers before 1.34 do.
    pub no_streaming_lists: bool,
}

pub(super) fn start(namespace: &Namespace, folder: &Path, options: Options) -> Result<Program> {
    let mut command = Command::new(find("kube-apiserver")?);
    let path = |option: &str, file: &str| format!("{option}={}", folder.join(file).display());
    command
        .args([
            "--etcd-servers=http://127.0.0.1:2379",
            "--secure-port=6443",
            "--bind-address=127.0.0.1",
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
        .arg(path("--client-ca-file", certificate::AUTHORITY))
        .arg(path("--service-account-key-file", "accounts.pub"))
        .arg(path("--service-account-signing-key-file", "accounts.key"));
    if options.rbac {
        fs::write(
            folder.join("audit.yaml"),
            "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]\n",
        )?;
        command
            .arg("--authorization-mode=RBAC")
            .arg(path("--audit-policy-file", "audit.yaml"))
            .arg(path("--audit-log-path", AUDIT))
            // Written before the answer is.
            .arg("--audit-log-mode=blocking-strict");
    } else {
        command.arg("--authorization-mode=AlwaysAllow");
    }
    if options.no_streaming_lists {
        command.arg("--feature-gates=WatchList=false");
    }
    Program::start(namespace, command, &folder.join("kube-apiserver.log"))
}

/// A key pair for service accounts.
pub(super) fn make_keys(folder: &Path) -> Result<()> {
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

pub(super) fn wait_until_ready(client: &Client, api: &mut Program) -> Result<()> {
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
