use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::atomic::{AtomicU16, Ordering},
    time::Duration,
};
use std::{
    io,
    os::fd::{AsFd, OwnedFd},
    time::Instant,
};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    net::{AddressFamily, Protocol, SocketFlags, SocketType, socket_with},
};

use crate::error::{Doing as _, LabError};

/// A point in time until which to wait.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline(Instant);

impl Deadline {
    pub(crate) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    /// Whether it has come.
    pub(crate) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }

    /// Waits until one of the events (or an error) happens; nothing means the time is over.
    pub(crate) fn wait(self, socket: impl AsFd, events: PollFlags) -> io::Result<PollFlags> {
        loop {
            let left = self.0.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            let mut fds = [PollFd::new(&socket, events)];
            match poll(&mut fds, Some(&left)) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(_) => return Ok(fds[0].revents()),
            }
        }
    }
}

const fn any_address(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

/// Opens a non-blocking socket of the family of `like`, which queues the ICMP errors it gets.
pub(crate) fn open(
    like: IpAddr,
    kind: SocketType,
    protocol: Option<Protocol>,
) -> Result<OwnedFd, LabError> {
    let family = if like.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, kind, flags, protocol).doing("open a socket")?;
    if like.is_ipv4() {
        setsockopt(&socket, sockopt::Ipv4RecvErr, &true).doing("ask for ICMP errors")?;
    } else {
        setsockopt(&socket, sockopt::Ipv6RecvErr, &true).doing("ask for ICMP errors")?;
    }
    Ok(socket)
}

/// Source ports, each given out once before one comes again: a flow that looks like one of moments
/// ago is no new flow to connection tracking, and goes where that went.
#[derive(Debug)]
pub(crate) struct SourcePorts(AtomicU16);

impl SourcePorts {
    /// Above node ports and whatever hosts serve.
    const FIRST: u16 = 33_000;

    pub(crate) const fn new() -> Self {
        Self(AtomicU16::new(Self::FIRST))
    }

    fn next(&self) -> u16 {
        let step = |port: u16| Some(port.checked_add(1).unwrap_or(Self::FIRST));
        match self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, step)
        {
            Ok(port) | Err(port) => port,
        }
    }

    /// Binds a socket of the family of `like` to the next port that is free; returns it.
    pub(crate) fn bind(&self, socket: impl AsFd, like: IpAddr) -> Result<u16, LabError> {
        loop {
            let port = self.next();
            match rustix::net::bind(&socket, &SocketAddr::new(any_address(like), port)) {
                Ok(()) => return Ok(port),
                Err(Errno::ADDRINUSE) => {}
                Err(errno) => return Err(errno).doing("bind a socket"),
            }
        }
    }
}

/// Takes the IPv4-mapped form out of the way.
pub(crate) const fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
