//! Userdata: what nft remembers about an object and the kernel only keeps.
//!
//! ```text
//! userdata = type u8 | length u8 | value (length bytes), …      no padding; at most 256 bytes
//! ```
//! Strings end with a NUL, integers are 4 bytes in *host* order (`include/libnftnl/udata.h` and
//! `src/udata.c` of libnftnl; types are numbered per kind of object).

use core::fmt;

use byteorder::{ByteOrder as _, NativeEndian};

use super::Str;
use super::dtype::ByteOrder;
use crate::{DecodeError, DecodeErrorKind, EncodeError};

/// The kernel's limit for a whole userdata (`NFT_USERDATA_MAXLEN`). Element userdata is one byte
/// shorter.
pub const MAX_LEN: usize = 256;

/// nft's limit for a comment, its NUL included (`NFTNL_UDATA_COMMENT_MAXLEN`).
pub const MAX_COMMENT: usize = 128;

/// Type of the comment of a table, chain, rule, object or element; sets have their own.
pub const COMMENT: u8 = 0;

open_enum! {
    /// Types of a table's userdata, besides [`COMMENT`].
    pub struct TableUdata(u8) {
        /// Version of the nft that made it.
        NFT_VERSION = 1, "nft version";
        /// Build of the nft that made it.
        NFT_BUILD = 2, "nft build";
    }
}

open_enum! {
    /// Types of a rule's userdata, besides [`COMMENT`].
    pub struct RuleUdata(u8) {
        /// Policy of an ebtables rule, 4 bytes.
        EBTABLES_POLICY = 1, "ebtables policy";
    }
}

open_enum! {
    /// Types of an element's userdata, besides [`COMMENT`].
    pub struct ElemUdata(u8) {
        /// Flags, 4 bytes; bit 0: an interval that is open to the right.
        FLAGS = 1, "flags";
    }
}

open_enum! {
    /// Types of a set's userdata.
    pub struct SetUdata(u8) {
        /// Byte order of the key, [`ByteOrder`].
        KEY_BYTE_ORDER = 0, "key byte order";
        /// Byte order of the data, [`ByteOrder`].
        DATA_BYTE_ORDER = 1, "data byte order";
        /// Whether adjacent intervals are merged (`auto-merge`), 4 bytes.
        MERGE_ELEMENTS = 2, "merge elements";
        /// Expression whose type the key has (`typeof`), nested userdata.
        KEY_TYPEOF = 3, "key typeof";
        /// Expression whose type the data has, nested userdata.
        DATA_TYPEOF = 4, "data typeof";
        /// Expressions of the elements.
        EXPR = 5, "expr";
        /// Whether a map's data are intervals, 4 bytes.
        DATA_INTERVAL = 6, "data interval";
        /// Comment.
        COMMENT = 7, "comment";
    }
}

/// One entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tlv<'a> {
    /// Type, per kind of object.
    pub kind: u8,
    /// Value.
    pub value: &'a [u8],
    /// Where the entry starts.
    pub offset: usize,
}

impl<'a> Tlv<'a> {
    /// The value as a string; its NUL is taken off.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadString`].
    pub fn string(&self) -> Result<Str<'a>, DecodeError> {
        match self.value.split_last() {
            Some((0, bytes)) if !bytes.contains(&0) => Ok(Str::new(bytes)),
            _ => Err(self.error(DecodeErrorKind::BadString)),
        }
    }

    /// The value as an integer in host order.
    ///
    /// # Errors
    /// [`DecodeErrorKind::BadSize`].
    pub fn int(&self) -> Result<u32, DecodeError> {
        match self.value.len() {
            4 => Ok(NativeEndian::read_u32(self.value)),
            _ => Err(self.error(DecodeErrorKind::BadSize)),
        }
    }

    fn error(&self, kind: DecodeErrorKind) -> DecodeError {
        DecodeError::new(kind, "userdata", self.offset)
    }
}

/// Iterates over the entries of a userdata; ends after the first error.
#[derive(Debug, Clone, Copy)]
pub struct Tlvs<'a> {
    buf: &'a [u8],
    offset: usize,
}

impl<'a> Tlvs<'a> {
    /// Over the entries in `userdata`.
    #[must_use]
    pub const fn new(userdata: &'a [u8]) -> Self {
        Self {
            buf: userdata,
            offset: 0,
        }
    }
}

