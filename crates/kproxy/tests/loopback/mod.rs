//! The loopback device of a new network namespace.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::net::IpAddr;

use netlink_packet_core::{NLM_F_ACK, NLM_F_CREATE, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::address::{
    AddressAttribute, AddressFlags, AddressHeaderFlags, AddressMessage,
};
use netlink_packet_route::link::{LinkFlags, LinkMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;

/// Its index, in every namespace.
const LOOPBACK: u32 = 1;

/// Makes it work, with more addresses.
pub(crate) fn bring_up(addresses: &[&str]) {
    let mut link = LinkMessage::default();
    link.header.index = LOOPBACK;
    link.header.flags = LinkFlags::Up;
    link.header.change_mask = LinkFlags::Up;
    request(RouteNetlinkMessage::SetLink(link), 0);
    for address in addresses {
        let address: IpAddr = address.parse().unwrap();
        let mut message = AddressMessage::default();
        (message.header.family, message.header.prefix_len) = match address {
            IpAddr::V4(_) => (AddressFamily::Inet, 32),
            IpAddr::V6(_) => (AddressFamily::Inet6, 128),
        };
        message.header.index = LOOPBACK;
        message.header.flags = AddressHeaderFlags::Nodad;
        message.attributes = vec![
            AddressAttribute::Local(address),
            AddressAttribute::Address(address),
            AddressAttribute::Flags(AddressFlags::Nodad),
        ];
        request(RouteNetlinkMessage::NewAddress(message), NLM_F_CREATE);
    }
}

fn request(message: RouteNetlinkMessage, flags: u16) {
    let mut socket = netlink_sys::Socket::new(NETLINK_ROUTE).unwrap();
    socket.bind_auto().unwrap();
    socket.connect(&netlink_sys::SocketAddr::new(0, 0)).unwrap();
    let mut message = NetlinkMessage::from(message);
    message.header.flags = NLM_F_REQUEST | NLM_F_ACK | flags;
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    socket.send(&bytes, 0).unwrap();
    let (reply, _) = socket.recv_from_full().unwrap();
    let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&reply).unwrap();
    match reply.payload {
        NetlinkPayload::Error(error) if error.code.is_none() => {}
        other => panic!("{other:?}"),
    }
}
