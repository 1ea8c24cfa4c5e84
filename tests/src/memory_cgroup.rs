//! Programs with little memory: a memory cgroup of version 1 or 2, whichever the machine has.

use std::{
    ffi::OsString,
    fs, io,
    path::{Path, PathBuf},
    process::{self, Command},
};

use anyhow::{Context as _, Result, bail};

/// Where cgroups are.
const ROOT: &str = "/sys/fs/cgroup";

/// See the module. Removed when dropped, once its programs have ended.
#[derive(Debug)]
pub struct MemoryCgroup {
    folder: PathBuf,
    /// File that holds the limit.
    limit: &'static str,
    /// File that counts those killed.
    kills: &'static str,
}

impl MemoryCgroup {
    /// Makes one.
    ///
    /// # Errors
    /// When the machine has none, or they may not be made.
    pub fn new(name: &str) -> Result<Self> {
        let name = format!("kproxy-test-{}-{name}", process::id());
        let root = Path::new(ROOT);
        let first = root.join("memory");
        let (parent, limit, kills) = if first.join("memory.limit_in_bytes").exists() {
            (first, "memory.limit_in_bytes", "memory.oom_control")
        } else {
            let controllers =
                fs::read_to_string(root.join("cgroup.controllers")).context("no memory cgroups")?;
            if !controllers.split_whitespace().any(|it| it == "memory") {
                bail!("no memory cgroups: {controllers}");
            }
            fs::write(root.join("cgroup.subtree_control"), "+memory")
                .context("memory cgroups cannot be used")?;
            (root.to_owned(), "memory.max", "memory.events")
        };
        let folder = parent.join(name);
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        Ok(Self {
            folder,
            limit,
            kills,
        })
    }

    /// Programs in it get no more than so many bytes, kernel memory included.
    ///
    /// # Errors
    /// When the limit cannot be set.
    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        fs::write(self.folder.join(self.limit), bytes.to_string())
    }

    /// How many programs were killed for want of memory.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn kills(&self) -> Result<u64> {
        let text = fs::read_to_string(self.folder.join(self.kills))?;
        let mut lines = text.lines();
        let count = lines.find_map(|line| line.strip_prefix("oom_kill "));
        Ok(count.context("no oom_kill")?.parse()?)
    }

    /// The command, to be run in it.
    #[must_use]
    pub fn holding(&self, command: &Command) -> Command {
        let mut held = Command::new("sh");
        let mut script = OsString::from("echo $$ > ");
        script.push(self.folder.join("cgroup.procs"));
        script.push(" && exec \"$@\"");
        held.arg("-c").arg(script).arg("sh");
        held.arg(command.get_program()).args(command.get_args());
        held
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // Left behind empty if something in it still ends.
        let _ = fs::remove_dir(&self.folder);
    }
}
