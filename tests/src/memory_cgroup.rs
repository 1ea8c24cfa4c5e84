//! Little memory: a memory cgroup of version 1 or 2, whichever the machine has. Kernel memory counts, the
//! rows of sets included.

use core::time::Duration;
use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{self, Command},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};

/// How long those in a cgroup may take to be gone.
const PATIENCE: Duration = Duration::from_secs(20);

/// What differs between the versions.
#[derive(Debug, Clone, Copy)]
struct Files {
    limit: &'static str,
    unlimited: &'static str,
    usage: &'static str,
    /// Counts those killed.
    kills: &'static str,
    /// Includes swapped memory; not there where nothing can be swapped.
    swap: &'static str,
}

const FIRST: Files = Files {
    limit: "memory.limit_in_bytes",
    unlimited: "-1",
    usage: "memory.usage_in_bytes",
    kills: "memory.oom_control",
    swap: "memory.swappiness",
};
const SECOND: Files = Files {
    limit: "memory.max",
    unlimited: "max",
    usage: "memory.current",
    kills: "memory.events",
    swap: "memory.swap.max",
};

/// See the module. Removed when dropped, once those in it are gone.
#[derive(Debug)]
pub struct MemoryCgroup {
    folder: PathBuf,
    files: Files,
    /// Version 1.
    threads: Option<Threads>,
}

/// Lists of threads, to be written to. They are kept open: opening a file takes memory of the cgroup.
#[derive(Debug)]
struct Threads {
    /// Of the cgroup.
    here: File,
    /// Where this process is.
    home: File,
}

impl MemoryCgroup {
    /// Makes one without a limit.
    ///
    /// # Errors
    /// When the machine has none, or they may not be made.
    pub fn new(name: &str) -> Result<Self> {
        let mounts = fs::read_to_string("/proc/self/mounts")?;
        let (parent, is_first) = parent(&mounts).context("no memory cgroups are mounted")?;
        let folder = parent.join(format!("kproxy-test-{}-{name}", process::id()));
        if !is_first {
            let controllers = fs::read_to_string(parent.join("cgroup.controllers"))?;
            if !controllers.split_whitespace().any(|it| it == "memory") {
                bail!("cgroups without a memory controller: {controllers}");
            }
            fs::write(parent.join("cgroup.subtree_control"), "+memory")
                .context("memory cgroups cannot be used")?;
        }
        fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
        let mut made = Self {
            folder,
            files: if is_first { FIRST } else { SECOND },
            threads: None,
        };
        if is_first {
            let open = |path: PathBuf| {
                let opened = File::options().write(true).open(&path);
                opened.with_context(|| path.display().to_string())
            };
            made.threads = Some(Threads {
                here: open(made.file("tasks"))?,
                home: open(home(&parent)?)?,
            });
        }
        if made.file(made.files.swap).exists() {
            fs::write(made.file(made.files.swap), "0")?;
        }
        Ok(made)
    }

    /// Those in it get no more than so many bytes.
    ///
    /// # Errors
    /// When the limit cannot be set.
    pub fn limit(&self, bytes: u64) -> io::Result<()> {
        fs::write(self.file(self.files.limit), bytes.to_string())
    }

    /// As many as they like.
    ///
    /// # Errors
    /// When the limit cannot be set.
    pub fn unlimited(&self) -> io::Result<()> {
        fs::write(self.file(self.files.limit), self.files.unlimited)
    }

