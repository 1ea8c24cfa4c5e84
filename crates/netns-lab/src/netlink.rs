use core::{net::IpAddr, time::Duration};
use std::{
    io,
    os::fd::{AsRawFd as _, BorrowedFd},
    thread,
    time::Instant,
};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload,
};
use netlink_packet_route::{
    AddressFamily, RouteNetlinkMessage,
    address::{AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage},
    link::{InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage, State},
    neighbour::{NeighbourAttribute, NeighbourMessage, NeighbourState},
    route::{
        RouteAttribute, RouteFlags, RouteHeader, RouteMessage, RouteProtocol, RouteScope, RouteType,
    },
};
use netlink_sys::{Socket, SocketAddr, protocols::NETLINK_ROUTE};
use rustix::net::sockopt::{Timeout, set_socket_timeout};

use crate::error::{Doing as _, LabError};

/// linux/rtnetlink.h: RTNLGRP_LINK.
const GROUP_LINK: u32 = 1;
/// linux/rtnetlink.h: RT_TABLE_LOCAL.
const TABLE_LOCAL: u8 = 255;

/// How long the kernel may take for an answer, or a link to come up.
const PATIENCE: Duration = Duration::from_secs(30);

/// When to look again for a route. Its event is of no use: a lookup after it was seen to miss the route
/// now and then, with no other event to come.
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Ethernet address.
pub(crate) type Mac = [u8; 6];

/// A route to add.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    /// Destination and its prefix length.
    pub(crate) to: (IpAddr, u8),
    /// Outgoing link.
    pub(crate) link: u32,
    /// Next hop, taken to be on the link whatever its address.
    pub(crate) via: Option<IpAddr>,
    /// Source address of what this host sends along it.
    pub(crate) source: Option<IpAddr>,
    /// What it is.
    pub(crate) kind: RouteKind,
}

/// Kind of a [`Route`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RouteKind {
    /// Into the main table.
    Unicast,
    /// A unicast route in the local table, so that it wins over a wider local route there.
    UnicastAmongLocal,
    /// Every address of the prefix is this host's.
    Local,
}

/// Synchronous rtnetlink in the namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink {
    socket: Socket,
    sequence: u32,
}

