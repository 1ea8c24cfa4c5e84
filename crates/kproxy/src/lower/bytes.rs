//! Keys and data as the kernel compares them: fields in a row, each padded to 4 bytes with zeros.
//!
//! ```text
//! Frontend  address (4 or 16, network order) | protocol 1 + 3 zeros | port 2, network order + 2 zeros
//! NodePort  protocol 1 + 3 zeros | port 2, network order + 2 zeros
//! Class     4, host order
//! Slot      group 4, host order | slot 4, host order       (numgen and meta are host order)
//! Group     4, host order
//! State     instance 4, host order | sequence 4, host order
//! Hairpin   address | address | protocol 1 + 3 zeros | port 2, network order + 2 zeros
//! Source    list 4, host order | address
//! Client    address | address | protocol 1 + 3 zeros | port 2, network order + 2 zeros
//! Route     4, host order
//! Endpoint  address | port 2, network order + 2 zeros
//! List      4, host order
//! Endpoint number, as key and as datum: 4, host order
//! ```
//! The kernel does not check any of this; a wrong order is a row that never matches.

use core::net::IpAddr;

use svc_planner::object::Protocol;
use svc_planner::plan::{Datum, EndpointId, Family, Key, KeyType, Route};

/// Longest key: two IPv6 addresses, protocol, port.
const KEY_MAX: usize = 40;
/// Longest datum: an IPv6 address and a port.
const DATUM_MAX: usize = 20;

/// A key's bytes.
pub type KeyBytes = Bytes<KEY_MAX>;
/// A datum's bytes.
pub type DatumBytes = Bytes<DATUM_MAX>;

/// Up to `N` bytes in place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bytes<const N: usize> {
    len: usize,
    bytes: [u8; N],
}

impl<const N: usize> Bytes<N> {
    const fn new() -> Self {
        Self {
            len: 0,
            bytes: [0; N],
        }
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Appends a field and its padding. All layouts above fit by their length.
    #[inline]
    fn field(mut self, value: &[u8]) -> Self {
        let end = self.len + value.len();
        if let Some(room) = self.bytes.get_mut(self.len..end) {
            room.copy_from_slice(value);
        }
        self.len = (end + 3) & !3;
        self
    }

    #[inline]
    fn address(self, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.field(&address.octets()),
            IpAddr::V6(address) => self.field(&address.octets()),
        }
    }

    #[inline]
    fn protocol(self, protocol: Protocol) -> Self {
        self.field(&[protocol_number(protocol)])
    }

    #[inline]
    fn port(self, port: u16) -> Self {
        self.field(&port.to_be_bytes())
    }

    #[inline]
    fn host(self, number: u32) -> Self {
        self.field(&number.to_ne_bytes())
    }
}

/// `key` in a set with keys of type `layout` in a table of `family`; of a prefix its first address.
/// `None` if it does not belong there.
#[must_use]
#[inline]
pub fn key_bytes(family: Family, layout: KeyType, key: &Key) -> Option<KeyBytes> {
    let new = KeyBytes::new();
    Some(match (layout, *key) {
        (KeyType::Address, Key::Address(address)) if fits(family, address) => new.address(address),
        (KeyType::Address, Key::Prefix(net)) if fits(family, net.addr()) => {
            new.address(net.network())
        }
        (
            KeyType::Frontend,
            Key::Frontend {
                address,
                protocol,
                port,
            },
        ) if fits(family, address) => new.address(address).protocol(protocol).port(port),
        (KeyType::NodePort, Key::NodePort { protocol, port }) => new.protocol(protocol).port(port),
        (KeyType::Class, Key::Class(class)) => new.host(class),
        (KeyType::Slot, Key::Slot { group, slot }) => new.host(group).host(slot),
        (KeyType::Group, Key::Group(group)) => new.host(group),
        (KeyType::State, Key::State { instance, sequence }) => new.host(instance).host(sequence),
        (
            KeyType::Hairpin,
            Key::Hairpin {
                address,
                protocol,
                port,
            },
        ) if fits(family, address) => new
            .address(address)
            .address(address)
            .protocol(protocol)
            .port(port),
        (KeyType::Source, Key::Source { list, range }) if fits(family, range.addr()) => {
            new.host(list).address(range.network())
        }
        (
            KeyType::Client,
            Key::Client {
                client,
                address,
                protocol,
                port,
            },
        ) if fits(family, client) && fits(family, address) => new
            .address(client)
            .address(address)
            .protocol(protocol)
            .port(port),
        (KeyType::EndpointId, Key::EndpointId(id)) => new.host(id.0),
        _ => return None,
    })
}

