use core::net::{IpAddr, SocketAddr};
use std::{
    io::{self, IoSlice, IoSliceMut},
    os::fd::{AsFd, AsRawFd as _},
};

use nix::{
    cmsg_space, libc,
    sys::socket::{
        ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg,
    },
};

/// A datagram received on a socket bound to every address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Datagram {
    /// Bytes received.
    pub(crate) length: usize,
    /// Sender.
    pub(crate) from: SocketAddr,
    /// Address of ours to which it was sent.
    pub(crate) to: IpAddr,
}

/// Receives a datagram and the address it was sent to; the socket must ask for packet information.
pub(crate) fn receive(socket: impl AsFd, buffer: &mut [u8]) -> io::Result<Datagram> {
    let mut control = cmsg_space!(libc::in6_pktinfo);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<SockaddrStorage>(
        socket.as_fd().as_raw_fd(),
        &mut parts,
        Some(&mut control),
        MsgFlags::MSG_DONTWAIT,
    )?;
    let from = message.address.as_ref().and_then(socket_address);
    let to = message.cmsgs()?.find_map(|part| match part {
        ControlMessageOwned::Ipv4PacketInfo(info) => {
            Some(IpAddr::from(info.ipi_addr.s_addr.to_ne_bytes()))
        }
        ControlMessageOwned::Ipv6PacketInfo(info) => Some(IpAddr::from(info.ipi6_addr.s6_addr)),
        _ => None,
    });
    match (from, to) {
        (Some(from), Some(to)) => Ok(Datagram {
            length: message.bytes,
            from,
            to,
        }),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}

/// Sends a datagram from the address `from`.
pub(crate) fn send(socket: impl AsFd, data: &[u8], from: IpAddr, to: SocketAddr) -> io::Result<()> {
    let destination = SockaddrStorage::from(to);
    let parts = [IoSlice::new(data)];
    let fd = socket.as_fd().as_raw_fd();
    let send = |control: ControlMessage<'_>| {
        sendmsg(
            fd,
            &parts,
            &[control],
            MsgFlags::empty(),
            Some(&destination),
        )
    };
    match from {
        IpAddr::V4(from) => send(ControlMessage::Ipv4PacketInfo(&libc::in_pktinfo {
            ipi_ifindex: 0,
            ipi_spec_dst: libc::in_addr {
                s_addr: u32::from_ne_bytes(from.octets()),
            },
            ipi_addr: libc::in_addr { s_addr: 0 },
        })),
        IpAddr::V6(from) => send(ControlMessage::Ipv6PacketInfo(&libc::in6_pktinfo {
            ipi6_addr: libc::in6_addr {
                s6_addr: from.octets(),
            },
            ipi6_ifindex: 0,
        })),
    }?;
    Ok(())
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(four) = address.as_sockaddr_in() {
        return Some(SocketAddr::from((four.ip(), four.port())));
    }
    let six = address.as_sockaddr_in6()?;
    Some(SocketAddr::from((six.ip(), six.port())))
}
