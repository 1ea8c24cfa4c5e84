use core::net::IpAddr;
use std::{
    io::{self, IoSliceMut},
    os::fd::{AsFd, AsRawFd as _},
};

use nix::{
    cmsg_space,
    errno::Errno,
    libc,
    sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg},
};

/// linux/errqueue.h
const ORIGIN_ICMP: u8 = 2;
const ORIGIN_ICMP6: u8 = 3;

/// An ICMP error that reached a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IcmpError {
    /// Who sent it.
    pub(crate) from: Option<IpAddr>,
    /// ICMP or ICMPv6 type.
    pub(crate) kind: u8,
    /// Code of the type.
    pub(crate) code: u8,
}

impl IcmpError {
    /// Whether it says port unreachable.
    pub(crate) const fn is_port_unreachable(self) -> bool {
        // RFC 792: type 3 code 3; RFC 4443: type 1 code 4.
        match self.from {
            Some(IpAddr::V6(_)) => matches!((self.kind, self.code), (1, 4)),
            _ => matches!((self.kind, self.code), (3, 3)),
        }
    }

    /// Takes the next ICMP error off the socket's error queue, if there is one.
    pub(crate) fn take(socket: impl AsFd) -> io::Result<Option<Self>> {
        Self::take_about(socket, |_| true)
    }

    /// Takes ICMP errors off the socket's error queue up to the first about a packet, as far as it was sent
    /// back, that `is_ours`: a raw socket hears of those of others to the same address as well.
    pub(crate) fn take_about(
        socket: impl AsFd,
        is_ours: impl Fn(&[u8]) -> bool,
    ) -> io::Result<Option<Self>> {
        let mut control = cmsg_space!(libc::sock_extended_err, libc::sockaddr_in6);
        let mut data = [0; 512];
        loop {
            let mut parts = [IoSliceMut::new(&mut data)];
            let received = recvmsg::<SockaddrStorage>(
                socket.as_fd().as_raw_fd(),
                &mut parts,
                Some(&mut control),
                MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT,
            );
            let message = match received {
                Ok(message) => message,
                Err(Errno::EAGAIN) => return Ok(None),
                Err(Errno::EINTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            let mut found = None;
            for part in message.cmsgs()? {
                let (error, from) = match part {
                    ControlMessageOwned::Ipv4RecvErr(error, from) => (
                        error,
                        from.map(|from| IpAddr::from(from.sin_addr.s_addr.to_ne_bytes())),
                    ),
                    ControlMessageOwned::Ipv6RecvErr(error, from) => {
                        (error, from.map(|from| IpAddr::from(from.sin6_addr.s6_addr)))
                    }
                    _ => continue,
                };
                if matches!(error.ee_origin, ORIGIN_ICMP | ORIGIN_ICMP6) {
                    found = Some(Self {
                        from,
                        kind: error.ee_type,
                        code: error.ee_code,
                    });
                }
            }
            let count = message.bytes;
            if found.is_some() && is_ours(data.get(..count).unwrap_or_default()) {
                return Ok(found);
            }
        }
    }
}
