use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::{
    collections::HashSet,
    io::{self, ErrorKind, Read as _, Write as _},
    net::{TcpListener, TcpStream, UdpSocket},
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::net::UnixDatagram,
    },
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread::{self, JoinHandle},
};

use nix::sys::socket::{setsockopt, sockopt};
use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with},
};

use crate::{
    error::{Doing as _, LabError},
    ipv6::has_ipv6,
    namespace::Namespace,
    packet_info::{Datagram, receive, send},
    probe::{Answer, Transport},
    sctp::{self, Message, Side},
};

type Name = Arc<str>;
type Served = (Name, Transport, u16);
/// Peers, each with the own address that they know.
type Associations = HashSet<(SocketAddr, IpAddr)>;

/// One thread that answers on all sockets of all hosts with the host's name.
#[derive(Debug)]
pub(crate) struct Responder {
    served: Mutex<HashSet<Served>>,
    orders: Option<mpsc::Sender<Order>>,
    bell: UnixDatagram,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
enum Order {
    Add(Vec<Endpoint>, mpsc::SyncSender<()>),
    Remove(Served, mpsc::SyncSender<()>),
}

#[derive(Debug)]
struct Endpoint {
    served: Served,
    socket: Socket,
}

#[derive(Debug)]
enum Socket {
    Listener(TcpListener),
    Udp(UdpSocket),
    Sctp(OwnedFd, Associations),
    /// An accepted connection, which echoes.
    Stream(TcpStream),
}

impl Responder {
    pub(crate) fn start() -> Result<Self, LabError> {
        let (bell, rung) = UnixDatagram::pair().doing("make a socket pair")?;
        bell.set_nonblocking(true)
            .doing("make a socket non-blocking")?;
        rung.set_nonblocking(true)
            .doing("make a socket non-blocking")?;
        let (orders, inbox) = mpsc::channel();
        let thread = thread::Builder::new()
            .name("responder".into())
            .spawn(move || answer_all(&inbox, &rung))
            .doing("start a thread")?;
        let served = Mutex::default();
        Ok(Self {
            served,
            orders: Some(orders),
            bell,
            thread: Some(thread),
        })
    }

    /// Answers on a port of a namespace from now on; nothing to do if it already does.
    pub(crate) fn serve(
        &self,
        namespace: &Namespace,
        host: &str,
        transport: Transport,
        port: u16,
    ) -> Result<(), LabError> {
        let name: Name = host.into();
        let key = (name, transport, port);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.contains(&key) {
            return Ok(());
        }
        let what = format!("listen on {transport} port {port} of {host}");
        let sockets = namespace.run(move || open(transport, port))?.doing(what)?;
        let endpoints = sockets
            .into_iter()
            .map(|socket| Endpoint {
                served: key.clone(),
                socket,
            })
            .collect();
        self.order(|done| Order::Add(endpoints, done))?;
        served.insert(key);
        Ok(())
    }

    /// Closes the sockets of a port; connections stay.
    pub(crate) fn stop(&self, host: &str, transport: Transport, port: u16) -> Result<(), LabError> {
        let key: Served = (host.into(), transport, port);
        let mut served = self.served.lock().unwrap_or_else(PoisonError::into_inner);
        if served.remove(&key) {
            self.order(|done| Order::Remove(key, done))?;
        }
        Ok(())
    }