impl<'a> Iterator for Tlvs<'a> {
    type Item = Result<Tlv<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = self.offset;
        let rest = self.buf.get(offset..).filter(|rest| !rest.is_empty())?;
        let entry = rest.split_first_chunk::<2>().and_then(|(head, rest)| {
            let [kind, len] = *head;
            rest.get(..usize::from(len)).map(|value| (kind, value))
        });
        let Some((kind, value)) = entry else {
            self.offset = self.buf.len();
            let err = DecodeError::new(DecodeErrorKind::Truncated, "userdata", offset);
            return Some(Err(err));
        };
        self.offset = offset + 2 + value.len();
        Some(Ok(Tlv {
            kind,
            value,
            offset,
        }))
    }
}

/// The comment of a table, chain, rule, object or element, if it has one that can be read.
#[must_use]
pub fn comment(userdata: &[u8]) -> Option<Str<'_>> {
    find(userdata, COMMENT)?.string().ok()
}

/// The first entry of type `kind`.
fn find(userdata: &[u8], kind: u8) -> Option<Tlv<'_>> {
    Tlvs::new(userdata)
        .map_while(Result::ok)
        .find(|tlv| tlv.kind == kind)
}

/// What nft remembers about a set, apart from `typeof` expressions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SetInfo<'a> {
    /// Byte order of the key; without it nft shows host-order keys swapped.
    pub key_byte_order: Option<ByteOrder>,
    /// Byte order of a map's data.
    pub data_byte_order: Option<ByteOrder>,
    /// Whether adjacent intervals are merged.
    pub merge_elements: Option<bool>,
    /// Whether a map's data are intervals.
    pub data_interval: Option<bool>,
    /// Comment.
    pub comment: Option<Str<'a>>,
}

impl<'a> SetInfo<'a> {
    /// Reads a set's userdata; unknown entries are skipped.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(userdata: &'a [u8]) -> Result<Self, DecodeError> {
        let mut out = Self::default();
        for tlv in Tlvs::new(userdata) {
            let tlv = tlv?;
            match SetUdata(tlv.kind) {
                SetUdata::KEY_BYTE_ORDER => out.key_byte_order = Some(ByteOrder(tlv.int()?)),
                SetUdata::DATA_BYTE_ORDER => out.data_byte_order = Some(ByteOrder(tlv.int()?)),
                SetUdata::MERGE_ELEMENTS => out.merge_elements = Some(tlv.int()? != 0),
                SetUdata::DATA_INTERVAL => out.data_interval = Some(tlv.int()? != 0),
                SetUdata::COMMENT => out.comment = Some(tlv.string()?),
                _ => {}
            }
        }
        Ok(out)
    }

    /// Writes a set's userdata.
    ///
    /// # Errors
    /// As [`Udata::push`].
    pub fn encode(&self) -> Result<Udata, EncodeError> {
        let mut out = Udata::new();
        if let Some(order) = self.key_byte_order {
            out.push_int(SetUdata::KEY_BYTE_ORDER.0, order.0)?;
        }
        if let Some(order) = self.data_byte_order {
            out.push_int(SetUdata::DATA_BYTE_ORDER.0, order.0)?;
        }
        if let Some(merge) = self.merge_elements {
            out.push_int(SetUdata::MERGE_ELEMENTS.0, u32::from(merge))?;
        }
        if let Some(interval) = self.data_interval {
            out.push_int(SetUdata::DATA_INTERVAL.0, u32::from(interval))?;
        }
        if let Some(comment) = self.comment {
            out.push_string(SetUdata::COMMENT.0, comment)?;
        }
        Ok(out)
    }
}

/// Builds a userdata in place.
#[derive(Clone, Copy)]
pub struct Udata {
    len: usize,
    bytes: [u8; MAX_LEN],
}

