//! What a container may see and do; the program `pod-sandbox` makes it so.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use nix::{
    mount::{MsFlags, mount},
    sched::{CloneFlags, unshare},
};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capability_is_in_bounding_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::spec::only;

/// A container about to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Sandbox {
    /// An empty folder that becomes `/`.
    pub root: PathBuf,
    /// What is mounted there.
    pub mounts: Vec<Mount>,
    /// Program and arguments.
    pub command: Vec<String>,
    /// All of its environment.
    pub environment: BTreeMap<String, String>,
    /// What it may do.
    pub(super) security: Security,
    /// How likely the kernel is to end it when memory runs out.
    pub oom_score_adj: i32,
}

/// A folder or file at another place.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Mount {
    source: PathBuf,
    target: PathBuf,
    read_only: bool,
}

/// What a container's `securityContext` says.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Security {
    privileged: bool,
    read_only_root: bool,
    no_new_privileges: bool,
    /// As `drop: [ALL]` and `add` say.
    capabilities: Vec<String>,
}

/// What containers may do by default (containerd, `pkg/oci/spec.go`).
const DEFAULT_CAPABILITIES: [&str; 14] = [
    "CHOWN",
    "DAC_OVERRIDE",
    "FSETID",
    "FOWNER",
    "MKNOD",
    "NET_RAW",
    "SETGID",
    "SETUID",
    "SETFCAP",
    "SETPCAP",
    "NET_BIND_SERVICE",
    "SYS_CHROOT",
    "KILL",
    "AUDIT_WRITE",
];

impl Mount {
    /// A folder or file, seen at `target`.
    pub fn new(source: impl AsRef<Path>, target: impl AsRef<Path>, read_only: bool) -> Self {
        Self {
            source: source.as_ref().to_owned(),
            target: target.as_ref().to_owned(),
            read_only,
        }
    }
}

impl Security {
    pub(super) fn of(context: &Json) -> Result<Self> {
        only(
            context,
            &[
                "privileged",
                "readOnlyRootFilesystem",
                "allowPrivilegeEscalation",
                "capabilities",
                "seccompProfile",
            ],
        )?;
        let names = |list: &Json| -> Vec<String> {
            let list = list.as_array().into_iter().flatten();
            list.filter_map(|name| Some(name.as_str()?.to_owned()))
                .collect()
        };
        let dropped = names(&context["capabilities"]["drop"]);
        ensure!(
            dropped.is_empty() || dropped == ["ALL"],
            "drop: {dropped:?}"
        );
        let mut capabilities = names(&context["capabilities"]["add"]);
        if dropped.is_empty() {
            capabilities.extend(DEFAULT_CAPABILITIES.map(str::to_owned));
        }
        Ok(Self {
            privileged: context["privileged"] == true,
            read_only_root: context["readOnlyRootFilesystem"] == true,
            no_new_privileges: context["allowPrivilegeEscalation"] == false,
            capabilities,
        })
    }

    fn capabilities(&self) -> Result<CapabilitySet> {
        let mut set = CapabilitySet::empty();
        for name in &self.capabilities {
            set |= CapabilitySet::from_name(name).with_context(|| format!("capability {name}"))?;
        }
        Ok(set)
    }
}

impl Sandbox {
    /// Confines this process, which must have a single thread, and becomes the program. Does not
    /// return otherwise.
    ///
    /// # Errors
    /// When the kernel refuses something, or the program cannot be started.
    pub fn enter(&self) -> Result<()> {
        self.rank();
        self.mount_all()?;
        std::os::unix::fs::chroot(&self.root).context("chroot")?;
        std::env::set_current_dir("/")?;
        if !self.security.privileged {
            drop_capabilities(self.security.capabilities()?)?;
        }
        if self.security.no_new_privileges {
            set_no_new_privs(true)?;
        }
        let (program, arguments) = self.command.split_first().context("no command")?;
        let failed = Command::new(program)
            .args(arguments)
            .env_clear()
            .envs(&self.environment)
            .exec();
        Err(failed).with_context(|| program.clone())
    }

    /// For the OOM killer, if this process may: not where it is a container itself.
    fn rank(&self) {
        let text = self.oom_score_adj.to_string();
        if let Err(error) = fs::write("/proc/self/oom_score_adj", text) {
            eprintln!("pod-sandbox: oom_score_adj {}: {error}", self.oom_score_adj);
        }
    }

    fn mount_all(&self) -> Result<()> {
        unshare(CloneFlags::CLONE_NEWNS).context("a mount namespace")?;
        let nothing = None::<&str>;
        let private = MsFlags::MS_REC | MsFlags::MS_PRIVATE;
        mount(nothing, "/", nothing, private, nothing).context("private mounts")?;
        bind(&self.root, &self.root, false)?;
        for mount in &self.mounts {
            let target = self.inside(&mount.target);
            if mount.source.is_dir() {
                fs::create_dir_all(&target)?;
            } else {
                fs::create_dir_all(target.parent().unwrap_or(&target))?;
                File::options().create(true).append(true).open(&target)?;
            }
            bind(&mount.source, &target, mount.read_only)?;
        }
        for device in ["/dev/null", "/dev/urandom"] {
            let target = self.inside(Path::new(device));
            fs::create_dir_all(target.parent().unwrap_or(&target))?;
            File::options().create(true).append(true).open(&target)?;
            bind(Path::new(device), &target, false)?;
        }
        for (kind, at) in [("proc", "/proc"), ("sysfs", "/sys")] {
            let target = self.inside(Path::new(at));
            fs::create_dir_all(&target)?;
            mount(Some(kind), &target, Some(kind), MsFlags::empty(), nothing)
                .with_context(|| format!("mount {kind}"))?;
        }
        // /sys is this machine's, whatever the container may do. What is below /proc/sys/net belongs
        // to the node's namespace.
        bind(
            &self.inside(Path::new("/sys")),
            &self.inside(Path::new("/sys")),
            true,
        )?;
        let sysctl = self.inside(Path::new("/proc/sys"));
        bind(&sysctl, &sysctl, !self.security.privileged)?;
        if self.security.read_only_root {
            remount_read_only(&self.root)?;
        }
        Ok(())
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}

fn bind(source: &Path, target: &Path, read_only: bool) -> Result<()> {
    let nothing = None::<&str>;
    let flags = MsFlags::MS_BIND | MsFlags::MS_REC;
    mount(Some(source), target, nothing, flags, nothing)
        .with_context(|| format!("bind {} to {}", source.display(), target.display()))?;
    if read_only {
        remount_read_only(target)?;
    }
    Ok(())
}

fn remount_read_only(target: &Path) -> Result<()> {
    let nothing = None::<&str>;
    let flags = MsFlags::MS_REMOUNT | MsFlags::MS_BIND | MsFlags::MS_RDONLY;
    mount(nothing, target, nothing, flags, nothing)
        .with_context(|| format!("make {} read-only", target.display()))
}

/// What root keeps when it runs a program is what the bounding set has.
fn drop_capabilities(kept: CapabilitySet) -> Result<()> {
    for capability in CapabilitySet::all().iter() {
        if !kept.contains(capability) && capability_is_in_bounding_set(capability).unwrap_or(false)
        {
            remove_capability_from_bounding_set(capability)
                .with_context(|| format!("drop {capability:?}"))?;
        }
    }
    let sets = CapabilitySets {
        effective: kept,
        permitted: kept,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets).context("drop capabilities")
}
