//! Attributes: the borrowed iterator and the values that fit into one.

use core::net::{Ipv4Addr, Ipv6Addr};

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};

use crate::wire::{ATTR_HEADER_LEN, align};
use crate::{DecodeError, DecodeErrorKind, EncodeError, Encoder};

/// Attribute type flag: the payload is a list of attributes.
pub const NLA_F_NESTED: u16 = 1 << 15;
/// Attribute type flag: the payload is in network order (never set by nf_tables).
pub const NLA_F_NET_BYTEORDER: u16 = 1 << 14;

/// One received attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attr<'a> {
    /// Type without its flag bits.
    pub kind: u16,
    /// Flag bits as received ([`NLA_F_NESTED`], [`NLA_F_NET_BYTEORDER`]).
    pub flags: u16,
    /// Payload without padding.
    pub payload: &'a [u8],
    /// Where the attribute's header starts in the slice that was iterated.
    pub offset: usize,
}

impl<'a> Attr<'a> {
    /// Iterates over the attributes inside this one.
    #[must_use]
    pub fn nested(&self) -> Attrs<'a> {
        Attrs::new(self.payload)
    }

    /// Decodes the payload.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadSize`] and others, naming `what` and this attribute's offset.
    pub fn value<T: AttrValue<'a>>(&self, what: &'static str) -> Result<T, DecodeError> {
        T::decode(self, what)
    }

    /// An error about this attribute.
    #[must_use]
    pub const fn error(&self, kind: DecodeErrorKind, what: &'static str) -> DecodeError {
        DecodeError::new(kind, what, self.offset)
    }
}

/// Iterates over the attributes in a slice; ends after the first error.
#[derive(Debug, Clone, Copy)]
pub struct Attrs<'a> {
    buf: &'a [u8],
    offset: usize,
}

impl<'a> Attrs<'a> {
    /// Over the attributes in `buf`.
    #[must_use]
    pub const fn new(buf: &'a [u8]) -> Self {
        Self { buf, offset: 0 }
    }

    /// The bytes not yet visited.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.buf.get(self.offset..).unwrap_or_default()
    }
}

impl<'a> Iterator for Attrs<'a> {
    type Item = Result<Attr<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        let fail = |kind| Some(Err(DecodeError::new(kind, "attribute", offset)));
        let Some((header, _)) = rest.split_at_checked(ATTR_HEADER_LEN) else {
            self.offset = self.buf.len();
            return fail(DecodeErrorKind::Truncated);
        };
        let len = usize::from(NativeEndian::read_u16(header));
        let kind = NativeEndian::read_u16(&header[2..]);
        if len < ATTR_HEADER_LEN {
            self.offset = self.buf.len();
            return fail(DecodeErrorKind::BadLength);
        }
        let Some(payload) = rest.get(ATTR_HEADER_LEN..len) else {
            self.offset = self.buf.len();
            return fail(DecodeErrorKind::Truncated);
        };
        self.offset = self.buf.len().min(offset + align(len));
        let flags = NLA_F_NESTED | NLA_F_NET_BYTEORDER;
        Some(Ok(Attr {
            kind: kind & !flags,
            flags: kind & flags,
            payload,
            offset,
        }))
    }
}

/// A value that is the payload of one attribute. Integers are in network order, as everywhere in
/// nfnetlink.
pub trait AttrValue<'a>: Sized {
    /// Appends the attribute.
    ///
    /// # Errors
    /// See [`EncodeError`].
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError>;

    /// Reads the attribute.
    ///
    /// # Errors
    /// See [`DecodeError`]; `what` names the attribute.
    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError>;
}

/// Appends `value` as attribute `attr`.
///
/// # Errors
/// See [`EncodeError`].
#[inline]
pub fn put_attr<'a, E: Encoder, T: AttrValue<'a>>(
    enc: &mut E,
    attr: u16,
    value: &T,
) -> Result<(), EncodeError> {
    value.encode(attr, enc)
}

