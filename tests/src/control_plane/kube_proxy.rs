//! The real kube-proxy, in nftables mode.

use core::{net::SocketAddr, time::Duration};
use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
    path::PathBuf,
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::{Namespace, NamespaceRef};
use nft_batch::{Connection, EventError, Events};
use serde_json::{Value as Json, json};
use svc_planner::plan::{Family, Key};

use super::{ControlPlane, RELAYED, find, marker::has_row, relay::Relay};
use crate::{folder::Folder, program::Program};

/// Where kube-proxy serves its metrics.
const METRICS: &str = "127.0.0.1:10249";
/// kube-proxy's map of frontends that have endpoints.
const FRONTENDS: &str = "service-ips";
/// How long it may take to program a change.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is started until it begins with all it needs.
const STARTS: usize = 10;

/// What differs from one kube-proxy to another.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// Name of its Node.
    pub node_name: String,
    /// A program that records it, `nft-replay`, and the file.
    pub recorder: Option<(PathBuf, PathBuf)>,
    /// More of its configuration, as fields of KubeProxyConfiguration.
    pub configuration: Vec<(&'static str, Json)>,
    /// Where it finds programs, in place of `PATH`.
    pub path: Option<OsString>,
}

/// See the module. Ended when dropped, its rules stay.
#[derive(Debug)]
pub struct KubeProxy {
    program: Program,
    settings: Settings,
    namespace: NamespaceRef,
    connection: Connection,
    events: Events,
    relay: Relay,
    folder: Folder,
}

impl KubeProxy {
    /// Starts it in a node's namespace. Its Node object should exist.
    ///
    /// # Errors
    /// When it is missing or cannot be started.
    pub fn start(control: &ControlPlane, node: &Namespace, settings: Settings) -> Result<Self> {
        let folder = Folder::new()?;
        let relay = control.relay_to(node)?;
        let program = launch(node, &settings, &folder)?;
        Ok(Self {
            program,
            settings,
            namespace: node.handle(),
            connection: node.run(Connection::open)??,
            events: node.run(Events::open)??,
            relay,
            folder,
        })
    }

    /// Starts it, and again should it not have heard of the ServiceCIDRs before its first sync: those
    /// that it hears of later it heeds an hour later. Waits as [`Self::settle`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_settled(
        control: &ControlPlane,
        node: &Namespace,
        settings: &Settings,
    ) -> Result<Self> {
        for _ in 0..STARTS {
            let mut started = Self::start(control, node, settings.clone())?;
            started.settle(control, node)?;
            if knows_service_cidrs(node)? {
                return Ok(started);
            }
        }
        bail!("kube-proxy has begun {STARTS} times without the ServiceCIDRs");
    }

    /// Waits until everything written to the API server so far is programmed, and what follows a
    /// sync (clearing conntrack entries) is done.
    ///
    /// # Errors
    /// When it ends or does not get there.
    pub fn settle(&mut self, control: &ControlPlane, node: &Namespace) -> Result<()> {
        // Syncs do not overlap: once the second has committed, the first is over entirely.
        for _ in 0..2 {
            let frontends = control.marker.advance(control.client())?;
            self.wait_for(&frontends, node)?;
        }
        Ok(())
    }

    /// What carries its connections.
    #[must_use]
    pub const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Waits until frontends have endpoints.
    ///
    /// # Errors
    /// When it ends or does not get there.
    pub fn wait_for(&mut self, frontends: &[(Family, Key)], node: &Namespace) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut there = true;
            for (family, key) in frontends {
                let row = has_row(&mut self.connection, FRONTENDS, *family, key)?;
                there &= row;
            }
            if there {
                return Ok(());
            }
            if let Some(status) = self.program.ended()? {
                self.restart(node, &status.to_string())?;
            }
            // Now and then, to see whether it has ended.
            let look = Instant::now() + Duration::from_secs(1);
            match self.events.next_group(Some(look.min(deadline))) {
                // However much happens meanwhile.
                Ok(_) | Err(EventError::Overrun | EventError::TimedOut)
                    if Instant::now() < deadline => {}
                Ok(_) => bail!(
                    "kube-proxy has not programmed the marker in {PATIENCE:?}\n{}",
                    self.program.tail()?
                ),
                Err(error) => bail!(
                    "kube-proxy has not programmed the marker: {error}\n{}",
                    self.program.tail()?
                ),
            }
        }
    }

    /// It ends, on purpose, when an address of its Node changes; whoever runs it starts it again.
    fn restart(&mut self, node: &Namespace, status: &str) -> Result<()> {
        let log = self.program.log()?;
        ensure!(
            log.contains("NodeIPs changed") || log.contains("Node IP"),
            "kube-proxy ended, {status}:\n{}",
            self.program.tail()?
        );
        self.program = launch(node, &self.settings, &self.folder)?;
        Ok(())
    }

    /// Sum of a metric over its labels; `None` if it has no value yet.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn metric(&self, name: &str) -> Result<Option<f64>> {
        let metrics = self.metrics()?;
        let values: Vec<f64> = metrics
            .lines()
            .filter_map(|line| {
                let rest = line.strip_prefix(name)?;
                let (labels, value) = rest.rsplit_once(' ')?;
                (labels.is_empty() || labels.starts_with('{')).then(|| value.parse().ok())?
            })
            .collect();
        Ok((!values.is_empty()).then(|| values.iter().sum()))
    }

    /// Fails if a sync or a clean-up has failed.
    ///
    /// # Errors
    /// Which.
    pub fn check_counters(&self) -> Result<()> {
        for counter in [
            "kubeproxy_sync_proxy_rules_nftables_sync_failures_total",
            "kubeproxy_sync_proxy_rules_nftables_cleanup_failures_total",
        ] {
            // A counter that has not counted yet is not shown.
            let failures = self.metric(counter)?.unwrap_or_default();
            ensure!(failures == 0.0, "{counter} is {failures}");
        }
        let synced = self.metric("kubeproxy_sync_proxy_rules_last_timestamp_seconds")?;
        ensure!(
            synced.is_some_and(|time| time > 0.0),
            "kube-proxy has not synced"
        );
        Ok(())
    }

    /// Error lines of its log. It calls it an error that a table which it is about to make is not
    /// there yet.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn errors(&self) -> Result<Vec<String>> {
        Ok(errors_in(&self.program.log()?))
    }

    /// All of its log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.program.log()
    }

    /// Ends it; its rules stay.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn stop(mut self) -> Result<()> {
        self.program.stop()?;
        Ok(())
    }

    /// Runs `kube-proxy --cleanup` in a node's namespace, which finds programs in `path`.
    ///
    /// # Errors
    /// When it fails or logs an error.
    pub fn clean_up(node: &Namespace, path: Option<&OsStr>) -> Result<()> {
        let mut command = Command::new(find("kube-proxy")?);
        command.args(["--cleanup", "--v=2"]);
        if let Some(path) = path {
            command.env("PATH", path);
        }
        let output = node
            .run(move || command.output())?
            .context("start kube-proxy")?;
        let log = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kube-proxy --cleanup: {log}");
        let errors = errors_in(&log);
        ensure!(
            errors.is_empty(),
            "kube-proxy --cleanup: {}",
            errors.join("\n")
        );
        Ok(())
    }

    /// A scrape of its metrics, with the head of the answer.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn metrics(&self) -> Result<String> {
        let namespace = self.namespace.clone();
        let address: SocketAddr = METRICS.parse()?;
        let connected = std::thread::spawn(move || -> Result<_> {
            namespace.enter()?;
            let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok(stream)
        });
        let mut stream = connected
            .join()
            .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        ensure!(
            text.starts_with("HTTP/1.0 200"),
            "kube-proxy's metrics: {text}"
        );
        Ok(text)
    }
}

