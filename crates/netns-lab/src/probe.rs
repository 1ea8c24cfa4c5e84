use core::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
    time::Duration,
};
use std::{
    io::{self, Read as _, Write as _},
    net::TcpStream,
    os::fd::{AsFd, OwnedFd},
};

use rustix::{
    event::PollFlags,
    io::Errno,
    net::{SocketType, ipproto, sockopt},
};
use serde::{Deserialize, Serialize};

use crate::{
    error::{Doing as _, LabError},
    error_queue::IcmpError,
    sctp,
    socket::{self, Deadline, SourcePorts, canonical},
};

/// What a probe is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Transport {
    /// A TCP connection.
    Tcp,
    /// A UDP datagram.
    Udp,
    /// An SCTP INIT chunk, made by hand: works without SCTP in the kernel.
    Sctp,
    /// An ICMP or ICMPv6 echo request.
    Icmp,
}

/// One attempt to reach an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// How.
    pub transport: Transport,
    /// Where to; the port does not matter for ICMP.
    pub to: SocketAddr,
}

/// What a host that was reached says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Name of the host.
    pub by: Box<str>,
    /// Address and port at which it was reached, after translation.
    pub at: SocketAddr,
    /// Source address and port that it saw.
    pub source: SocketAddr,
}

/// What became of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict {
    /// A host answered. By [`SINK`](crate::SINK): the node forwarded it untouched.
    Answered(Answer),
    /// The echo request was answered.
    EchoReply,
    /// ICMP port unreachable.
    Rejected {
        /// Who sent the error: the node for a reject rule, the address probed for a stack on which
        /// nothing listens.
        from: Option<IpAddr>,
        /// The send call failed with EPERM, too: the packet was rejected on its way out.
        at_send: bool,
    },
    /// Another ICMP error.
    Unreachable {
        /// Who sent the error.
        from: Option<IpAddr>,
        /// ICMP type.
        kind: u8,
        /// ICMP code.
        code: u8,
    },
    /// A TCP reset: a stack on which nothing listens, not a reject rule.
    Reset,
    /// The send call failed with EPERM and no ICMP error came: dropped on its way out.
    NotPermitted,
    /// Nothing came back in time.
    Silent,
}

impl Answer {
    /// The line a host answers with.
    pub(crate) fn line(by: &str, at: SocketAddr, source: SocketAddr) -> String {
        format!("{by} {} {}\n", canonical(at), canonical(source))
    }

    pub(crate) fn read(line: &[u8]) -> Result<Self, LabError> {
        let parsed = core::str::from_utf8(line).ok().and_then(|line| {
            let mut words = line.split_whitespace();
            Some(Self {
                by: words.next()?.into(),
                at: words.next()?.parse().ok()?,
                source: words.next()?.parse().ok()?,
            })
        });
        parsed.ok_or_else(|| LabError::Reply {
            what: "read a host's answer".into(),
            reason: String::from_utf8_lossy(line).into(),
        })
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
            Self::Icmp => "icmp",
        })
    }
}

impl FromStr for Transport {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "tcp" => Ok(Self::Tcp),
            "udp" => Ok(Self::Udp),
            "sctp" => Ok(Self::Sctp),
            "icmp" => Ok(Self::Icmp),
            _ => Err(format!("no transport is named {word:?}")),
        }
    }
}

impl Verdict {
    fn of_icmp(error: IcmpError, at_send: bool) -> Self {
        let IcmpError { from, kind, code } = error;
        if error.is_port_unreachable() {
            Self::Rejected { from, at_send }
        } else {
            Self::Unreachable { from, kind, code }
        }
    }
}

impl Probe {
    /// Sends from the calling thread's namespace and waits for what comes of it.
    pub(crate) fn send(self, ports: &SourcePorts, deadline: Duration) -> Result<Verdict, LabError> {
        let deadline = Deadline::after(deadline);
        match self.transport {
            Transport::Tcp => match connect_tcp(self.to, ports, deadline)? {
                Ok(mut connection) => Ok(match connection.greeting(deadline)? {
                    Some(answer) => Verdict::Answered(answer),
                    None => Verdict::Silent,
                }),
                Err(verdict) => Ok(verdict),
            },
            Transport::Udp => probe_udp(self.to, ports, deadline),
            Transport::Sctp => probe_sctp(self.to, ports, deadline),
            Transport::Icmp => probe_icmp(self.to.ip(), deadline),
        }
    }
}