    /// Bytes in use.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn usage(&self) -> Result<u64> {
        let text = fs::read_to_string(self.file(self.files.usage))?;
        Ok(text.trim().parse()?)
    }

    /// How many processes were killed for want of memory.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn kills(&self) -> Result<u64> {
        let text = fs::read_to_string(self.file(self.files.kills))?;
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        Ok(count.context("no oom_kill")?.parse()?)
    }

    /// Has whoever wants too much be told so (ENOMEM) instead of killed; false if that cannot be: version 2.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn refuse_instead_of_killing(&self) -> io::Result<bool> {
        if self.threads.is_some() {
            fs::write(self.file("memory.oom_control"), "1")?;
        }
        Ok(self.threads.is_some())
    }

    /// Calls `f` with the calling thread in the cgroup, with version 1. Kernel memory is limited then; user
    /// memory is not, as that is counted where the process is.
    ///
    /// # Errors
    /// When the thread cannot go there and back.
    pub fn within<T>(&self, f: impl FnOnce() -> T) -> io::Result<T> {
        let Some(Threads { here, home }) = &self.threads else {
            return Ok(f());
        };
        let id = rustix::thread::gettid().as_raw_nonzero().to_string();
        here.write_all_at(id.as_bytes(), 0)?;
        let done = f();
        home.write_all_at(id.as_bytes(), 0)?;
        Ok(done)
    }

    /// The command, to be run in it.
    #[must_use]
    pub fn holding(&self, command: &Command) -> Command {
        let mut held = Command::new("sh");
        let mut script = OsString::from("echo $$ > ");
        script.push(self.file("cgroup.procs"));
        script.push(" && exec \"$@\"");
        held.arg("-c").arg(script).arg("sh");
        held.arg(command.get_program()).args(command.get_args());
        held
    }

    /// Waits until nobody is in it, and removes it.
    ///
    /// # Errors
    /// When somebody stays, or it cannot be removed.
    pub fn remove(&self) -> Result<()> {
        let started = Instant::now();
        // A process that was waited for may be there for a moment; there is no event for it.
        while let Err(error) = fs::remove_dir(&self.folder) {
            if error.kind() == io::ErrorKind::NotFound {
                return Ok(());
            }
            ensure!(
                started.elapsed() < PATIENCE,
                "{}: {error}",
                self.folder.display()
            );
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

impl Drop for MemoryCgroup {
    fn drop(&mut self) {
        // What cannot be removed is left behind empty.
        let _ = self.remove();
    }
}

/// The list of threads of this process's cgroup of version 1.
fn home(root: &Path) -> Result<PathBuf> {
    let groups = fs::read_to_string("/proc/self/cgroup")?;
    let own = groups.lines().find_map(|line| {
        let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
        controllers
            .split(',')
            .any(|it| it == "memory")
            .then_some(path)
    });
    let own = own.context("this process is in no memory cgroup")?;
    let tasks = root.join(own.trim_start_matches('/')).join("tasks");
    // In a container the root may be this process's own.
    Ok(if tasks.exists() {
        tasks
    } else {
        root.join("tasks")
    })
}

/// Where memory cgroups are made, and whether those are of version 1.
fn parent(mounts: &str) -> Option<(PathBuf, bool)> {
    let found = |kind: &str, option: Option<&str>| {
        mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let (_, place, of, options) =
                (words.next()?, words.next()?, words.next()?, words.next()?);
            let has = option.is_none_or(|option| options.split(',').any(|it| it == option));
            (of == kind && has).then(|| Path::new(place).to_owned())
        })
    };
    let first = found("cgroup", Some("memory")).map(|place| (place, true));
    first.or_else(|| Some((found("cgroup2", None)?, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_found() {
        let hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                      cgroup /sys/fs/cgroup/memory cgroup rw,relatime,memory 0 0\n\
                      cgroup2 /sys/fs/cgroup/unified cgroup2 rw,relatime 0 0\n";
        let place = Path::new("/sys/fs/cgroup/memory").to_owned();
        assert_eq!(parent(hybrid), Some((place, true)));
        let unified = "cgroup2 /sys/fs/cgroup cgroup2 rw,nosuid 0 0\n";
        let place = Path::new("/sys/fs/cgroup").to_owned();
        assert_eq!(parent(unified), Some((place, false)));
        assert_eq!(parent("proc /proc proc rw 0 0\n"), None);
    }
}
