//! Typed errors: `Copy`, matchable, with the offset at which things went wrong.

use thiserror::Error;

/// Why a message could not be encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum EncodeError {
    /// The caller's buffer is full.
    #[error("buffer full at offset {offset}: {needed} more bytes needed")]
    NoRoom {
        /// Where writing would have started.
        offset: usize,
        /// Bytes that did not fit.
        needed: usize,
    },
    /// An attribute's payload is longer than a 16-bit length can say.
    #[error("attribute {attr} at offset {offset} is {len} bytes long, more than 65531")]
    AttrTooLong {
        /// Attribute type.
        attr: u16,
        /// Where the attribute starts.
        offset: usize,
        /// Its payload's length in bytes.
        len: usize,
    },
    /// A message is longer than a 32-bit length can say.
    #[error("message at offset {offset} is longer than 4 GiB")]
    MessageTooLong {
        /// Where the message starts.
        offset: usize,
    },
    /// A value cannot be expressed on the wire.
    #[error("{what} at offset {offset} cannot be encoded")]
    Invalid {
        /// Field or attribute.
        what: &'static str,
        /// Where it would have been written.
        offset: usize,
    },
}

/// What was wrong with received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeErrorKind {
    /// The buffer ends inside a header or a payload.
    #[error("truncated")]
    Truncated,
    /// A length field is shorter than its own header.
    #[error("length field too short")]
    BadLength,
    /// An attribute's payload has the wrong size for its type.
    #[error("payload of unexpected size")]
    BadSize,
    /// A string is not terminated or holds a NUL byte inside.
    #[error("malformed string")]
    BadString,
    /// A mandatory attribute is missing.
    #[error("attribute missing")]
    Missing,
    /// An expression that holds expressions inside another one; the kernel has none.
    #[error("nested too deeply")]
    TooDeep,
    /// A message of another type or subsystem than the decoder expects.
    #[error("unexpected message type")]
    WrongType,
}

/// Why received bytes could not be decoded, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{what}: {kind} at offset {offset}")]
pub struct DecodeError {
    /// What was wrong.
    pub kind: DecodeErrorKind,
    /// Structure or attribute being decoded.
    pub what: &'static str,
    /// Offset within the slice handed to the decoder of that structure.
    pub offset: usize,
}

impl DecodeError {
    /// Builds an error.
    #[must_use]
    pub const fn new(kind: DecodeErrorKind, what: &'static str, offset: usize) -> Self {
        Self { kind, what, offset }
    }
}