/// A TCP connection to a host that answers with its name and then echoes.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    answer: Option<Answer>,
}

impl Connection {
    pub(crate) fn open(
        to: SocketAddr,
        ports: &SourcePorts,
        deadline: Duration,
    ) -> Result<Self, LabError> {
        let deadline = Deadline::after(deadline);
        let failed = |what: &str| LabError::Os {
            what: format!("connect to {to}").into(),
            source: io::Error::other(what.to_owned()),
        };
        let mut connection =
            connect_tcp(to, ports, deadline)?.map_err(|verdict| failed(&format!("{verdict:?}")))?;
        if connection.greeting(deadline)?.is_none() {
            return Err(failed("no greeting"));
        }
        Ok(connection)
    }

    /// What the host said at the beginning.
    #[must_use]
    pub const fn answer(&self) -> Option<&Answer> {
        self.answer.as_ref()
    }

    /// Sends `text` and waits until the same comes back.
    ///
    /// # Errors
    /// When the connection is broken, or the time is over.
    pub fn echo(&mut self, text: &[u8], deadline: Duration) -> io::Result<()> {
        let deadline = Deadline::after(deadline);
        self.stream.write_all(text)?;
        let mut seen = vec![0; text.len()];
        let mut filled = 0;
        while let Some(rest) = seen.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            if deadline.wait(&self.stream, PollFlags::IN)?.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            match self.stream.read(rest)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => filled += count,
            }
        }
        if seen == text {
            Ok(())
        } else {
            Err(io::ErrorKind::InvalidData.into())
        }
    }

    fn greeting(&mut self, deadline: Deadline) -> Result<Option<Answer>, LabError> {
        let mut line = Vec::new();
        let mut byte = [0];
        while !line.ends_with(b"\n") {
            if deadline
                .wait(&self.stream, PollFlags::IN)
                .doing("wait for a greeting")?
                .is_empty()
            {
                return Ok(None);
            }
            match self.stream.read(&mut byte) {
                Ok(1..) => line.extend(byte),
                Ok(0) => return Ok(None),
                Err(error) => return Err(error).doing("read a greeting"),
            }
        }
        self.answer = Some(Answer::read(&line)?);
        Ok(self.answer.clone())
    }
}

fn connect_tcp(
    to: SocketAddr,
    ports: &SourcePorts,
    deadline: Deadline,
) -> Result<Result<Connection, Verdict>, LabError> {
    let socket = socket::open(to.ip(), SocketType::STREAM, None)?;
    ports.bind(&socket, to.ip())?;
    match rustix::net::connect(&socket, &to) {
        Ok(()) | Err(Errno::INPROGRESS) => {}
        Err(errno) => return refused(&socket, errno, deadline).map(Err),
    }
    let events = deadline
        .wait(&socket, PollFlags::OUT)
        .doing("wait for a connection")?;
    if events.is_empty() {
        return Ok(Err(Verdict::Silent));
    }
    match sockopt::socket_error(&socket).doing("read a connection's error")? {
        Ok(()) => Ok(Ok(Connection {
            stream: TcpStream::from(socket),
            answer: None,
        })),
        Err(errno) => refused(&socket, errno, deadline).map(Err),
    }
}

/// What an error of a socket means; the ICMP error behind it, if any, is in the queue.
fn refused(socket: impl AsFd, errno: Errno, deadline: Deadline) -> Result<Verdict, LabError> {
    let queued = || IcmpError::take(&socket).doing("read the error queue");
    match errno {
        Errno::PERM => {
            // A reject on the way out comes back through loopback, a moment after the call.
            deadline
                .wait(&socket, PollFlags::empty())
                .doing("wait for an ICMP error")?;
            Ok(queued()?.map_or(Verdict::NotPermitted, |error| Verdict::of_icmp(error, true)))
        }
        Errno::TIMEDOUT => Ok(Verdict::Silent),
        _ => match queued()? {
            Some(error) => Ok(Verdict::of_icmp(error, false)),
            None if errno == Errno::CONNREFUSED => Ok(Verdict::Reset),
            None => Err(errno).doing("probe"),
        },
    }
}

