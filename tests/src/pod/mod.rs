//! A kubelet in miniature: runs the containers of a DaemonSet's pod on a node, as the DaemonSet says.
//!
//! What it understands it does as a container runtime would: mounts, the read-only root, capabilities,
//! environment, ConfigMaps and tokens as folders whose links are swapped, probes. What it does not
//! understand is an error, so that nothing of a manifest goes untested in silence. Not done: pulling images
//! (the container sees the image's files that it is given, or else the program under test and the libraries
//! of this machine), and seccomp profiles.

mod probe;
mod sandbox;
mod spec;
mod volume;

pub use probe::HttpProbe;
pub use sandbox::{Mount, Sandbox};
pub use spec::{Container, PodSpec};
pub use volume::SwappedFolder;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
};

use anyhow::{Context as _, Result, ensure};
use netns_lab::{Namespace, NamespaceRef};
use serde_json::Value as Json;

use crate::{folder::Folder, program::Program};

/// Where a container finds the token of its service account.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The programs that a container is made with.
#[derive(Debug, Clone)]
pub struct Programs {
    /// The program under test, whatever the image calls it.
    pub kproxy: PathBuf,
    /// The image's files, to be used instead of it.
    pub image: Option<PathBuf>,
    /// `pod-sandbox`.
    pub sandbox: PathBuf,
}

/// A node's containers of one DaemonSet; ended when dropped.
#[derive(Debug)]
pub struct Pod {
    main: Option<Program>,
    spec: PodSpec,
    programs: Programs,
    node_name: String,
    namespace: NamespaceRef,
    config: BTreeMap<String, SwappedFolder>,
    account: SwappedFolder,
    starts: u32,
    folder: Folder,
}

/// What a pod gets from the API server.
#[derive(Debug, Clone, Default)]
pub struct Provided {
    /// Data of the ConfigMaps, by name.
    pub config_maps: BTreeMap<String, BTreeMap<String, String>>,
    /// Token of the service account.
    pub token: String,
    /// Certificate authority of the API server.
    pub authority: String,
}

impl Pod {
    /// Prepares a pod of a DaemonSet; nothing runs yet.
    ///
    /// # Errors
    /// When the DaemonSet says something that is not understood, or names what is not there.
    pub fn new(
        daemon_set: &Json,
        node_name: &str,
        node: &Namespace,
        provided: &Provided,
        programs: &Programs,
    ) -> Result<Self> {
        let spec = PodSpec::of(daemon_set)?;
        let folder = Folder::new()?;
        let mut config = BTreeMap::new();
        for name in spec.config_maps() {
            let data = provided
                .config_maps
                .get(name)
                .with_context(|| format!("no ConfigMap {name}"))?;
            let path = folder.path().join("config").join(name);
            config.insert(name.to_owned(), SwappedFolder::new(&path, data)?);
        }
        let account = SwappedFolder::new(
            &folder.path().join("account"),
            &account_files(&provided.token, &provided.authority),
        )?;
        Ok(Self {
            main: None,
            spec,
            programs: programs.clone(),
            node_name: node_name.to_owned(),
            namespace: node.handle(),
            config,
            account,
            starts: 0,
            folder,
        })
    }

    /// Runs the init containers, one after the other.
    ///
    /// # Errors
    /// When one fails.
    pub fn init(&mut self, node: &Namespace) -> Result<()> {
        for container in self.spec.init.clone() {
            let mut program = self.launch(node, &container)?;
            let status = program.wait()?;
            ensure!(
                status.success(),
                "container {}: {status}\n{}",
                container.name,
                program.tail()?
            );
        }
        Ok(())
    }

