//! Virtual services of IPVS, by generic netlink (`net/netfilter/ipvs/ip_vs_ctl.c`).
//!
//! `struct genlmsghdr` (command u8, version u8, reserved u16) is as long as nfnetlink's `nfgenmsg` and has
//! its numbers in the same places, so that nl-codec's messages serve for both.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::IpNet;
use netlink_sys::protocols::NETLINK_GENERIC;
use nft_batch::Errno;
use nl_codec::msg::{Body, Family, Flags, Head, Msg, MsgType};
use nl_codec::{AttrBytes, Attrs, DecodeError, EncodeError, Encoder, put_attr};

use super::exchange::{Exchange, ExchangeError};

/// `linux/genetlink.h`: the family that tells the numbers of others.
const GENL_ID_CTRL: MsgType = MsgType(0x10);
const CTRL_CMD_GETFAMILY: u8 = 3;
const CTRL_ATTR_FAMILY_ID: u16 = 1;
const CTRL_ATTR_FAMILY_NAME: u16 = 2;
/// `linux/ip_vs.h`.
const IPVS_GENL_NAME: &[u8] = b"IPVS\0";
const IPVS_GENL_VERSION: u8 = 1;
const IPVS_CMD_DEL_SERVICE: u8 = 3;
const IPVS_CMD_GET_SERVICE: u8 = 4;
const IPVS_CMD_ATTR_SERVICE: u16 = 1;
const IPVS_SVC_ATTR_AF: u16 = 1;
const IPVS_SVC_ATTR_PROTOCOL: u16 = 2;
const IPVS_SVC_ATTR_ADDR: u16 = 3;
const IPVS_SVC_ATTR_PORT: u16 = 4;
const AF_INET6: u16 = 10;

/// A virtual service, as the kernel names it: integers in its byte orders, untouched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Service {
    /// `AF_*`, host order.
    af: [u8; 2],
    /// `IPPROTO_*`, host order.
    protocol: [u8; 2],
    /// An IPv4 address is in the first 4 bytes.
    address: [u8; 16],
    /// Network order.
    port: [u8; 2],
}

