//! Listening sockets.

use core::net::{IpAddr, SocketAddr};
use std::io;
use std::net::TcpListener as StdListener;

use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, ipproto, listen, socket_with, sockopt,
};
use tokio::net::TcpListener;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// Listens on an address. A wildcard address is that of its family alone, so that one of each
/// family can have the same port.
pub(super) fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(family, SocketType::STREAM, flags, Some(ipproto::TCP))?;
    // Connections of a former listener may still be closing.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    listen(&socket, BACKLOG)?;
    TcpListener::from_std(StdListener::from(socket))
}
