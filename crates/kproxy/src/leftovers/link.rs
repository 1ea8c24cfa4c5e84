//! The link `kube-ipvs0`, which has the addresses of all Services in mode `ipvs`: as long as it is there, the
//! node takes packets to them for its own.

use std::io;

use netlink_packet_core::{NLM_F_ACK, NLM_F_REQUEST, NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{InfoKind, LinkAttribute, LinkInfo, LinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use rustix::io::Errno;

use super::names::IPVS_LINK;

/// Its index, if it is there and of the kind that kube-proxy makes.
///
/// # Errors
/// Of asking.
pub(super) fn find() -> io::Result<Option<u32>> {
    let mut link = LinkMessage::default();
    link.attributes
        .push(LinkAttribute::IfName(IPVS_LINK.to_owned()));
    match ask(RouteNetlinkMessage::GetLink(link), NLM_F_REQUEST) {
        Ok(Some(RouteNetlinkMessage::NewLink(link))) if is_dummy(&link) => {
            Ok(Some(link.header.index))
        }
        Ok(_) => Ok(None),
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Removes it, and its addresses with it.
///
/// # Errors
/// Of asking.
pub(super) fn remove(index: u32) -> io::Result<()> {
    let mut link = LinkMessage::default();
    link.header.index = index;
    match ask(
        RouteNetlinkMessage::DelLink(link),
        NLM_F_REQUEST | NLM_F_ACK,
    ) {
        Err(error) if error.raw_os_error() != Some(Errno::NODEV.raw_os_error()) => Err(error),
        _ => Ok(()),
    }
}

fn is_dummy(link: &LinkMessage) -> bool {
    link.attributes.iter().any(|attribute| {
        matches!(attribute, LinkAttribute::LinkInfo(infos)
            if infos.contains(&LinkInfo::Kind(InfoKind::Dummy)))
    })
}

/// The kernel's first reply; `None` if it only says that it is done.
fn ask(message: RouteNetlinkMessage, flags: u16) -> io::Result<Option<RouteNetlinkMessage>> {
    let mut socket = Socket::new(NETLINK_ROUTE)?;
    socket.bind_auto()?;
    socket.connect(&SocketAddr::new(0, 0))?;
    let mut request = NetlinkMessage::from(message);
    request.header.flags = flags;
    request.header.sequence_number = 1;
    request.finalize();
    let mut bytes = vec![0; request.buffer_len()];
    request.serialize(&mut bytes);
    socket.send(&bytes, 0)?;
    let (bytes, _) = socket.recv_from_full()?;
    let reply = NetlinkMessage::<RouteNetlinkMessage>::deserialize(&bytes);
    match reply.map_err(io::Error::other)?.payload {
        NetlinkPayload::InnerMessage(message) => Ok(Some(message)),
        NetlinkPayload::Error(error) if error.code.is_some() => Err(error.to_io()),
        _ => Ok(None),
    }
}
