//! Listening sockets.

use core::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::io;
use std::net::TcpListener as StdListener;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};
use tokio::net::TcpListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Whose connections a wildcard address takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wildcard {
    /// Those of its family, so that one of each family can have the same port.
    Family,
    /// Those of both families, as in Go: 0.0.0.0 means every address of the host.
    Both,
}

/// Listens on an address.
pub(super) fn listener(address: SocketAddr, wildcard: Wildcard) -> io::Result<TcpListener> {
    TcpListener::from_std(bound(address, wildcard)?)
}

/// Listens on an address of the pages of a process.
pub(crate) fn site(address: SocketAddr) -> io::Result<StdListener> {
    bound(address, Wildcard::Both)
}

fn bound(address: SocketAddr, wildcard: Wildcard) -> io::Result<StdListener> {
    if wildcard == Wildcard::Family || !address.ip().is_unspecified() {
        return open(address, true);
    }
    let any = SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port());
    match open(any, false) {
        // A kernel without IPv6.
        Err(error) if has_no_ipv6(&error) => open(address, true),
        opened => opened,
    }
}

fn has_no_ipv6(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    error == Some(Errno::AFNOSUPPORT) || error == Some(Errno::ADDRNOTAVAIL)
}

fn open(address: SocketAddr, v6only: bool) -> io::Result<StdListener> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // Connections of a former listener may still be closing.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, v6only)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    Ok(StdListener::from(socket))
}
