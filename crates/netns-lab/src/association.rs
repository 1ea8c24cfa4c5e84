use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{io, os::fd::OwnedFd};

use rustix::{
    event::PollFlags,
    io::Errno,
    net::{RecvFlags, SendFlags, SocketType, ipproto},
};

use crate::{
    error::{Doing as _, LabError},
    error_queue::IcmpError,
    probe::{Answer, connect},
    sctp::{self, Message, Side},
    socket::{self, Deadline, SourcePorts},
};

/// An SCTP association with a host that answers with its name and then echoes: four-way handshake,
/// then DATA and SACK on one stream, with raw sockets, so that it works without SCTP in the kernel.
/// Nothing is sent twice.
#[derive(Debug)]
pub struct Association {
    raw: OwnedFd,
    /// Holds the port, which raw sockets do not have.
    _reserved: OwnedFd,
    ports: (u16, u16),
    to: IpAddr,
    answer: Answer,
    /// Of the next DATA.
    number: u32,
}

impl Association {
    pub(crate) fn open(
        to: SocketAddr,
        ports: &SourcePorts,
        deadline: Duration,
    ) -> Result<Self, LabError> {
        let doing = format!("make an SCTP association with {to}");
        let deadline = Deadline::after(deadline);
        let reserved = socket::open(to.ip(), SocketType::DGRAM, None)?;
        let port = ports.bind(&reserved, to.ip())?;
        let raw = socket::open(to.ip(), SocketType::RAW, Some(ipproto::SCTP))?;
        connect(&raw, SocketAddr::new(to.ip(), 0))?;
        let (ports, to) = ((port, to.port()), to.ip());
        send(&raw, ports, &sctp::init(ports.0, ports.1)).doing(&*doing)?;
        let cookie = receive(&raw, ports, to, deadline, |packet| {
            sctp::init_ack_cookie(packet, ports.1, ports.0).map(<[u8]>::to_vec)
        });
        let cookie = cookie.doing(&*doing)?;
        let echo = sctp::say(Side::Client, ports, &[Message::CookieEcho(&cookie)]);
        send(&raw, ports, &echo).doing(&*doing)?;
        let ack = |message: Message<'_>| match message {
            Message::CookieAck => Some(Ok(())),
            Message::Abort => Some(Err(aborted())),
            _ => None,
        };
        let acked = receive(&raw, ports, to, deadline, |packet| {
            heard(packet, ports, ack)
        });
        acked.and_then(|acked| acked).doing(&*doing)?;
        Ok(Self {
            raw,
            _reserved: reserved,
            ports,
            to,
            answer: Answer::read(&cookie)?,
            number: 1,
        })
    }

    /// What the host said at the beginning.
    #[must_use]
    pub const fn answer(&self) -> &Answer {
        &self.answer
    }

    /// Sends `text` and waits until it is acknowledged and the same comes back.
    ///
    /// # Errors
    /// [`TimedOut`](io::ErrorKind::TimedOut); [`ConnectionAborted`](io::ErrorKind::ConnectionAborted)
    /// by a host that knows no such association; an ICMP error.
    pub fn echo(&mut self, text: &[u8], deadline: Duration) -> io::Result<()> {
        let Self {
            raw, ports, number, ..
        } = self;
        let deadline = Deadline::after(deadline);
        drain(raw, *ports)?;
        let data = Message::Data {
            number: *number,
            text,
        };
        send(raw, *ports, &sctp::say(Side::Client, *ports, &[data]))?;
        let mut acked = false;
        let mut echoed = |message: Message<'_>| match message {
            Message::Ack(upto) if upto == *number => {
                acked = true;
                None
            }
            Message::Data {
                number: echoed,
                text: same,
            } if echoed == *number && acked => Some(if same == text {
                Ok(())
            } else {
                Err(io::ErrorKind::InvalidData.into())
            }),
            Message::Abort => Some(Err(aborted())),
            _ => None,
        };
        receive(raw, *ports, self.to, deadline, |packet| {
            heard(packet, *ports, &mut echoed)
        })??;
        send(
            raw,
            *ports,
            &sctp::say(Side::Client, *ports, &[Message::Ack(*number)]),
        )?;
        *number = number.wrapping_add(1);
        Ok(())
    }
}

fn aborted() -> io::Error {
    io::ErrorKind::ConnectionAborted.into()
}

/// The first that `find` finds in a packet of the server's.
fn heard<'p, R>(
    packet: &'p [u8],
    (own, peer): (u16, u16),
    find: impl FnMut(Message<'p>) -> Option<R>,
) -> Option<R> {
    if sctp::ports(packet)? != (peer, own) {
        return None;
    }
    sctp::hear(Side::Server, packet).find_map(find)
}

/// What ICMP errors said of the association's own packets so far; forgets those about others.
fn told(raw: &OwnedFd, ports: (u16, u16)) -> io::Result<()> {
    match IcmpError::take_about(raw, |packet| sctp::ports(packet) == Some(ports))? {
        Some(error) => Err(io::Error::other(format!("{error:?}"))),
        None => Ok(()),
    }
}

fn send(raw: &OwnedFd, ports: (u16, u16), packet: &[u8]) -> io::Result<()> {
    told(raw, ports)?;
    rustix::net::send(raw, packet, SendFlags::empty())?;
    Ok(())
}

/// Throws away what came since, so that there is room for an answer: the socket has a copy of everything
/// that the peer sends to other associations.
fn drain(raw: &OwnedFd, ports: (u16, u16)) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        told(raw, ports)?;
        match rustix::net::recv(raw, &mut buffer, RecvFlags::DONTWAIT) {
            // An ICMP error that has just come is told next.
            Ok(_) | Err(Errno::INTR | Errno::CONNREFUSED) => {}
            Err(Errno::AGAIN) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits for a packet in which `find` finds what it looks for.
fn receive<R>(
    raw: &OwnedFd,
    ports: (u16, u16),
    like: IpAddr,
    deadline: Deadline,
    mut find: impl FnMut(&[u8]) -> Option<R>,
) -> io::Result<R> {
    let mut buffer = [0; 2048];
    loop {
        if deadline.wait(raw, PollFlags::IN)?.is_empty() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        told(raw, ports)?;
        let count = match rustix::net::recv(raw, &mut buffer, RecvFlags::empty()) {
            Ok((count, _)) => count,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(errno) => return Err(errno.into()),
        };
        let packet = buffer.get(..count).unwrap_or_default();
        if let Some(found) = find(sctp::without_ip_header(packet, like)) {
            return Ok(found);
        }
    }
}
