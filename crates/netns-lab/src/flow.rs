use core::{net::SocketAddr, time::Duration};
use std::os::fd::OwnedFd;

use rustix::net::SocketType;

use crate::{
    error::LabError,
    probe::{Verdict, ask, connect},
    socket::{self, Deadline, SourcePorts},
};

/// A UDP flow: datagrams from one port to one address, for as long as it is kept. The first one
/// decides where connection tracking sends all of them.
#[derive(Debug)]
pub struct Flow {
    socket: OwnedFd,
}

impl Flow {
    pub(crate) fn open(to: SocketAddr, ports: &SourcePorts) -> Result<Self, LabError> {
        let socket = socket::open(to.ip(), SocketType::DGRAM, None)?;
        ports.bind(&socket, to.ip())?;
        connect(&socket, to)?;
        Ok(Self { socket })
    }

    /// Sends a datagram and tells what became of it. An answer to an earlier one that comes late
    /// counts.
    ///
    /// # Errors
    /// When the socket fails; a refused or lost datagram is a verdict.
    pub fn ask(&self, deadline: Duration) -> Result<Verdict, LabError> {
        ask(&self.socket, Deadline::after(deadline))
    }
}
