//! The sets of mode `ipvs`, by name (`net/netfilter/ipset/ip_set_core.c`). They take no packets by
//! themselves; without the rules that used them they only use memory.

use netlink_sys::protocols::NETLINK_NETFILTER;
use nl_codec::msg::{Body, Family, Head, MsgType, Subsystem};
use nl_codec::{AttrBytes, Attrs, DecodeError, EncodeError, Encoder, put_attr};

use super::exchange::{Exchange, ExchangeError};
use super::names;

/// `NFNL_SUBSYS_IPSET`.
const IPSET: Subsystem = Subsystem(6);
/// `linux/netfilter/ipset/ip_set.h`.
const IPSET_CMD_DESTROY: u8 = 3;
const IPSET_ATTR_PROTOCOL: u16 = 1;
const IPSET_ATTR_SETNAME: u16 = 2;
/// Understood by all kernels (`IPSET_PROTOCOL_MIN`).
const PROTOCOL: u8 = 6;
const AF_INET: Family = Family(2);

/// Destroys those that are there and not in use; returns how many.
///
/// # Errors
/// Of opening a socket.
pub(super) fn remove() -> Result<usize, ExchangeError> {
    let mut exchange = Exchange::open(NETLINK_NETFILTER)?;
    let mut removed = 0;
    for name in names::ip_sets() {
        let head = Head::new(MsgType::new(IPSET, IPSET_CMD_DESTROY), AF_INET);
        match exchange.ask(head, &Destroy { name: &name }, |_| Ok(())) {
            Ok(()) => removed += 1,
            // It is not there, or somebody uses it.
            Err(ExchangeError::Kernel(errno)) => tracing::trace!("set {name}: {errno}"),
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

struct Destroy<'n> {
    name: &'n str,
}

impl<'n> Body<'n> for Destroy<'n> {
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        put_attr::<_, AttrBytes<'_>>(enc, IPSET_ATTR_PROTOCOL, &[PROTOCOL].as_slice())?;
        let mut name = self.name.as_bytes().to_vec();
        name.push(0);
        put_attr::<_, AttrBytes<'_>>(enc, IPSET_ATTR_SETNAME, &name.as_slice())
    }

    fn decode_body(_attrs: Attrs<'n>) -> Result<Self, DecodeError> {
        Ok(Self { name: "" })
    }
}
