//! Data as registers, keys and map values hold it: opaque bytes, or a verdict.

use core::fmt;

use byteorder::{ByteOrder, NativeEndian, NetworkEndian};

use super::Str;
use crate::{Attr, AttrValue, DecodeError, DecodeErrorKind, EncodeError, Encoder};

const INLINE: usize = 22;

/// Bytes of a register value, key or datum (at most 64 in the kernel, `NFT_DATA_VALUE_MAXLEN`).
/// Holds short values itself so that rules can be built from temporaries; borrows longer ones.
#[derive(Clone, Copy)]
pub struct Value<'a>(Repr<'a>);

#[derive(Clone, Copy)]
enum Repr<'a> {
    Inline { len: u8, bytes: [u8; INLINE] },
    Borrowed(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Borrows `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(Repr::Borrowed(bytes))
    }

    /// Copies up to 22 bytes; `None` if longer.
    #[must_use]
    pub fn inline(value: &[u8]) -> Option<Self> {
        let mut bytes = [0; INLINE];
        bytes.get_mut(..value.len())?.copy_from_slice(value);
        Some(Self(Repr::Inline {
            len: u8::try_from(value.len()).ok()?,
            bytes,
        }))
    }

    /// One byte.
    #[must_use]
    pub fn u8(value: u8) -> Self {
        Self::small(&[value])
    }

    /// Two bytes in network order (ports).
    #[must_use]
    pub fn u16_be(value: u16) -> Self {
        let mut bytes = [0; 2];
        NetworkEndian::write_u16(&mut bytes, value);
        Self::small(&bytes)
    }

    /// Two bytes in host order.
    #[must_use]
    pub fn u16_ne(value: u16) -> Self {
        let mut bytes = [0; 2];
        NativeEndian::write_u16(&mut bytes, value);
        Self::small(&bytes)
    }

    /// Four bytes in network order.
    #[must_use]
    pub fn u32_be(value: u32) -> Self {
        let mut bytes = [0; 4];
        NetworkEndian::write_u32(&mut bytes, value);
        Self::small(&bytes)
    }

    /// Four bytes in host order (marks, priorities, conntrack state bits, numgen results).
    #[must_use]
    pub fn u32_ne(value: u32) -> Self {
        let mut bytes = [0; 4];
        NativeEndian::write_u32(&mut bytes, value);
        Self::small(&bytes)
    }

    fn small<const N: usize>(value: &[u8; N]) -> Self {
        const { assert!(N <= INLINE) };
        let mut bytes = [0; INLINE];
        bytes[..N].copy_from_slice(value);
        let len = u8::try_from(N).unwrap_or_default();
        Self(Repr::Inline { len, bytes })
    }

    /// The bytes.
    #[must_use]
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => bytes.get(..usize::from(*len)).unwrap_or_default(),
            Repr::Borrowed(bytes) => bytes,
        }
    }
}

impl<'a> From<&'a [u8]> for Value<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self::new(bytes)
    }
}

impl PartialEq for Value<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Value<'_> {}

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("0x")?;
        self.as_bytes()
            .iter()
            .try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<'a> AttrValue<'a> for Value<'a> {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        enc.put_attr_bytes(attr, self.as_bytes())
    }

    #[inline]
    fn decode(attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self::new(attr.payload))
    }
}

open_enum! {
    /// What a rule or verdict map tells the kernel to do (`enum nft_verdicts`, `NF_*`).
    pub struct VerdictCode(i32) {
        /// Drop the packet.
        DROP = 0, "drop";
        /// Let it pass this base chain.
        ACCEPT = 1, "accept";
        /// Hand it to user space.
        QUEUE = 3, "queue";
        /// Go on with the next rule.
        CONTINUE = -1, "continue";
        /// End this rule.
        BREAK = -2, "break";
        /// Evaluate a chain, then come back.
        JUMP = -3, "jump";
        /// Evaluate a chain, do not come back.
        GOTO = -4, "goto";
        /// Go back to the calling chain.
        RETURN = -5, "return";
    }
}

attr_struct! {
    /// A verdict (`NFTA_VERDICT_*`).
    pub struct Verdict<'a> {
        /// What to do.
        1 => code: VerdictCode,
        /// Target of jump and goto, by name.
        2 => chain: Str<'a>,
        /// Target of jump and goto, by id of a chain created in the same batch.
        3 => chain_id: u32,
    }
}

impl<'a> Verdict<'a> {
    /// A verdict without a target.
    #[must_use]
    pub fn code(code: VerdictCode) -> Self {
        Self {
            code: Some(code),
            ..Self::default()
        }
    }

    /// Jump to `chain`.
    #[must_use]
    pub fn jump(chain: &'a str) -> Self {
        Self {
            code: Some(VerdictCode::JUMP),
            chain: Some(chain.into()),
            ..Self::default()
        }
    }

    /// Go to `chain`.
    #[must_use]
    pub fn goto(chain: &'a str) -> Self {
        Self {
            code: Some(VerdictCode::GOTO),
            chain: Some(chain.into()),
            ..Self::default()
        }
    }
}

/// A register's content on the wire (`NFTA_DATA_*`): bytes or a verdict.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Data<'a> {
    /// `NFTA_DATA_VALUE`.
    Value(Value<'a>),
    /// `NFTA_DATA_VERDICT`.
    Verdict(Verdict<'a>),
}

impl<'a> AttrValue<'a> for Data<'a> {
    #[inline]
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let mut nest = enc.nest(attr)?;
        match self {
            Self::Value(value) => value.encode(1, &mut *nest)?,
            Self::Verdict(verdict) => verdict.encode(2, &mut *nest)?,
        }
        nest.end()
    }

    #[inline]
    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        for inner in attr.nested() {
            let inner = inner?;
            match inner.kind {
                1 => return inner.value(what).map(Self::Value),
                2 => return inner.value(what).map(Self::Verdict),
                _ => {}
            }
        }
        Err(attr.error(DecodeErrorKind::Missing, what))
    }
}