macro_rules! int_value {
    ($($int:ty, $len:literal, $write:path, $read:path;)+) => {$(
        impl<'a> AttrValue<'a> for $int {
            #[inline]
            fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
                let mut bytes = [0; $len];
                $write(&mut bytes, *self);
                enc.put_attr_bytes(attr, &bytes)
            }

            #[inline]
            fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
                if attr.payload.len() != $len {
                    return Err(attr.error(DecodeErrorKind::BadSize, what));
                }
                Ok($read(attr.payload))
            }
        }
    )+};
}

int_value! {
    u16, 2, NetworkEndian::write_u16, NetworkEndian::read_u16;
    u32, 4, NetworkEndian::write_u32, NetworkEndian::read_u32;
    i32, 4, NetworkEndian::write_i32, NetworkEndian::read_i32;
    u64, 8, NetworkEndian::write_u64, NetworkEndian::read_u64;
}

/// An integer in host order: netlink's own, and the few in which a subsystem departs from its rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostU32(pub u32);

impl<'a> AttrValue<'a> for HostU32 {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let mut bytes = [0; 4];
        NativeEndian::write_u32(&mut bytes, self.0);
        enc.put_attr_bytes(attr, &bytes)
    }

    #[inline]
    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        match attr.payload.len() {
            4 => Ok(Self(NativeEndian::read_u32(attr.payload))),
            _ => Err(attr.error(DecodeErrorKind::BadSize, what)),
        }
    }
}

impl<'a> AttrValue<'a> for u8 {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        enc.put_attr_bytes(attr, &[*self])
    }

    #[inline]
    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        match attr.payload {
            [byte] => Ok(*byte),
            _ => Err(attr.error(DecodeErrorKind::BadSize, what)),
        }
    }
}

macro_rules! addr_value {
    ($($addr:ty, $len:literal;)+) => {$(
        /// Network order, as addresses are everywhere.
        impl<'a> AttrValue<'a> for $addr {
            #[inline]
            fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
                enc.put_attr_bytes(attr, &self.octets())
            }

            #[inline]
            fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
                <[u8; $len]>::try_from(attr.payload)
                    .map(Self::from)
                    .map_err(|_| attr.error(DecodeErrorKind::BadSize, what))
            }
        }
    )+};
}

addr_value! {
    Ipv4Addr, 4;
    Ipv6Addr, 16;
}

/// Raw payload.
pub type AttrBytes<'a> = &'a [u8];

impl<'a> AttrValue<'a> for &'a [u8] {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        enc.put_attr_bytes(attr, self)
    }

    #[inline]
    fn decode(attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(attr.payload)
    }
}

/// Presence is the value (`NLA_FLAG`): encoded when true.
impl<'a> AttrValue<'a> for bool {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        if *self {
            enc.put_attr_bytes(attr, &[])
        } else {
            Ok(())
        }
    }

    #[inline]
    fn decode(_attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SliceCursor;

    #[test]
    fn both_byte_orders_are_fixed() {
        let mut buf = [0; 16];
        let mut cursor = SliceCursor::new(&mut buf);
        put_attr(&mut cursor, 1, &0x0102_0304_u32).unwrap();
        let mut expected = [0, 0, 0, 0, 1, 2, 3, 4];
        expected[..2].copy_from_slice(&8_u16.to_ne_bytes());
        expected[2..4].copy_from_slice(&1_u16.to_ne_bytes());
        assert_eq!(cursor.written(), expected);
    }

    #[test]
    fn iterator_stops_at_the_first_error() {
        let mut bytes = [0; 12];
        bytes[..2].copy_from_slice(&8_u16.to_ne_bytes());
        bytes[8..10].copy_from_slice(&3_u16.to_ne_bytes());
        let mut attrs = Attrs::new(&bytes);
        assert!(attrs.next().unwrap().is_ok());
        let err = attrs.next().unwrap().unwrap_err();
        assert_eq!((err.kind, err.offset), (DecodeErrorKind::BadLength, 8));
        assert!(attrs.next().is_none());
    }
}