impl Netlink {
    pub(crate) fn open() -> Result<Self, LabError> {
        let mut socket = Socket::new(NETLINK_ROUTE).doing("open a netlink socket")?;
        socket.bind_auto().doing("bind a netlink socket")?;
        socket
            .connect(&SocketAddr::new(0, 0))
            .doing("connect a netlink socket")?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))
            .doing("limit the wait for netlink")?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Makes a veth pair: `name` here, `eth0` in the other namespace.
    pub(crate) fn add_veth(
        &mut self,
        (name, mac): (&str, Mac),
        (peer, peer_mac): (BorrowedFd<'_>, Mac),
    ) -> Result<(), LabError> {
        let mut far = LinkMessage::default();
        far.attributes = vec![
            LinkAttribute::IfName("eth0".into()),
            LinkAttribute::Address(peer_mac.to_vec()),
            LinkAttribute::NetNsFd(peer.as_raw_fd()),
        ];
        let mut near = LinkMessage::default();
        near.attributes = vec![
            LinkAttribute::IfName(name.into()),
            LinkAttribute::Address(mac.to_vec()),
            LinkAttribute::LinkInfo(vec![
                LinkInfo::Kind(InfoKind::Veth),
                LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(far))),
            ]),
        ];
        self.create(
            RouteNetlinkMessage::NewLink(near),
            &format!("add link {name}"),
        )
    }

    /// Index of a link.
    pub(crate) fn index(&mut self, name: &str) -> Result<u32, LabError> {
        let mut message = LinkMessage::default();
        message.attributes = vec![LinkAttribute::IfName(name.into())];
        let what = format!("find link {name}");
        self.send(RouteNetlinkMessage::GetLink(message), 0, &what)?;
        loop {
            for reply in self.receive(&what)? {
                if let Some(link) = self.link_reply(reply, &what)? {
                    return Ok(link.header.index);
                }
            }
        }
    }

    pub(crate) fn set_up(&mut self, link: u32) -> Result<(), LabError> {
        let mut message = LinkMessage::default();
        message.header.index = link;
        message.header.flags = LinkFlags::Up;
        message.header.change_mask = LinkFlags::Up;
        self.request(
            RouteNetlinkMessage::SetLink(message),
            0,
            &format!("set link {link} up"),
        )
    }

    /// Waits until a link passes packets: a veth whose peer came up later than itself discards
    /// them until the kernel's link watch has run (net/core/link_watch.c).
    pub(crate) fn wait_running(&mut self, link: u32) -> Result<(), LabError> {
        self.socket
            .add_membership(GROUP_LINK)
            .doing("listen to link events")?;
        let mut message = LinkMessage::default();
        message.header.index = link;
        let what = format!("watch link {link}");
        self.send(RouteNetlinkMessage::GetLink(message), 0, &what)?;
        loop {
            for reply in self.receive(&what)? {
                let running = self.link_reply(reply, &what)?.is_some_and(|seen| {
                    seen.header.index == link
                        && seen
                            .attributes
                            .contains(&LinkAttribute::OperState(State::Up))
                });
                if running {
                    self.socket
                        .drop_membership(GROUP_LINK)
                        .doing("leave link events")?;
                    return Ok(());
                }
            }
        }
    }

    /// Adds a single address, usable at once.
    pub(crate) fn add_address(&mut self, link: u32, address: IpAddr) -> Result<(), LabError> {
        let message = RouteNetlinkMessage::NewAddress(single(link, address));
        self.create(message, &format!("add address {address}"))?;
        match address {
            IpAddr::V4(_) => Ok(()),
            IpAddr::V6(_) => self.wait_local(address),
        }
    }

    /// Waits until what is sent to an IPv6 address arrives: its local route comes later than itself, by
    /// way of a work queue (net/ipv6/addrconf.c, `addrconf_dad_work`).
    fn wait_local(&mut self, address: IpAddr) -> Result<(), LabError> {
        let what = format!("watch the route to {address}");
        let begin = Instant::now();
        while !self.is_local(address, &what)? {
            if begin.elapsed() > PATIENCE {
                return Err(io::Error::from(io::ErrorKind::TimedOut)).doing(what);
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Whether an address is this host's.
    fn is_local(&mut self, address: IpAddr, what: &str) -> Result<bool, LabError> {
        let mut message = RouteMessage::default();
        message.header.address_family = family(address);
        message.header.destination_prefix_length = width(address);
        message
            .attributes
            .push(RouteAttribute::Destination(address.into()));
        self.send(RouteNetlinkMessage::GetRoute(message), 0, what)?;
        loop {
            for reply in self.receive(what)? {
                if reply.header.sequence_number != self.sequence {
                    continue;
                }
                return Ok(match reply.payload {
                    NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRoute(route)) => {
                        route.header.kind == RouteType::Local
                    }
                    // There is none.
                    _ => false,
                });
            }
        }
    }

    /// Removes an address that was added like that.
    pub(crate) fn remove_address(&mut self, link: u32, address: IpAddr) -> Result<(), LabError> {
        let message = RouteNetlinkMessage::DelAddress(single(link, address));
        self.request(message, 0, &format!("remove address {address}"))
    }

    /// Adds a neighbour that needs no resolution.
    pub(crate) fn add_neighbour(
        &mut self,
        link: u32,
        address: IpAddr,
        mac: Mac,
    ) -> Result<(), LabError> {
        let mut message = NeighbourMessage::default();
        message.header.family = family(address);
        message.header.ifindex = link;
        message.header.state = NeighbourState::Permanent;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            NeighbourAttribute::Destination(address.into()),
            NeighbourAttribute::LinkLayerAddress(mac.to_vec()),
        ];
        let what = format!("add neighbour {address}");
        self.create(RouteNetlinkMessage::NewNeighbour(message), &what)
    }

    pub(crate) fn add_route(&mut self, route: &Route) -> Result<(), LabError> {
        let (destination, length) = route.to;
        let mut message = RouteMessage::default();
        message.header.address_family = family(destination);
        message.header.destination_prefix_length = length;
        message.header.protocol = RouteProtocol::Static;
        (message.header.kind, message.header.table) = match route.kind {
            RouteKind::Unicast => (RouteType::Unicast, RouteHeader::RT_TABLE_MAIN),
            RouteKind::UnicastAmongLocal => (RouteType::Unicast, TABLE_LOCAL),
            RouteKind::Local => (RouteType::Local, TABLE_LOCAL),
        };
        message.header.scope = match (route.kind, route.via) {
            (RouteKind::Local, _) => RouteScope::Host,
            (_, None) => RouteScope::Link,
            (_, Some(_)) => RouteScope::Universe,
        };
        if length > 0 {
            message
                .attributes
                .push(RouteAttribute::Destination(destination.into()));
        }
        if let Some(gateway) = route.via {
            message.header.flags = RouteFlags::Onlink;
            message
                .attributes
                .push(RouteAttribute::Gateway(gateway.into()));
        }
        if let Some(source) = route.source {
            message
                .attributes
                .push(RouteAttribute::PrefSource(source.into()));
        }
        message.attributes.push(RouteAttribute::Oif(route.link));
        let what = format!("add route {destination}/{length}");
        self.create(RouteNetlinkMessage::NewRoute(message), &what)
    }

    fn create(&mut self, message: RouteNetlinkMessage, what: &str) -> Result<(), LabError> {
        self.request(message, NLM_F_CREATE | NLM_F_EXCL, what)
    }

    /// Sends and waits for the acknowledgement.
    fn request(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        what: &str,
    ) -> Result<(), LabError> {
        self.send(message, flags | NLM_F_ACK, what)?;
        loop {
            for reply in self.receive(what)? {
                if reply.header.sequence_number != self.sequence {
                    continue;
                }
                if let NetlinkPayload::Error(error) = reply.payload {
                    return match error.code {
                        None => Ok(()),
                        Some(code) => refusal(code.get(), what),
                    };
                }
            }
        }
    }

    fn send(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
        what: &str,
    ) -> Result<(), LabError> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = NetlinkMessage::from(message);
        message.header.flags = NLM_F_REQUEST | flags;
        message.header.sequence_number = self.sequence;
        message.finalize();
        let mut bytes = vec![0; message.buffer_len()];
        message.serialize(&mut bytes);
        self.socket.send(&bytes, 0).doing(what)?;
        Ok(())
    }

    /// The messages of one datagram.
    fn receive(
        &mut self,
        what: &str,
    ) -> Result<Vec<NetlinkMessage<RouteNetlinkMessage>>, LabError> {
        let (bytes, _) = self.socket.recv_from_full().doing(what)?;
        let mut messages = Vec::new();
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let message =
                NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest).map_err(|error| {
                    LabError::Reply {
                        what: what.into(),
                        reason: error.to_string().into(),
                    }
                })?;
            // A u32 fits; the decoder has checked it against the buffer.
            let length = usize::try_from(message.header.length).unwrap_or(usize::MAX);
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            messages.push(message);
        }
        Ok(messages)
    }

    /// A link from a reply to the last request or from an event.
    fn link_reply(
        &self,
        reply: NetlinkMessage<RouteNetlinkMessage>,
        what: &str,
    ) -> Result<Option<LinkMessage>, LabError> {
        match reply.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(link)) => Ok(Some(link)),
            NetlinkPayload::Error(error) if reply.header.sequence_number == self.sequence => {
                match error.code {
                    None => Ok(None),
                    Some(code) => refusal(code.get(), what),
                }
            }
            _ => Ok(None),
        }
    }
}

/// The kernel's negative error number as an error.
fn refusal<T>(code: i32, what: &str) -> Result<T, LabError> {
    Err(io::Error::from_raw_os_error(code.saturating_neg())).doing(what)
}

/// A single address on a link.
fn single(link: u32, address: IpAddr) -> AddressMessage {
    let mut message = AddressMessage::default();
    message.header.family = family(address);
    message.header.prefix_len = width(address);
    message.header.index = link;
    message.header.flags = AddressHeaderFlags::Nodad;
    message.attributes = vec![
        AddressAttribute::Local(address),
        AddressAttribute::Address(address),
        AddressAttribute::Flags(AddressFlags::Nodad),
    ];
    message
}

fn family(address: IpAddr) -> AddressFamily {
    match address {
        IpAddr::V4(_) => AddressFamily::Inet,
        IpAddr::V6(_) => AddressFamily::Inet6,
    }
}

/// Bits of an address.
pub(crate) const fn width(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}