/// Removes the virtual services of kube-proxy: in mode `ipvs` it removes all others itself, but for those
/// at the addresses of `exclude` (`ipvs.excludeCIDRs`). Services by firewall mark are never its own.
///
/// # Errors
/// Of asking; a kernel without IPVS has none.
pub(super) fn remove(exclude: &[IpNet]) -> Result<usize, ExchangeError> {
    let mut exchange = Exchange::open(NETLINK_GENERIC)?;
    let Some(ipvs) = family(&mut exchange)? else {
        return Ok(0);
    };
    let mut services = Vec::new();
    let head = request(ipvs, IPVS_CMD_GET_SERVICE, IPVS_GENL_VERSION).with_flags(Flags::DUMP);
    exchange.ask(head, &Nothing, |msg| {
        services.extend(Service::read(msg)?);
        Ok(())
    })?;
    services.retain(|service| {
        let address = service.address();
        !exclude.iter().any(|net| net.contains(&address))
    });
    let mut removed = 0;
    for service in services {
        let head = request(ipvs, IPVS_CMD_DEL_SERVICE, IPVS_GENL_VERSION);
        match exchange.ask(head, &service, |_| Ok(())) {
            Ok(()) => removed += 1,
            // It is gone already (ip_vs_genl_set_cmd says ESRCH).
            Err(error) if matches!(error.errno(), Some(ESRCH | Errno::ENOENT)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

const ESRCH: Errno = Errno(3);

/// The number of family IPVS; `None` where the kernel has none.
fn family(exchange: &mut Exchange) -> Result<Option<MsgType>, ExchangeError> {
    let mut id = None;
    let asked = exchange.ask(request(GENL_ID_CTRL, CTRL_CMD_GETFAMILY, 1), &Name, |msg| {
        for attr in attrs(msg) {
            let attr = attr?;
            if attr.kind == CTRL_ATTR_FAMILY_ID {
                id = attr.payload.first_chunk().map(|id| u16::from_ne_bytes(*id));
            }
        }
        Ok(())
    });
    match asked {
        Ok(()) => Ok(id.map(MsgType)),
        Err(error) if error.errno() == Some(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error),
    }
}

fn request(family: MsgType, command: u8, version: u8) -> Head {
    let mut head = Head::new(family, Family(command));
    head.version = version;
    head
}

/// What follows `struct genlmsghdr`.
fn attrs<'a>(msg: &Msg<'a>) -> Attrs<'a> {
    Attrs::new(msg.payload.get(4..).unwrap_or_default())
}

impl Service {
    /// Reads a service; `None` for one by firewall mark.
    fn read(msg: &Msg<'_>) -> Result<Option<Self>, DecodeError> {
        let mut service = None;
        for attr in attrs(msg) {
            let attr = attr?;
            if attr.kind == IPVS_CMD_ATTR_SERVICE {
                service = Self::from_attrs(attr.nested())?;
            }
        }
        Ok(service)
    }

    fn from_attrs(attrs: Attrs<'_>) -> Result<Option<Self>, DecodeError> {
        let (mut af, mut protocol, mut address, mut port) = (None, None, None, None);
        for attr in attrs {
            let attr = attr?;
            match attr.kind {
                IPVS_SVC_ATTR_AF => af = attr.payload.first_chunk().copied(),
                IPVS_SVC_ATTR_PROTOCOL => protocol = attr.payload.first_chunk().copied(),
                IPVS_SVC_ATTR_ADDR => address = attr.payload.first_chunk().copied(),
                IPVS_SVC_ATTR_PORT => port = attr.payload.first_chunk().copied(),
                _ => {}
            }
        }
        let (Some(af), Some(protocol), Some(address), Some(port)) = (af, protocol, address, port)
        else {
            return Ok(None);
        };
        Ok(Some(Self {
            af,
            protocol,
            address,
            port,
        }))
    }

    fn address(&self) -> IpAddr {
        if u16::from_ne_bytes(self.af) == AF_INET6 {
            return IpAddr::V6(Ipv6Addr::from(self.address));
        }
        let [a, b, c, d, ..] = self.address;
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    }
}

impl<'a> Body<'a> for Service {
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        let mut nest = enc.nest(IPVS_CMD_ATTR_SERVICE)?;
        for (kind, bytes) in [
            (IPVS_SVC_ATTR_AF, self.af.as_slice()),
            (IPVS_SVC_ATTR_PROTOCOL, &self.protocol),
            (IPVS_SVC_ATTR_ADDR, &self.address),
            (IPVS_SVC_ATTR_PORT, &self.port),
        ] {
            put_attr::<_, AttrBytes<'_>>(&mut *nest, kind, &bytes)?;
        }
        nest.end()
    }

    fn decode_body(attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        Ok(Self::from_attrs(attrs)?.unwrap_or_default())
    }
}

/// A request without attributes.
struct Nothing;

impl<'a> Body<'a> for Nothing {
    fn encode_body<E: Encoder>(&self, _enc: &mut E) -> Result<(), EncodeError> {
        Ok(())
    }

    fn decode_body(_attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

/// The request for the number of family IPVS.
struct Name;

impl<'a> Body<'a> for Name {
    fn encode_body<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        put_attr::<_, AttrBytes<'_>>(enc, CTRL_ATTR_FAMILY_NAME, &IPVS_GENL_NAME)
    }

    fn decode_body(_attrs: Attrs<'a>) -> Result<Self, DecodeError> {
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use nl_codec::SliceCursor;
    use nl_codec::msg::{Messages, put_message};

    use super::*;

    #[test]
    fn a_service_is_named_as_it_was_told() {
        let mut service = Service {
            af: 2_u16.to_ne_bytes(),
            protocol: 6_u16.to_ne_bytes(),
            address: [0; 16],
            port: 80_u16.to_be_bytes(),
        };
        service.address[..4].copy_from_slice(&[172, 30, 2, 1]);
        let mut buffer = [0; 128];
        let mut cursor = SliceCursor::new(&mut buffer);
        let head = request(MsgType(0x1f), IPVS_CMD_DEL_SERVICE, IPVS_GENL_VERSION);
        put_message(&mut cursor, &head, &service).unwrap();
        let msg = Messages::new(cursor.written()).next().unwrap().unwrap();
        assert_eq!(
            msg.payload.get(..4),
            Some([3, 1, 0, 0].as_slice()),
            "genlmsghdr"
        );
        assert_eq!(Service::read(&msg).unwrap(), Some(service));
        assert_eq!(service.address(), IpAddr::from([172, 30, 2, 1]));
    }

    #[test]
    fn a_kernel_without_it_has_no_services() {
        test_support::in_new_netns(|| {
            // Here, or nothing in a new namespace.
            assert_eq!(remove(&[]).unwrap(), 0);
        });
    }
}
