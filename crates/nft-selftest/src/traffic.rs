//! Packets that a namespace sends to itself, for base chains at its output.

use core::net::{Ipv4Addr, SocketAddrV4};
use std::io::ErrorKind;
use std::net::UdpSocket;

use crate::Stop;

/// Where packets go unless said otherwise: an address of the loopback network.
pub(crate) const TARGET: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 9);
/// The port they go to.
pub(crate) const PORT: u16 = 4_000;

/// Sends `count` datagrams from one socket. What rules refuse is no failure. A socket listens, so
/// that no ICMP errors go by the same rules.
pub(crate) fn send(to: Ipv4Addr, port: u16, count: usize) -> Result<(), Stop> {
    let _listener = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    for _ in 0..count {
        match socket.send_to(b"x", SocketAddrV4::new(to, port)) {
            Ok(_) => {}
            // Dropped on the way out.
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
