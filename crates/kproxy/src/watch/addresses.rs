//! The addresses of a network namespace's interfaces, as rtnetlink tells them.
//!
//! Events say only that there is something to read: the list is read anew after each, so that a lost one
//! (ENOBUFS) costs nothing but another reading.

use core::net::IpAddr;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::thread;

use netlink_packet_core::{NLM_F_DUMP, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::address::{AddressAttribute, AddressMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use svc_planner::mailbox::Publisher;
use svc_planner::object::Change;

use super::wait;
use crate::netns::Netns;

/// linux/rtnetlink.h: `RTNLGRP_IPV4_IFADDR` and `RTNLGRP_IPV6_IFADDR`.
const GROUPS: [u32; 2] = [5, 9];
/// linux/netlink.h: the dump may be inconsistent.
const NLM_F_DUMP_INTR: u16 = 0x10;
/// Readings in a row that something kept changing under; then the last one will do, as there is an event
/// to come back for.
const READINGS: u32 = 8;

/// Watches the addresses of a network namespace.
#[derive(Debug)]
pub struct AddressWatch {
    socket: Socket,
    sequence: u32,
    buffer: Vec<u8>,
}

impl AddressWatch {
    /// Starts to watch. What changes from here on is not missed.
    ///
    /// # Errors
    /// Of opening the namespace and the socket.
    pub fn new(netns: &Netns) -> io::Result<Self> {
        let file = netns.open().map_err(|error| error.error)?;
        let Some(file) = file else {
            return Self::open();
        };
        // A thread that has entered another namespace is of no other use.
        thread::scope(|scope| {
            let opened = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                Self::open()
            });
            opened
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Publishes the list whenever it changes, until `stop` is closed or nobody takes changes any more.
    ///
    /// # Errors
    /// Of waiting and reading.
    pub fn run(mut self, publisher: &Publisher, stop: &impl AsFd) -> io::Result<()> {
        let mut published = self.read()?;
        // It may have changed since the caller read it.
        let mut changed = true;
        loop {
            if changed
                && publisher
                    .publish(Change::HostAddresses(published.clone()))
                    .is_err()
            {
                return Ok(());
            }
            let [readable, stopped] = wait([self.as_fd(), stop.as_fd()], None)?;
            if stopped {
                return Ok(());
            }
            changed = readable && self.drain()?;
            if changed {
                let addresses = self.read()?;
                changed = addresses != published;
                published = addresses;
            }
        }
    }

    fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        for group in GROUPS {
            socket.add_membership(group)?;
        }
        socket.set_non_blocking(true)?;
        Ok(Self {
            socket,
            sequence: 0,
            buffer: vec![0; 64 << 10],
        })
    }

    /// Whether addresses may have changed since the last call; does not wait.
    ///
    /// # Errors
    /// Of `recv(2)`.
    pub fn drain(&mut self) -> io::Result<bool> {
        let mut changed = false;
        while self.receive()?.is_some() {
            changed = true;
        }
        Ok(changed)
    }

    /// All addresses of all interfaces, sorted, each once.
    ///
    /// # Errors
    /// Of the system calls, and what the kernel answers.
    pub fn read(&mut self) -> io::Result<Vec<IpAddr>> {
        for _ in 1..READINGS {
            if let (addresses, true) = self.read_once()? {
                return Ok(addresses);
            }
        }
        Ok(self.read_once()?.0)
    }

    /// One reading, and whether nothing changed meanwhile.
    fn read_once(&mut self) -> io::Result<(Vec<IpAddr>, bool)> {
        let message = RouteNetlinkMessage::GetAddress(AddressMessage::default());
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | NLM_F_DUMP;
        self.sequence = self.sequence.wrapping_add(1).max(1);
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut request = vec![0; message.buffer_len()];
        message.serialize(&mut request);
        self.socket.send_to(&request, &SocketAddr::new(0, 0), 0)?;
        let mut addresses = Vec::new();
        let mut undisturbed = true;
        loop {
            let Some(datagram) = self.receive()? else {
                // The next part of a dump is made while this one is read; an event may come before.
                wait([self.as_fd()], None)?;
                continue;
            };
            let Some(messages) = datagram else {
                // What was lost may be the end of this dump.
                undisturbed = false;
                break;
            };
            let mut done = false;
            for message in messages {
                if message.header.sequence_number != self.sequence {
                    undisturbed = false;
                    continue;
                }
                undisturbed &= message.header.flags & NLM_F_DUMP_INTR == 0;
                match message.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(message)) => {
                        addresses.extend(address(&message));
                    }
                    NetlinkPayload::Done(_) => done = true,
                    NetlinkPayload::Error(error) => return Err(error.to_io()),
                    _ => {}
                }
            }
            if done {
                break;
            }
        }
        addresses.sort_unstable();
        addresses.dedup();
        Ok((addresses, undisturbed))
    }

    /// The messages of the next datagram: `None` if there is none, `Some(None)` if some were lost.
    fn receive(&mut self) -> io::Result<Option<Option<Messages>>> {
        loop {
            let mut space = self.buffer.as_mut_slice();
            match self.socket.recv_from(&mut space, 0) {
                Ok((len, sender)) if sender.port_number() == 0 => {
                    return Ok(Some(Some(parse(
                        self.buffer.get(..len).unwrap_or_default(),
                    ))));
                }
                // Any process may send to our port.
                Ok(_) => {}
                Err(error) => match error
                    .raw_os_error()
                    .map(rustix::io::Errno::from_raw_os_error)
                {
                    Some(rustix::io::Errno::AGAIN) => return Ok(None),
                    Some(rustix::io::Errno::INTR) => {}
                    Some(rustix::io::Errno::NOBUFS) => return Ok(Some(None)),
                    _ => return Err(error),
                },
            }
        }
    }
}

