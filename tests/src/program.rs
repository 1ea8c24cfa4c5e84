//! Programs in network namespaces.

use core::time::Duration;
use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
};

use anyhow::{Context as _, Result, bail};
use netns_lab::Namespace;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open},
};

/// How long it may take to end when asked to.
const GRACE: Duration = Duration::from_secs(10);
/// How long it may take to end by itself.
const PATIENCE: Duration = Duration::from_secs(120);
/// Lines shown of a log.
const TAIL: usize = 20;

/// A program. Ended when dropped; killed by the kernel should this process be.
#[derive(Debug)]
pub struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    /// Starts a program whose output goes to the file `log`, behind what is there.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(namespace: &Namespace, command: Command, log: &Path) -> Result<Self> {
        let name = command.get_program().to_string_lossy().into_owned();
        // The parent is the namespace's thread, which ends with the namespace.
        let mut guarded = Command::new("setpriv");
        guarded
            .args(["--pdeathsig", "KILL", "--"])
            .arg(command.get_program())
            .args(command.get_args());
        for (key, value) in command.get_envs() {
            match value {
                Some(value) => guarded.env(key, value),
                None => guarded.env_remove(key),
            };
        }
        let file = File::options().create(true).append(true).open(log)?;
        guarded
            .stdin(Stdio::null())
            .stdout(file.try_clone()?)
            .stderr(file);
        let child = namespace
            .run(move || guarded.spawn())?
            .with_context(|| format!("start {name}"))?;
        Ok(Self {
            child,
            log: log.to_owned(),
        })
    }

    /// Number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        Ok(self.child.try_wait()?)
    }

    /// Waits a while for it to end; how it ended, if it has.
    ///
    /// # Errors
    /// When it cannot be waited for.
    pub fn ended_within(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        match self.child.try_wait()? {
            None if self.ends_within(limit)? => Ok(Some(self.child.wait()?)),
            ended => Ok(ended),
        }
    }

    /// All of its log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn log(&self) -> Result<String> {
        fs::read_to_string(&self.log).with_context(|| self.log.display().to_string())
    }

    /// The end of its log.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn tail(&self) -> Result<String> {
        let log = self.log()?;
        let lines: Vec<_> = log.lines().collect();
        let from = lines.len().saturating_sub(TAIL);
        Ok(lines.get(from..).unwrap_or_default().join("\n"))
    }

    /// Kills it, whatever it is doing.
    ///
    /// # Errors
    /// When it cannot be killed or waited for.
    pub fn kill(&mut self) -> Result<ExitStatus> {
        self.child.kill()?;
        Ok(self.child.wait()?)
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// When it cannot be waited for, or does not end.
    pub fn wait(&mut self) -> Result<ExitStatus> {
        if self.child.try_wait()?.is_none() && !self.ends_within(PATIENCE)? {
            bail!("it does not end:\n{}", self.tail()?);
        }
        Ok(self.child.wait()?)
    }

    /// Asks it to end and waits until it has; kills it when it does not.
    ///
    /// # Errors
    /// When it cannot be signalled or waited for.
    pub fn stop(&mut self) -> Result<ExitStatus> {
        if self.child.try_wait()?.is_none() {
            kill_process(self.pid()?, Signal::TERM)?;
            if !self.ends_within(GRACE)? {
                self.child.kill()?;
            }
        }
        Ok(self.child.wait()?)
    }

    /// Its process, until it was waited for.
    fn pid(&self) -> Result<Pid> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?);
        pid.context("no process")
    }

    fn ends_within(&self, limit: Duration) -> Result<bool> {
        let gone = pidfd_open(self.pid()?, PidfdFlags::empty())?;
        let mut descriptors = [PollFd::new(&gone, PollFlags::IN)];
        Ok(poll(&mut descriptors, Some(&Timespec::try_from(limit)?))? > 0)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // What cannot be stopped here is killed when its namespace ends.
        let _ = self.stop();
    }
}
