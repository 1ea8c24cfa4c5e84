//! kproxy as a program that watches the API server.

use core::time::Duration;
use std::{fs, path::Path, process::Command, time::Instant};

use anyhow::{Result, bail};
use netns_lab::Namespace;
use nft_batch::{Connection, EventError, Events};

use super::{ControlPlane, RELAYED, marker::has_row, relay::Relay};
use crate::{folder::Folder, program::Program};

/// How long it may take to program a change.
const PATIENCE: Duration = Duration::from_secs(60);
/// Its map of frontends that have endpoints; a bigger one has the next name.
const FRONTENDS: [&str; 4] = ["services", "services-1", "services-2", "services-3"];

/// See the module. Ended when dropped, its rules stay.
#[derive(Debug)]
pub struct KproxyProgram {
    program: Program,
    connection: Connection,
    events: Events,
    _relay: Relay,
    _folder: Folder,
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
        let mut command = Command::new(kproxy);
        command
            .args(["run", "-v", "--source", "api", "--kubeconfig"])
            .arg(&kubeconfig)
            .arg("--state-dir")
            .arg(folder.path().join("state"))
            .args(arguments);
        Ok(Self {
            connection: node.run(Connection::open)??,
            events: node.run(Events::open)??,
            program: Program::start(node, command, &folder.path().join("kproxy.log"))?,
            _relay: relay,
            _folder: folder,
        })
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
                    for map in FRONTENDS {
                        row |= has_row(&mut self.connection, map, *family, key)?;
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