/// The last key that a range of keys covers, for sets whose elements name both ends; `None` for
/// keys that are no such ranges.
#[must_use]
#[inline]
pub(super) fn last_key_bytes(family: Family, layout: KeyType, key: &Key) -> Option<KeyBytes> {
    match (layout, *key) {
        (KeyType::Source, Key::Source { list, range }) if fits(family, range.addr()) => {
            Some(KeyBytes::new().host(list).address(range.broadcast()))
        }
        _ => None,
    }
}

/// The key that has these bytes in a set of single keys; `None` if it is none that we write.
#[must_use]
pub fn key_of(family: Family, layout: KeyType, bytes: &[u8]) -> Option<Key> {
    let mut fields = Fields(bytes);
    let key = match layout {
        KeyType::Address => Key::Address(fields.address(family)?),
        KeyType::Frontend => Key::Frontend {
            address: fields.address(family)?,
            protocol: fields.protocol()?,
            port: fields.port()?,
        },
        KeyType::NodePort => Key::NodePort {
            protocol: fields.protocol()?,
            port: fields.port()?,
        },
        KeyType::Class => Key::Class(fields.host()?),
        KeyType::Slot => Key::Slot {
            group: fields.host()?,
            slot: fields.host()?,
        },
        KeyType::Group => Key::Group(fields.host()?),
        KeyType::EndpointId => Key::EndpointId(EndpointId(fields.host()?)),
        KeyType::State => Key::State {
            instance: fields.host()?,
            sequence: fields.host()?,
        },
        KeyType::Hairpin => {
            let address = fields.address(family)?;
            fields.address(family)?;
            Key::Hairpin {
                address,
                protocol: fields.protocol()?,
                port: fields.port()?,
            }
        }
        _ => return None,
    };
    // Padding that is not zero, or a hairpin with two addresses, is another key.
    let same = key_bytes(family, layout, &key)?.as_slice() == bytes;
    same.then_some(key)
}

/// Fields of a key, padded to 4 bytes each.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn address(&mut self, family: Family) -> Option<IpAddr> {
        Some(match family {
            Family::Ipv4 => self.take::<4>()?.into(),
            Family::Ipv6 => self.take::<16>()?.into(),
        })
    }

    fn protocol(&mut self) -> Option<Protocol> {
        let [number, ..] = self.take::<4>()?;
        let all = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
        all.into_iter()
            .find(|protocol| protocol_number(*protocol) == number)
    }

    fn port(&mut self) -> Option<u16> {
        let [high, low, ..] = self.take::<4>()?;
        Some(u16::from_be_bytes([high, low]))
    }

    fn host(&mut self) -> Option<u32> {
        self.take().map(u32::from_ne_bytes)
    }
}

/// A datum that is plain bytes in a table of `family`; `None` for verdicts and for an address of
/// the other family.
#[must_use]
#[inline]
pub fn datum_bytes(family: Family, datum: &Datum) -> Option<DatumBytes> {
    let new = DatumBytes::new();
    match datum {
        Datum::Route(Route(number)) | Datum::List(number) => Some(new.host(*number)),
        Datum::EndpointId(id) | Datum::Stuck { endpoint: id, .. } => Some(new.host(id.0)),
        Datum::Endpoint { address, port } if fits(family, *address) => {
            Some(new.address(*address).port(*port))
        }
        _ => None,
    }
}

/// Whether an address is of the family.
#[inline]
pub(super) fn fits(family: Family, address: IpAddr) -> bool {
    Family::of(address) == family
}

#[inline]
pub(super) fn protocol_number(protocol: Protocol) -> u8 {
    protocol as u8
}

#[cfg(test)]
mod tests {
    use svc_planner::plan::EndpointId;

    use super::*;

    const V4: [u8; 4] = [10, 96, 0, 10];

    fn frontend() -> Key {
        Key::Frontend {
            address: V4.into(),
            protocol: Protocol::Tcp,
            port: 80,
        }
    }

