//! Connections that are kept open while things change: of TCP, or associations of SCTP.

use core::time::Duration;
use std::io;

use anyhow::{Result, bail};
use netns_lab::{Association, Connection, Probe, Topology, Transport};

/// See the module.
#[derive(Debug)]
pub enum Kept {
    /// A TCP connection.
    Tcp(Connection),
    /// An SCTP association.
    Sctp(Association),
}

impl Kept {
    /// Opens one from a host of the laboratory.
    ///
    /// # Errors
    /// When it is not made within the deadline, or the protocol knows no connections.
    pub fn open(topology: &Topology, from: &str, probe: Probe, deadline: Duration) -> Result<Self> {
        Ok(match probe.transport {
            Transport::Tcp => Self::Tcp(topology.connect(from, probe.to, deadline)?),
            Transport::Sctp => Self::Sctp(topology.associate(from, probe.to, deadline)?),
            other => bail!("{other} knows no connections"),
        })
    }

    /// Sends `text` and waits until the same comes back.
    ///
    /// # Errors
    /// When it is broken, or the time is over.
    pub fn echo(&mut self, text: &[u8], deadline: Duration) -> io::Result<()> {
        match self {
            Self::Tcp(connection) => connection.echo(text, deadline),
            Self::Sctp(association) => association.echo(text, deadline),
        }
    }
}