impl AsFd for AddressWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

type Messages = Vec<NetlinkMessage<RouteNetlinkMessage>>;

/// The addresses that a datagram of rtnetlink tells, up to what cannot be decoded.
#[must_use]
pub fn addresses_in(datagram: &[u8]) -> Vec<IpAddr> {
    let messages = parse(datagram).into_iter();
    messages
        .filter_map(|message| match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewAddress(message)) => {
                address(&message)
            }
            _ => None,
        })
        .collect()
}

/// The messages of a datagram; what cannot be decoded ends them.
fn parse(mut rest: &[u8]) -> Messages {
    let mut messages = Vec::new();
    while let Ok(message) = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest) {
        let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
        rest = rest
            .get(length.saturating_add(3) / 4 * 4..)
            .unwrap_or_default();
        messages.push(message);
    }
    messages
}

/// The interface's own address; that of a point-to-point link's other end is named beside it.
fn address(message: &AddressMessage) -> Option<IpAddr> {
    let attributes = message.attributes.iter();
    let local = attributes.clone().find_map(|attribute| match attribute {
        AddressAttribute::Local(address) => Some(*address),
        _ => None,
    });
    local.or_else(|| {
        attributes.clone().find_map(|attribute| match attribute {
            AddressAttribute::Address(address) => Some(*address),
            _ => None,
        })
    })
}

#[cfg(test)]
mod tests {
    use netns_lab::{Namespace, add_address, remove_address};

    use super::*;

    fn ips(list: &[&str]) -> Vec<IpAddr> {
        list.iter().map(|ip| ip.parse().unwrap()).collect()
    }

    /// Waits for an event, then reads.
    fn next(watch: &mut AddressWatch) -> Vec<IpAddr> {
        wait([watch.as_fd()], None).unwrap();
        assert!(watch.drain().unwrap());
        watch.read().unwrap()
    }

    #[test]
    fn addresses_come_and_go() {
        if !test_support::has_netns() {
            return;
        }
        let namespace = Namespace::new("addresses").unwrap();
        namespace
            .run(|| {
                let mut watch = AddressWatch::new(&Netns::Current).unwrap();
                assert!(!watch.drain().unwrap());
                assert_eq!(watch.read().unwrap(), ips(&["127.0.0.1", "::1"]));
                let [four, six] = ["192.0.2.1", "2001:db8::1"].map(|ip| ip.parse().unwrap());
                add_address("lo", four).unwrap();
                assert_eq!(next(&mut watch), ips(&["127.0.0.1", "192.0.2.1", "::1"]));
                add_address("lo", six).unwrap();
                let all = ips(&["127.0.0.1", "192.0.2.1", "::1", "2001:db8::1"]);
                assert_eq!(next(&mut watch), all);
                remove_address("lo", four).unwrap();
                assert_eq!(next(&mut watch), ips(&["127.0.0.1", "::1", "2001:db8::1"]));
                assert!(!watch.drain().unwrap());
            })
            .unwrap();
    }

    #[test]
    fn lost_events_are_noticed_and_cost_nothing() {
        if !test_support::has_netns() {
            return;
        }
        let namespace = Namespace::new("flood").unwrap();
        namespace
            .run(|| {
                let mut watch = AddressWatch::new(&Netns::Current).unwrap();
                rustix::net::sockopt::set_socket_recv_buffer_size(&watch.socket, 1).unwrap();
                for last in 1..=200 {
                    add_address("lo", IpAddr::from([10, 0, 0, last])).unwrap();
                }
                assert!(watch.drain().unwrap());
                assert_eq!(watch.read().unwrap().len(), 202);
                assert!(!watch.drain().unwrap());
            })
            .unwrap();
    }

    #[test]
    fn another_namespace_is_watched() {
        if !test_support::has_netns() {
            return;
        }
        let namespace = Namespace::new("elsewhere").unwrap();
        let path = namespace.run(|| {
            add_address("lo", IpAddr::from([192, 0, 2, 7])).unwrap();
            // A thread's id names its namespace for the whole process.
            let thread = rustix::thread::gettid().as_raw_nonzero();
            format!("/proc/{thread}/ns/net")
        });
        let netns = Netns::from(path.unwrap().as_str());
        let mut watch = AddressWatch::new(&netns).unwrap();
        let expected = ips(&["127.0.0.1", "192.0.2.7", "::1"]);
        assert_eq!(watch.read().unwrap(), expected);
    }
}