/// klog starts a line with the severity and the date: `E1130 12:00:00.000000`.
fn errors_in(log: &str) -> Vec<String> {
    let is_error = |line: &&str| {
        let mut letters = line.chars();
        matches!(letters.next(), Some('E' | 'F'))
            && letters
                .by_ref()
                .take(4)
                .filter(char::is_ascii_digit)
                .count()
                == 4
            && letters.next() == Some(' ')
    };
    log.lines().filter(is_error).map(str::to_owned).collect()
}

/// Whether it drops what is for no ClusterIP, in both families.
fn knows_service_cidrs(node: &Namespace) -> Result<bool> {
    for family in ["ip", "ip6"] {
        let mut nft = Command::new("nft");
        nft.args(["list", "chain", family, "kube-proxy", "cluster-ips-check"]);
        let listed = node.run(move || nft.output())?.context("start nft")?;
        ensure!(
            listed.status.success(),
            "{}",
            String::from_utf8_lossy(&listed.stderr)
        );
        if !String::from_utf8_lossy(&listed.stdout).contains("drop") {
            return Ok(false);
        }
    }
    Ok(true)
}

fn launch(node: &Namespace, settings: &Settings, folder: &Folder) -> Result<Program> {
    let (kubeconfig, config) = (
        folder.path().join("kubeconfig"),
        folder.path().join("config"),
    );
    let access = ControlPlane::kubeconfig(RELAYED);
    fs::write(&kubeconfig, access.to_string())?;
    let mut configuration = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "hostnameOverride": settings.node_name,
        "clientConnection": {"kubeconfig": kubeconfig},
        "conntrack": {"maxPerCore": 0, "min": 0},
        "metricsBindAddress": METRICS,
    });
    for (field, value) in &settings.configuration {
        configuration[*field] = value.clone();
    }
    fs::write(&config, configuration.to_string())?;
    let program = find("kube-proxy")?;
    let mut command = match &settings.recorder {
        Some((recorder, file)) => {
            let mut command = Command::new(recorder);
            command.args(["record", "-o"]).arg(file);
            command.arg("--").arg(program);
            command
        }
        None => Command::new(program),
    };
    command.arg("--config").arg(&config).arg("--v=2");
    if let Some(path) = &settings.path {
        command.env("PATH", path);
    }
    Program::start(node, command, &folder.path().join("kube-proxy.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_lines_are_told_from_others() {
        let log = "I1130 10:00:00.1 1 a.go:1] fine\nE1130 10:00:00.2 1 b.go:2] wrong\n\
                   E2E is a word\nF1130 10:00:00.3 1 c.go:3] worse\n";
        let errors = errors_in(log);
        assert_eq!(errors.len(), 2);
        assert!(errors[0].ends_with("wrong"));
    }
}
