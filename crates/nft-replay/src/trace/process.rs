//! Sockets and processes behind a thread's numbers.

use std::fs;

use nix::unistd::Pid;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::sockopt::{socket_domain, socket_protocol};
use rustix::net::{AddressFamily, getsockname};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

/// Port id of the thread's socket `fd`, if it is one of nfnetlink; 0 before it is bound.
pub(super) fn nfnetlink_port(thread: Pid, process: Pid, fd: u64) -> Option<u32> {
    let fd = i32::try_from(fd).ok()?;
    // Descriptors of sockets alone are looked at more closely.
    let link = fs::read_link(format!("/proc/{thread}/fd/{fd}")).ok()?;
    if !link.to_string_lossy().starts_with("socket:") {
        return None;
    }
    let process = rustix::process::Pid::from_raw(process.as_raw())?;
    let process = pidfd_open(process, PidfdFlags::empty()).ok()?;
    // Closed again at the end of this function.
    let socket = pidfd_getfd(&process, fd, PidfdGetfdFlags::empty()).ok()?;
    if socket_domain(&socket).ok()? != AddressFamily::NETLINK
        || socket_protocol(&socket).ok()? != Some(netlink::NETFILTER)
    {
        return None;
    }
    let address = SocketAddrNetlink::try_from(getsockname(&socket).ok()?).ok()?;
    Some(address.pid())
}

/// The process a thread belongs to.
pub(super) fn process_of(thread: Pid) -> Pid {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).unwrap_or_default();
    let leader = status
        .lines()
        .find_map(|line| line.strip_prefix("Tgid:"))
        .and_then(|id| id.trim().parse().ok());
    leader.map_or(thread, Pid::from_raw)
}
