//! Names on the wire: NUL-terminated bytes, not necessarily UTF-8.

use core::fmt;

use crate::wire::MAX_ATTR_PAYLOAD;
use crate::{Attr, AttrValue, DecodeError, DecodeErrorKind, EncodeError, Encoder, NLA_F_NESTED};

/// A table, chain, set, object or interface name (up to 255 bytes for the first four,
/// `NFT_NAME_MAXLEN` - 1), without its terminating NUL.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Str<'a>(&'a [u8]);

impl<'a> Str<'a> {
    /// Wraps bytes without a NUL.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes, without NUL.
    #[must_use]
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// The name as UTF-8, if it is.
    #[must_use]
    pub fn to_str(self) -> Option<&'a str> {
        core::str::from_utf8(self.0).ok()
    }
}

impl<'a> From<&'a str> for Str<'a> {
    fn from(name: &'a str) -> Self {
        Self(name.as_bytes())
    }
}

impl PartialEq<str> for Str<'_> {
    fn eq(&self, other: &str) -> bool {
        self.0 == other.as_bytes()
    }
}

impl fmt::Display for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            f.write_str(chunk.valid())?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Str<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl<'a> AttrValue<'a> for Str<'a> {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let offset = enc.position();
        if self.0.contains(&0) {
            return Err(EncodeError::Invalid {
                what: "name with a NUL byte",
                offset,
            });
        }
        let len = self.0.len() + 1;
        if len > MAX_ATTR_PAYLOAD {
            return Err(EncodeError::AttrTooLong { attr, offset, len });
        }
        // Names are at most 255 bytes in nf_tables; longer ones go out in two writes.
        let mut short = [0; 256];
        if let Some(room) = short.get_mut(..self.0.len())
            && self.0.len() < 256
        {
            room.copy_from_slice(self.0);
            return enc.put_attr_bytes(attr, &short[..len]);
        }
        let mut nest = enc.nest(attr)?;
        nest.put(self.0)?;
        nest.put(&[0])?;
        nest.end()?;
        // A string is no nest.
        enc.patch(offset + 2, &(attr & !NLA_F_NESTED).to_ne_bytes());
        Ok(())
    }

    #[inline]
    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        // The kernel accepts NLA_STRING with and without NUL; it sends one.
        let bytes = attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload);
        if bytes.contains(&0) {
            return Err(attr.error(DecodeErrorKind::BadString, what));
        }
        Ok(Self(bytes))
    }
}