    /// Starts the main container.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&mut self, node: &Namespace) -> Result<()> {
        self.main = None;
        let container = self.spec.main.clone();
        self.main = Some(self.launch(node, &container)?);
        Ok(())
    }

    /// The main container's program.
    ///
    /// # Errors
    /// When it has not been started.
    pub fn program(&mut self) -> Result<&mut Program> {
        self.main.as_mut().context("the pod does not run")
    }

    /// Asks the main container to end, and waits for it.
    ///
    /// # Errors
    /// When it does not run.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        self.program()?.stop()
    }

    /// Runs a command in the main container's place, as `kubectl exec` does. Returns how it ended, and what
    /// it said.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn exec(&mut self, node: &Namespace, command: &[&str]) -> Result<(ExitStatus, String)> {
        let mut container = self.spec.main.clone();
        container.command = command.iter().map(|&word| word.to_owned()).collect();
        let mut program = self.launch(node, &container)?;
        let status = program.wait()?;
        Ok((status, fs::read_to_string(self.log_of(self.starts))?))
    }

    /// What it is to run.
    #[must_use]
    pub const fn spec(&self) -> &PodSpec {
        &self.spec
    }

    /// Sends a probe, as the kubelet of the node.
    ///
    /// # Errors
    /// When the probe cannot be answered.
    pub fn probe(&self, probe: &HttpProbe) -> Result<u16> {
        probe.send(&self.namespace)
    }

    /// Changes a ConfigMap as a kubelet does.
    ///
    /// # Errors
    /// When the pod has no such ConfigMap.
    pub fn change_config(&mut self, name: &str, data: &BTreeMap<String, String>) -> Result<()> {
        let folder = self.config.get_mut(name);
        folder.context("no such ConfigMap")?.swap(data)
    }

    /// Gives the pod another token.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn change_token(&mut self, token: &str, authority: &str) -> Result<()> {
        self.account.swap(&account_files(token, authority))
    }

    /// Everything that its containers have logged so far.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String> {
        let mut text = String::new();
        for start in 1..=self.starts {
            text += &fs::read_to_string(self.log_of(start))?;
        }
        Ok(text)
    }

    fn log_of(&self, start: u32) -> PathBuf {
        self.folder.path().join(format!("{start}.log"))
    }

    fn launch(&mut self, node: &Namespace, container: &Container) -> Result<Program> {
        self.starts += 1;
        let root = self.folder.path().join(format!("root-{}", self.starts));
        fs::create_dir(&root)?;
        let mut mounts = self.image(container)?;
        for (volume, target, read_only) in &container.mounts {
            let source = self.volume(volume)?;
            mounts.push(Mount::new(source, target, *read_only));
        }
        mounts.push(Mount::new(self.account.path(), ACCOUNT, true));
        let sandbox = Sandbox {
            root,
            mounts,
            command: container.command_on(&self.node_name)?,
            environment: container.environment_on(&self.node_name)?,
            security: container.security.clone(),
            oom_score_adj: self.spec.oom_score_adj(),
        };
        let mut command = Command::new(&self.programs.sandbox);
        command.arg(serde_json::to_string(&sandbox)?);
        Program::start(node, command, &self.log_of(self.starts))
    }

    /// What stands for the image: the program at the path of the command, and what it is linked with.
    fn image(&self, container: &Container) -> Result<Vec<Mount>> {
        let program = container.command.first().context("no command")?;
        if let Some(image) = &self.programs.image {
            let entries = fs::read_dir(image)?.collect::<Result<Vec<_>, _>>()?;
            let mounts = entries.iter().map(|entry| {
                let target = Path::new("/").join(entry.file_name());
                Mount::new(entry.path(), target, true)
            });
            return Ok(mounts.collect());
        }
        let mut mounts = vec![Mount::new(&self.programs.kproxy, program, true)];
        let mut libraries: Vec<_> = ["/lib64", "/usr/lib64"].map(PathBuf::from).into();
        // Not /lib itself: pods mount the node's modules there.
        for folder in ["/lib", "/usr/lib"] {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                if path.to_string_lossy().ends_with("-linux-gnu") {
                    libraries.push(path);
                }
            }
        }
        let libraries = libraries.into_iter().filter(|path| path.is_dir());
        mounts.extend(libraries.map(|path| Mount::new(&path, &path, true)));
        Ok(mounts)
    }

    /// A folder or file of the node.
    fn volume(&self, name: &str) -> Result<PathBuf> {
        let volume = self.spec.volumes.get(name);
        match volume.with_context(|| format!("no volume {name}"))? {
            spec::Volume::ConfigMap(name) => {
                let folder = self.config.get(name).context("no such ConfigMap")?;
                Ok(folder.path().to_owned())
            }
            spec::Volume::Host { path, is_file } => {
                // The node is this machine as far as the network goes; its files are its own.
                let relative = path.strip_prefix("/").unwrap_or(path);
                let ours = self.folder.path().join("host").join(relative);
                if *is_file {
                    fs::create_dir_all(ours.parent().unwrap_or(&ours))?;
                    fs::OpenOptions::new()
                        .create(true)
                        .append(true)
                        .open(&ours)?;
                } else {
                    fs::create_dir_all(&ours)?;
                }
                Ok(ours)
            }
        }
    }
}

fn account_files(token: &str, authority: &str) -> BTreeMap<String, String> {
    let files = [
        ("token", token),
        ("ca.crt", authority),
        ("namespace", "kube-system"),
    ];
    files
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .into()
}