    #[test]
    fn frontend_is_padded_and_its_port_is_in_network_order() {
        let bytes = key_bytes(Family::Ipv4, KeyType::Frontend, &frontend()).unwrap();
        assert_eq!(bytes.as_slice(), [10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0]);

        let key = Key::Frontend {
            address: "fd00::a".parse().unwrap(),
            protocol: Protocol::Sctp,
            port: 0x1234,
        };
        let bytes = key_bytes(Family::Ipv6, KeyType::Frontend, &key).unwrap();
        let mut expected = [0; 24];
        (expected[0], expected[15]) = (0xfd, 0x0a);
        expected[16] = 132;
        expected[20..22].copy_from_slice(&[0x12, 0x34]);
        assert_eq!(bytes.as_slice(), expected);
    }

    #[test]
    fn keys_are_read_as_they_are_written() {
        let address = "fd00::1".parse().unwrap();
        let (protocol, port) = (Protocol::Udp, 53);
        let frontend = Key::Frontend {
            address,
            protocol,
            port,
        };
        let hairpin = Key::Hairpin {
            address,
            protocol,
            port,
        };
        let state = Key::State {
            instance: 7,
            sequence: 8,
        };
        for (layout, key) in [
            (KeyType::Address, Key::Address(address)),
            (KeyType::Frontend, frontend),
            (KeyType::NodePort, Key::NodePort { protocol, port }),
            (KeyType::Class, Key::Class(1 << 20)),
            (KeyType::Slot, Key::Slot { group: 1, slot: 2 }),
            (KeyType::Group, Key::Group(3)),
            (KeyType::EndpointId, Key::EndpointId(EndpointId(1 << 20))),
            (KeyType::State, state),
            (KeyType::Hairpin, hairpin),
        ] {
            let bytes = key_bytes(Family::Ipv6, layout, &key).unwrap();
            let bytes = bytes.as_slice();
            assert_eq!(key_of(Family::Ipv6, layout, bytes), Some(key));
            assert_eq!(
                key_of(Family::Ipv6, layout, &bytes[..bytes.len() - 1]),
                None
            );
            assert_eq!(
                key_of(Family::Ipv6, layout, &[bytes, &[0; 4]].concat()),
                None
            );
        }
        let padded = [17, 1, 0, 0, 0, 53, 0, 0];
        assert_eq!(key_of(Family::Ipv4, KeyType::NodePort, &padded), None);
        let icmp = [1, 0, 0, 0, 0, 53, 0, 0];
        assert_eq!(key_of(Family::Ipv4, KeyType::NodePort, &icmp), None);
    }

    #[test]
    fn node_port() {
        let key = Key::NodePort {
            protocol: Protocol::Udp,
            port: 30_000,
        };
        let bytes = key_bytes(Family::Ipv4, KeyType::NodePort, &key).unwrap();
        assert_eq!(bytes.as_slice(), [17, 0, 0, 0, 0x75, 0x30, 0, 0]);
    }

    #[test]
    fn numbers_that_meta_and_numgen_make_are_in_host_order() {
        let class = Key::Class(0x0010_0000);
        let bytes = key_bytes(Family::Ipv4, KeyType::Class, &class).unwrap();
        assert_eq!(bytes.as_slice(), 0x0010_0000_u32.to_ne_bytes());
        let slot = Key::Slot { group: 5, slot: 1 };
        let bytes = key_bytes(Family::Ipv6, KeyType::Slot, &slot).unwrap();
        assert_eq!(bytes.as_slice()[..4], 5_u32.to_ne_bytes());
        assert_eq!(bytes.as_slice()[4..], 1_u32.to_ne_bytes());
        if cfg!(target_endian = "little") {
            assert_eq!(bytes.as_slice(), [5, 0, 0, 0, 1, 0, 0, 0]);
        } else {
            assert_eq!(bytes.as_slice(), [0, 0, 0, 5, 0, 0, 0, 1]);
        }
        let route = Datum::Route(Route::new(1, 2).unwrap());
        let bytes = datum_bytes(Family::Ipv4, &route).unwrap();
        assert_eq!(bytes.as_slice(), 0x0010_0002_u32.to_ne_bytes());
    }

    #[test]
    fn group_and_state_are_in_host_order() {
        let bytes = key_bytes(Family::Ipv4, KeyType::Group, &Key::Group(7)).unwrap();
        assert_eq!(bytes.as_slice(), 7_u32.to_ne_bytes());
        let state = Key::State {
            instance: 1,
            sequence: 2,
        };
        let bytes = key_bytes(Family::Ipv4, KeyType::State, &state).unwrap();
        assert_eq!(bytes.as_slice()[..4], 1_u32.to_ne_bytes());
        assert_eq!(bytes.as_slice()[4..], 2_u32.to_ne_bytes());
    }