/// Sends once and waits for a datagram that `answer` understands.
fn exchange(
    socket: &OwnedFd,
    request: &[u8],
    deadline: Deadline,
    mut answer: impl FnMut(&[u8]) -> Result<Option<Verdict>, LabError>,
) -> Result<Verdict, LabError> {
    if let Err(errno) = rustix::net::send(socket, request, rustix::net::SendFlags::empty()) {
        return refused(socket, errno, deadline);
    }
    let mut buffer = [0; 2048];
    loop {
        let events = deadline
            .wait(socket, PollFlags::IN)
            .doing("wait for a datagram")?;
        if events.is_empty() {
            return Ok(Verdict::Silent);
        }
        if let Some(error) = IcmpError::take(socket).doing("read the error queue")? {
            return Ok(Verdict::of_icmp(error, false));
        }
        match rustix::net::recv(socket, &mut buffer, rustix::net::RecvFlags::empty()) {
            Ok((count, _)) => {
                if let Some(verdict) = answer(buffer.get(..count).unwrap_or_default())? {
                    return Ok(verdict);
                }
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(errno) => return refused(socket, errno, deadline),
        }
        // However much comes that is no answer.
        if deadline.is_over() {
            return Ok(Verdict::Silent);
        }
    }
}

pub(crate) fn connect(socket: &OwnedFd, to: SocketAddr) -> Result<(), LabError> {
    rustix::net::connect(socket, &to).doing(format!("connect a socket to {to}"))
}

fn probe_udp(to: SocketAddr, ports: &SourcePorts, deadline: Deadline) -> Result<Verdict, LabError> {
    let socket = socket::open(to.ip(), SocketType::DGRAM, None)?;
    ports.bind(&socket, to.ip())?;
    connect(&socket, to)?;
    ask(&socket, deadline)
}

/// Sends one datagram and waits for what comes of it.
pub(crate) fn ask(socket: &OwnedFd, deadline: Deadline) -> Result<Verdict, LabError> {
    exchange(socket, b"who\n", deadline, |line| {
        Ok(Some(Verdict::Answered(Answer::read(line)?)))
    })
}

fn probe_sctp(
    to: SocketAddr,
    ports: &SourcePorts,
    deadline: Deadline,
) -> Result<Verdict, LabError> {
    // Raw sockets have no ports; a UDP socket bound meanwhile makes sure that this one is nobody
    // else's.
    let reserved = socket::open(to.ip(), SocketType::DGRAM, None)?;
    let port = ports.bind(&reserved, to.ip())?;
    let raw = socket::open(to.ip(), SocketType::RAW, Some(ipproto::SCTP))?;
    connect(&raw, SocketAddr::new(to.ip(), 0))?;
    let init = sctp::init(port, to.port());
    exchange(&raw, &init, deadline, |packet| {
        let payload = sctp::without_ip_header(packet, to.ip());
        match sctp::init_ack_cookie(payload, to.port(), port) {
            Some(line) => Ok(Some(Verdict::Answered(Answer::read(line)?))),
            None => Ok(None),
        }
    })
}

fn probe_icmp(to: IpAddr, deadline: Deadline) -> Result<Verdict, LabError> {
    // RFC 792 echo request 8, reply 0; RFC 4443 128 and 129. The kernel fills in identifier and
    // checksum.
    let (protocol, request, reply) = match to {
        IpAddr::V4(_) => (ipproto::ICMP, 8, 0),
        IpAddr::V6(_) => (ipproto::ICMPV6, 128, 129),
    };
    let socket = socket::open(to, SocketType::DGRAM, Some(protocol))?;
    connect(&socket, SocketAddr::new(to, 0))?;
    let message = [request, 0, 0, 0, 0, 0, 0, 1];
    exchange(&socket, &message, deadline, |packet| {
        Ok((packet.first() == Some(&reply)).then_some(Verdict::EchoReply))
    })
}
