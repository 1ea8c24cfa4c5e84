//! kproxy as a program that watches the API server.

use core::time::Duration;
use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use anyhow::{Result, bail};
use netns_lab::Namespace;
use nft_batch::{Connection, EventError, Events};

use super::{ControlPlane, RELAYED, marker::has_row, relay::Relay};
use crate::{folder::Folder, program::Program};

/// How long it may take to program a change.
const PATIENCE: Duration = Duration::from_secs(60);
/// Its map of frontends that have endpoints.
const FRONTENDS: &str = "services";
/// A bigger one, or that of a later take-over, has the next name.
const NAMES: usize = 32;

/// See the module. Ended when dropped, its rules stay.
#[derive(Debug)]
pub struct KproxyProgram {
    program: Program,
    connection: Connection,
    events: Events,
    kproxy: PathBuf,
    arguments: Vec<String>,
    _relay: Relay,
    folder: Folder,
}

impl KproxyProgram {
    /// Starts it in a node's namespace, with more arguments.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(
        control: &ControlPlane,
        node: &Namespace,
        kproxy: &Path,
        arguments: &[String],
    ) -> Result<Self> {
        let folder = Folder::new()?;
        let relay = control.relay_to(node)?;
        let kubeconfig = folder.path().join("kubeconfig");
        fs::write(&kubeconfig, ControlPlane::kubeconfig(RELAYED).to_string())?;
        Ok(Self {
            connection: node.run(Connection::open)??,
            events: node.run(Events::open)??,
            program: launch(node, kproxy, &folder, arguments)?,
            kproxy: kproxy.to_owned(),
            arguments: arguments.to_vec(),
            _relay: relay,
            folder,
        })
    }

    /// Ends it, as an orderly end or a crash would; its rules and its state stay.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub fn end(&mut self, crash: bool) -> Result<()> {
        if crash {
            self.program.kill()?;
        } else {
            self.program.stop()?;
        }
        Ok(())
    }

    /// Starts it again, after [`Self::end`].
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start_again(&mut self, node: &Namespace) -> Result<()> {
        self.program = launch(node, &self.kproxy, &self.folder, &self.arguments)?;
        Ok(())
    }

    /// Waits until everything written to the API server so far is programmed.
    ///
    /// # Errors
    /// When it ends or does not get there.
    pub fn settle(&mut self, control: &ControlPlane) -> Result<()> {
        // As for kube-proxy: what arrived before the second marker was taken before it.
        for _ in 0..2 {
            let frontends = control.mark()?;
            let deadline = Instant::now() + PATIENCE;
            loop {
                let mut there = true;
                for (family, key) in &frontends {
                    let mut row = false;
                    for number in 0..NAMES {
                        let map = match number {
                            0 => FRONTENDS.to_owned(),
                            _ => format!("{FRONTENDS}-{number}"),
                        };
                        row |= has_row(&mut self.connection, &map, *family, key)?;
                    }
                    there &= row;
                }
                if there {
                    break;
                }
                if let Some(status) = self.program.ended()? {
                    bail!("kproxy ended, {status}:\n{}", self.program.tail()?);
                }
                let look = Instant::now() + Duration::from_secs(1);
                match self.events.next_group(Some(look.min(deadline))) {
                    // However much happens meanwhile.
                    Ok(_) | Err(EventError::Overrun | EventError::TimedOut)
                        if Instant::now() < deadline => {}
                    Ok(_) => bail!(
                        "kproxy has not programmed the marker in {PATIENCE:?}\n{}",
                        self.program.tail()?
                    ),
                    Err(error) => bail!(
                        "kproxy has not programmed the marker: {error}\n{}",
                        self.program.tail()?
                    ),
                }
            }
        }
        Ok(())
    }
}

fn launch(
    node: &Namespace,
    kproxy: &Path,
    folder: &Folder,
    arguments: &[String],
) -> Result<Program> {
    let mut command = Command::new(kproxy);
    command
        .args(["run", "-v", "--source", "api", "--kubeconfig"])
        .arg(folder.path().join("kubeconfig"))
        .arg("--state-dir")
        .arg(folder.path().join("state"))
        .args(arguments);
    Program::start(node, command, &folder.path().join("kproxy.log"))
}