    #[test]
    fn hairpin_has_the_address_twice() {
        let key = Key::Hairpin {
            address: V4.into(),
            protocol: Protocol::Tcp,
            port: 8080,
        };
        let bytes = key_bytes(Family::Ipv4, KeyType::Hairpin, &key).unwrap();
        let expected = [10, 96, 0, 10, 10, 96, 0, 10, 6, 0, 0, 0, 0x1f, 0x90, 0, 0];
        assert_eq!(bytes.as_slice(), expected);
        let key = Key::Hairpin {
            address: "fd00::1".parse().unwrap(),
            protocol: Protocol::Tcp,
            port: 1,
        };
        let bytes = key_bytes(Family::Ipv6, KeyType::Hairpin, &key).unwrap();
        assert_eq!(bytes.as_slice().len(), KEY_MAX);
    }

    #[test]
    fn a_range_of_sources_has_both_ends() {
        let key = Key::Source {
            list: 7,
            range: "10.96.0.0/12".parse().unwrap(),
        };
        let first = key_bytes(Family::Ipv4, KeyType::Source, &key).unwrap();
        assert_eq!(first.as_slice()[..4], 7_u32.to_ne_bytes());
        assert_eq!(first.as_slice()[4..], [10, 96, 0, 0]);
        let last = last_key_bytes(Family::Ipv4, KeyType::Source, &key).unwrap();
        assert_eq!(last.as_slice()[4..], [10, 111, 255, 255]);
        let six = Key::Source {
            list: 7,
            range: "fd00::/16".parse().unwrap(),
        };
        let last = last_key_bytes(Family::Ipv6, KeyType::Source, &six).unwrap();
        assert_eq!(last.as_slice().len(), 20);
        assert_eq!(last.as_slice()[6..], [0xff; 14]);
        assert_eq!(key_bytes(Family::Ipv4, KeyType::Source, &six), None);
        assert_eq!(
            last_key_bytes(Family::Ipv4, KeyType::Frontend, &frontend()),
            None
        );
    }

    #[test]
    fn clients_and_endpoint_numbers() {
        let key = Key::Client {
            client: [192, 0, 2, 7].into(),
            address: V4.into(),
            protocol: Protocol::Tcp,
            port: 80,
        };
        let bytes = key_bytes(Family::Ipv4, KeyType::Client, &key).unwrap();
        let expected = [192, 0, 2, 7, 10, 96, 0, 10, 6, 0, 0, 0, 0, 80, 0, 0];
        assert_eq!(bytes.as_slice(), expected);
        assert_eq!(key_bytes(Family::Ipv6, KeyType::Client, &key), None);
        let id = EndpointId(0x0010_0001);
        let key = Key::EndpointId(id);
        let bytes = key_bytes(Family::Ipv4, KeyType::EndpointId, &key).unwrap();
        assert_eq!(bytes.as_slice(), id.0.to_ne_bytes());
        let bytes = datum_bytes(Family::Ipv6, &Datum::EndpointId(id)).unwrap();
        assert_eq!(bytes.as_slice(), id.0.to_ne_bytes());
    }

    #[test]
    fn endpoint() {
        let datum = Datum::Endpoint {
            address: V4.into(),
            port: 8080,
        };
        let bytes = datum_bytes(Family::Ipv4, &datum).unwrap();
        assert_eq!(bytes.as_slice(), [10, 96, 0, 10, 0x1f, 0x90, 0, 0]);
        let datum = Datum::Endpoint {
            address: "fd00::1".parse().unwrap(),
            port: 1,
        };
        let bytes = datum_bytes(Family::Ipv6, &datum).unwrap();
        assert_eq!(bytes.as_slice().len(), DATUM_MAX);
        assert_eq!(bytes.as_slice()[15..], [1, 0, 1, 0, 0]);
    }

    #[test]
    fn what_does_not_belong_is_refused() {
        assert_eq!(
            key_bytes(Family::Ipv6, KeyType::Frontend, &frontend()),
            None
        );
        assert_eq!(
            key_bytes(Family::Ipv4, KeyType::NodePort, &frontend()),
            None
        );
        let datum = Datum::Endpoint {
            address: V4.into(),
            port: 1,
        };
        assert_eq!(datum_bytes(Family::Ipv6, &datum), None);
        assert_eq!(datum_bytes(Family::Ipv4, &Datum::Drop), None);
    }
}
