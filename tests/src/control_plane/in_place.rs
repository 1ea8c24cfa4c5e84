//! kproxy in kube-proxy's place: its configuration file, the API server, its pages.

use core::time::Duration;
use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    thread,
    time::Instant,
};

use anyhow::{Result, bail, ensure};
use netns_lab::{Namespace, NamespaceRef};
use serde_json::{Value as Json, json};

use super::{ControlPlane, RELAYED, relay::Relay};
use crate::{folder::Folder, pod::HttpProbe, program::Program};

/// Longest wait for anything; passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(180);

/// What differs from one to another.
#[derive(Debug, Clone, Default)]
pub struct InPlaceOptions {
    /// Name of the Node.
    pub node_name: String,
    /// More of the configuration, as fields of KubeProxyConfiguration.
    pub configuration: Vec<(&'static str, Json)>,
    /// The user of the kubeconfig; an administrator if there is none.
    pub user: Option<Json>,
    /// More flags.
    pub flags: Vec<String>,
    /// More of the environment.
    pub environment: Vec<(&'static str, OsString)>,
}

/// See the module. Ended when dropped, its rules stay.
#[derive(Debug)]
pub struct InPlace {
    program: Program,
    namespace: NamespaceRef,
    relay: Relay,
    folder: Folder,
}

/// An answer of one of its pages.
#[derive(Debug, Clone)]
pub struct Page {
    /// HTTP status.
    pub code: u16,
    /// All of it, with its head.
    pub text: String,
}

impl InPlace {
    /// Starts it in a node's namespace.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        control: &ControlPlane,
        node: &Namespace,
        kproxy: &Path,
        options: &InPlaceOptions,
    ) -> Result<Self> {
        let folder = Folder::new()?;
        let relay = control.relay_to(node)?;
        let mut access = ControlPlane::kubeconfig(RELAYED);
        if let Some(user) = &options.user {
            access["users"][0]["user"] = user.clone();
        }
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, access.to_string())?;
        let mut configuration = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": kubeconfig},
            // The host's, which no test may change.
            "conntrack": {"maxPerCore": 0, "min": 0},
        });
        for (field, value) in &options.configuration {
            configuration[*field] = value.clone();
        }
        let config = folder.path().join("config.conf");
        fs::write(&config, configuration.to_string())?;
        let mut command = Command::new(kproxy);
        command
            .arg("--config")
            .arg(&config)
            .arg(format!("--hostname-override={}", options.node_name))
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(&options.flags)
            .envs(options.environment.iter().cloned());
        Ok(Self {
            program: Program::start(node, command, &folder.path().join("log"))?,
            namespace: node.handle(),
            relay,
            folder,
        })
    }

    /// A page of its health port.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn health(&self, path: &str) -> Result<Page> {
        self.page(10256, path)
    }

    /// A page of its metrics port.
    ///
    /// # Errors
    /// When nobody answers.
    pub fn metrics(&self, path: &str) -> Result<Page> {
        self.page(10249, path)
    }

    fn page(&self, port: u16, path: &str) -> Result<Page> {
        let path = path.to_owned();
        let text = HttpProbe { path, port }.fetch(&self.namespace)?;
        let code = text.split(' ').nth(1).and_then(|code| code.parse().ok());
        ensure!(code.is_some(), "not HTTP: {text}");
        Ok(Page {
            code: code.unwrap_or_default(),
            text,
        })
    }

    /// Waits until something is so.
    ///
    /// # Errors
    /// When it ends, or it never is.
    pub fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self)? {
            if let Some(status) = self.program.ended()? {
                bail!("kproxy ended, {status}:\n{}", self.log()?);
            }
            ensure!(
                Instant::now() < deadline,
                "not so: {what}; kproxy:\n{}",
                self.log()?
            );
            // Pages and the API server's objects are looked at: they tell nobody.
            thread::sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    /// Waits until `/readyz` answers so. Nobody answers at first.
    ///
    /// # Errors
    /// When it never does.
    pub fn until_ready(&mut self, code: u16) -> Result<()> {
        self.until(&format!("/readyz is {code}"), |it| {
            Ok(it.health("/readyz").is_ok_and(|page| page.code == code))
        })
    }

    /// All of its log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String> {
        self.program.log()
    }

    /// Lines of `/proc/PID/task/*/status` that begin so, without the beginning, one for each thread.
    ///
    /// # Errors
    /// When it has ended.
    pub fn thread_statuses(&self, field: &str) -> Result<Vec<String>> {
        let mut values = Vec::new();
        for task in fs::read_dir(format!("/proc/{}/task", self.program.id()))? {
            let status = fs::read_to_string(task?.path().join("status"))?;
            let mut lines = status.lines();
            let value = lines.find_map(|line| line.strip_prefix(field));
            values.extend(value.map(|value| value.trim().to_owned()));
        }
        Ok(values)
    }

    /// What carries its connections to the API server.
    #[must_use]
    pub const fn relay(&self) -> &Relay {
        &self.relay
    }

    /// Its configuration file.
    #[must_use]
    pub fn config(&self) -> PathBuf {
        self.folder.path().join("config.conf")
    }

    /// Asks it to end, and waits for it.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn stop(mut self) -> Result<ExitStatus> {
        self.program.stop()
    }
}