impl Udata {
    /// Nothing yet.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            len: 0,
            bytes: [0; MAX_LEN],
        }
    }

    /// A table, chain, rule, object or element comment.
    ///
    /// # Errors
    /// As [`Self::push_string`]. nft itself refuses more than 127 bytes.
    pub fn with_comment<'s>(comment: impl Into<Str<'s>>) -> Result<Self, EncodeError> {
        let mut out = Self::new();
        out.push_string(COMMENT, comment)?;
        Ok(out)
    }

    /// Appends an entry.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] when the whole would exceed [`MAX_LEN`]; nothing is appended then.
    pub fn push(&mut self, kind: u8, value: &[u8]) -> Result<(), EncodeError> {
        self.push_parts(kind, value, &[])
    }

    /// Appends a string and its NUL.
    ///
    /// # Errors
    /// As [`Self::push`]; [`EncodeError::Invalid`] with a NUL inside.
    pub fn push_string<'s>(
        &mut self,
        kind: u8,
        value: impl Into<Str<'s>>,
    ) -> Result<(), EncodeError> {
        let value = value.into();
        if value.as_bytes().contains(&0) {
            return Err(EncodeError::Invalid {
                what: "userdata string with a NUL byte",
                offset: self.len,
            });
        }
        self.push_parts(kind, value.as_bytes(), &[0])
    }

    /// Appends an integer in host order.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_int(&mut self, kind: u8, value: u32) -> Result<(), EncodeError> {
        let mut bytes = [0; 4];
        NativeEndian::write_u32(&mut bytes, value);
        self.push(kind, &bytes)
    }

    /// The bytes, for the userdata attribute of an object.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    fn push_parts(&mut self, kind: u8, value: &[u8], tail: &[u8]) -> Result<(), EncodeError> {
        let value_len = value.len() + tail.len();
        let needed = 2 + value_len;
        let room = self
            .bytes
            .get_mut(self.len..)
            .and_then(|rest| rest.get_mut(..needed));
        let (Some(room), Ok(wire_len)) = (room, u8::try_from(value_len)) else {
            return Err(EncodeError::NoRoom {
                offset: self.len,
                needed,
            });
        };
        let (head, body) = room.split_at_mut(2);
        head.copy_from_slice(&[kind, wire_len]);
        let (first, second) = body.split_at_mut(value.len());
        first.copy_from_slice(value);
        second.copy_from_slice(tail);
        self.len += needed;
        Ok(())
    }
}

impl Default for Udata {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Udata {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Udata {}

impl fmt::Debug for Udata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(Tlvs::new(self.as_bytes())).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_as_nft_sends_them() {
        let udata = Udata::with_comment("ec").unwrap();
        assert_eq!(udata.as_bytes(), b"\x00\x03ec\0");
        assert!(comment(udata.as_bytes()).is_some_and(|text| text == *"ec"));
        assert_eq!(comment(b""), None);
        // Without its NUL, with one inside, cut off.
        assert_eq!(comment(b"\x00\x02ec"), None);
        assert_eq!(comment(b"\x00\x04e\0c\0"), None);
        assert_eq!(comment(b"\x00\x09ec\0"), None);
    }

    #[test]
    fn set_integers_are_in_host_order() {
        let info = SetInfo {
            key_byte_order: Some(ByteOrder::HOST),
            comment: Some("sc".into()),
            ..SetInfo::default()
        };
        let udata = info.encode().unwrap();
        let one = 1_u32.to_ne_bytes();
        assert_eq!(&udata.as_bytes()[..2], [0, 4]);
        assert_eq!(&udata.as_bytes()[2..6], one);
        assert_eq!(&udata.as_bytes()[6..], b"\x07\x03sc\0");
        assert_eq!(SetInfo::decode(udata.as_bytes()), Ok(info));
    }

    #[test]
    fn entries_of_nft_that_we_do_not_read_are_skipped() {
        // nft 1.0.6 for a map keyed ipv4_addr . inet_proto . inet_service.
        let bytes = *b"\x00\x04\x00\x00\x00\x00\x01\x04\x00\x00\x00\x00\
            \x03\x08\x00\x04\x0d\x00\x00\x00\x01\x00\x06\x04\x00\x00\x00\x00\x07\x03sc\0";
        let info = SetInfo::decode(&bytes).unwrap();
        assert_eq!(info.key_byte_order, Some(ByteOrder::INVALID));
        assert_eq!(info.data_interval, Some(false));
        assert!(info.comment.is_some_and(|text| text == *"sc"));
        let typeof_entry = Tlvs::new(&bytes).nth(2).unwrap().unwrap();
        assert_eq!(typeof_entry.kind, SetUdata::KEY_TYPEOF.0);
        assert_eq!(Tlvs::new(typeof_entry.value).count(), 2);
    }

    #[test]
    fn room_is_limited() {
        let mut udata = Udata::new();
        udata.push(0, &[7; 200]).unwrap();
        let err = udata.push(1, &[7; 53]).unwrap_err();
        assert_eq!(
            err,
            EncodeError::NoRoom {
                offset: 202,
                needed: 55
            }
        );
        udata.push(1, &[7; 52]).unwrap();
        assert_eq!(udata.as_bytes().len(), MAX_LEN);
        // A value's length is one byte.
        assert!(Udata::new().push(0, &[0; 256]).is_err());
    }
}