    /// Hands over an order and waits until it is carried out.
    fn order(&self, order: impl FnOnce(mpsc::SyncSender<()>) -> Order) -> Result<(), LabError> {
        let gone = || LabError::ThreadGone {
            namespace: "responder".into(),
        };
        let (done, carried_out) = mpsc::sync_channel(1);
        self.orders
            .as_ref()
            .ok_or_else(gone)?
            .send(order(done))
            .map_err(|_| gone())?;
        ring(&self.bell);
        carried_out.recv().map_err(|_| gone())
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        self.orders = None;
        ring(&self.bell);
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

/// Wakes the thread; a full bell has been rung already.
fn ring(bell: &UnixDatagram) {
    let _ = bell.send(&[1]);
}

fn open(transport: Transport, port: u16) -> io::Result<Vec<Socket>> {
    match transport {
        Transport::Tcp => {
            // An IPv6 listener of std takes IPv4 as well.
            let any: IpAddr = if has_ipv6() {
                Ipv6Addr::UNSPECIFIED.into()
            } else {
                Ipv4Addr::UNSPECIFIED.into()
            };
            let listener = TcpListener::bind((any, port))?;
            listener.set_nonblocking(true)?;
            Ok(vec![Socket::Listener(listener)])
        }
        Transport::Udp => {
            let four = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, port))?;
            four.set_nonblocking(true)?;
            setsockopt(&four, sockopt::Ipv4PacketInfo, &true)?;
            if !has_ipv6() {
                return Ok(vec![Socket::Udp(four)]);
            }
            // One per family, as packet information differs; std makes IPv6 sockets dual stack.
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let six = socket_with(AddressFamily::INET6, SocketType::DGRAM, flags, None)?;
            rustix::net::sockopt::set_ipv6_v6only(&six, true)?;
            setsockopt(&six, sockopt::Ipv6RecvPacketInfo, &true)?;
            rustix::net::bind(&six, &SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
            Ok(vec![Socket::Udp(four), Socket::Udp(six.into())])
        }
        Transport::Sctp => {
            let raw = |family| {
                let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
                socket_with(family, SocketType::RAW, flags, Some(ipproto::SCTP))
            };
            let four = raw(AddressFamily::INET)?;
            setsockopt(&four, sockopt::Ipv4PacketInfo, &true)?;
            if !has_ipv6() {
                return Ok(vec![Socket::Sctp(four, Associations::new())]);
            }
            let six = raw(AddressFamily::INET6)?;
            setsockopt(&six, sockopt::Ipv6RecvPacketInfo, &true)?;
            let with_none = |socket| Socket::Sctp(socket, Associations::new());
            Ok([four, six].map(with_none).into())
        }
        // Every stack answers echo requests by itself.
        Transport::Icmp => Ok(Vec::new()),
    }
}

fn answer_all(inbox: &mpsc::Receiver<Order>, rung: &UnixDatagram) {
    let mut endpoints: Vec<Endpoint> = Vec::new();
    loop {
        let ready: Vec<bool> = {
            let mut fds = vec![PollFd::new(rung, PollFlags::IN)];
            fds.extend(
                endpoints
                    .iter()
                    .map(|end| PollFd::from_borrowed_fd(end.socket.as_fd(), PollFlags::IN)),
            );
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return,
            }
            fds.iter().map(|fd| !fd.revents().is_empty()).collect()
        };
        let mut closed = Vec::new();
        let mut accepted = Vec::new();
        for (index, endpoint) in endpoints.iter_mut().enumerate() {
            if ready.get(index + 1) != Some(&true) {
                continue;
            }
            // An error of one socket concerns that one alone: a connection reset by its client, say.
            let outcome = endpoint.answer(&mut accepted);
            if !matches!(outcome, Ok(true)) && matches!(endpoint.socket, Socket::Stream(_)) {
                closed.push(index);
            }
        }
        for index in closed.into_iter().rev() {
            endpoints.swap_remove(index);
        }
        endpoints.append(&mut accepted);
        if ready.first() == Some(&true) && !carry_out(inbox, rung, &mut endpoints) {
            return;
        }
    }
}

/// Carries out waiting orders; false when there will be none any more.
fn carry_out(
    inbox: &mpsc::Receiver<Order>,
    rung: &UnixDatagram,
    endpoints: &mut Vec<Endpoint>,
) -> bool {
    while rung.recv(&mut [0]).is_ok() {}
    loop {
        // Whoever gave the order may have stopped waiting; that is no concern of ours.
        match inbox.try_recv() {
            Ok(Order::Add(mut added, done)) => {
                endpoints.append(&mut added);
                let _ = done.send(());
            }
            Ok(Order::Remove(served, done)) => {
                endpoints.retain(|endpoint| {
                    endpoint.served != served || matches!(endpoint.socket, Socket::Stream(_))
                });
                let _ = done.send(());
            }
            Err(mpsc::TryRecvError::Empty) => return true,
            Err(mpsc::TryRecvError::Disconnected) => return false,
        }
    }
}

impl Endpoint {
    /// Answers what has come; false when a connection is over.
    fn answer(&mut self, accepted: &mut Vec<Self>) -> io::Result<bool> {
        let (name, _, port) = &self.served;
        match &mut self.socket {
            Socket::Listener(listener) => {
                while let Some((mut stream, peer)) = unless_empty(listener.accept())? {
                    stream.set_nonblocking(true)?;
                    let line = Answer::line(name, stream.local_addr()?, peer);
                    // A fresh connection has room for a line; a client gone already is no error.
                    if stream.write_all(line.as_bytes()).is_ok() {
                        let socket = Socket::Stream(stream);
                        accepted.push(Self {
                            served: self.served.clone(),
                            socket,
                        });
                    }
                }
            }
            Socket::Udp(socket) => {
                let mut buffer = [0; 256];
                while let Some(datagram) = unless_empty(receive(&*socket, &mut buffer))? {
                    let Datagram { from, to, .. } = datagram;
                    let line = Answer::line(name, SocketAddr::new(to, *port), from);
                    send(&*socket, line.as_bytes(), to, from)?;
                }
            }
            Socket::Sctp(socket, known) => {
                let mut buffer = [0; 2048];
                while let Some(datagram) = unless_empty(receive(&*socket, &mut buffer))? {
                    answer_sctp((socket, known), name, *port, &datagram, &buffer)?;
                }
            }
            Socket::Stream(stream) => {
                let mut buffer = [0; 4096];
                while let Some(count) = unless_empty(stream.read(&mut buffer))? {
                    if count == 0 {
                        return Ok(false);
                    }
                    stream.write_all(buffer.get(..count).unwrap_or_default())?;
                }
            }
        }
        Ok(true)
    }
}

fn answer_sctp(
    (socket, known): (&OwnedFd, &mut Associations),
    name: &str,
    port: u16,
    datagram: &Datagram,
    buffer: &[u8],
) -> io::Result<()> {
    let Datagram { length, from, to } = *datagram;
    let packet = sctp::without_ip_header(buffer.get(..length).unwrap_or_default(), to);
    let Some((peer_port, own_port)) = sctp::ports(packet) else {
        return Ok(());
    };
    if own_port != port {
        return Ok(());
    }
    let peer = SocketAddr::new(from.ip(), peer_port);
    let line = Answer::line(name, SocketAddr::new(to, port), peer);
    if let Some(answer) = sctp::init_ack(packet, line.as_bytes()) {
        return send(socket, &answer, to, SocketAddr::new(peer.ip(), 0));
    }
    let key = (peer, to);
    for message in sctp::hear(Side::Client, packet) {
        let messages = match message {
            Message::CookieEcho(cookie) if cookie == line.as_bytes() => {
                known.insert(key);
                vec![Message::CookieAck]
            }
            Message::Data { number, .. } if known.contains(&key) => {
                vec![Message::Ack(number), message]
            }
            Message::Abort => {
                known.remove(&key);
                continue;
            }
            Message::Ack(_) if known.contains(&key) => continue,
            _ => vec![Message::Abort],
        };
        let answer = sctp::say(Side::Server, (port, peer_port), &messages);
        send(socket, &answer, to, SocketAddr::new(peer.ip(), 0))?;
    }
    Ok(())
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Listener(socket) => socket.as_fd(),
            Self::Udp(socket) => socket.as_fd(),
            Self::Sctp(socket, _) => socket.as_fd(),
            Self::Stream(socket) => socket.as_fd(),
        }
    }
}

/// Nothing to read, now, is no error.
fn unless_empty<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}
