//! Borrowed views of received messages.

use super::{Body, HEADER_LEN, Header, NFGEN_LEN, NfGen};
use crate::{Attrs, DecodeError, DecodeErrorKind, align};

/// One received message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Msg<'a> {
    /// Its header.
    pub header: Header,
    /// What follows the header.
    pub payload: &'a [u8],
    /// Where the message starts in the datagram.
    pub offset: usize,
}

impl<'a> Msg<'a> {
    /// The message as one of nfnetlink.
    ///
    /// # Errors
    /// [`DecodeErrorKind::WrongType`] for netlink's control messages,
    /// [`DecodeErrorKind::Truncated`].
    pub fn nfnetlink(&self) -> Result<NfMsg<'a>, DecodeError> {
        if self.header.kind.is_control() {
            return Err(DecodeError::new(
                DecodeErrorKind::WrongType,
                "nlmsghdr",
                self.offset,
            ));
        }
        Ok(NfMsg {
            header: self.header,
            nfgen: NfGen::decode(self.payload)?,
            attrs: self.payload.get(NFGEN_LEN..).unwrap_or_default(),
        })
    }
}

/// One received nfnetlink message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfMsg<'a> {
    /// Netlink header.
    pub header: Header,
    /// nfnetlink header.
    pub nfgen: NfGen,
    /// Its attributes; see [`NfMsg::attrs`].
    pub attrs: &'a [u8],
}

impl<'a> NfMsg<'a> {
    /// Iterates over the attributes.
    #[must_use]
    pub fn attrs(&self) -> Attrs<'a> {
        Attrs::new(self.attrs)
    }

    /// Reads the attributes as `B`. Which type a message holds is for the caller to know from
    /// [`Header::kind`].
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn body<B: Body<'a>>(&self) -> Result<B, DecodeError> {
        B::decode_body(self.attrs())
    }
}

/// Iterates over the messages of a datagram; ends after the first error.
#[derive(Debug, Clone, Copy)]
pub struct Messages<'a> {
    buf: &'a [u8],
    offset: usize,
}

impl<'a> Messages<'a> {
    /// Over the messages in `datagram`.
    #[must_use]
    pub const fn new(datagram: &'a [u8]) -> Self {
        Self {
            buf: datagram,
            offset: 0,
        }
    }

    /// The bytes not yet visited.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.buf.get(self.offset..).unwrap_or_default()
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Msg<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.rest();
        if rest.is_empty() {
            return None;
        }
        let offset = self.offset;
        // Whatever goes wrong ends the iteration.
        self.offset = self.buf.len();
        let fail = |kind| Some(Err(DecodeError::new(kind, "nlmsghdr", offset)));
        let Ok(header) = Header::decode(rest) else {
            return fail(DecodeErrorKind::Truncated);
        };
        let Ok(len) = usize::try_from(header.len) else {
            return fail(DecodeErrorKind::Truncated);
        };
        if len < HEADER_LEN {
            return fail(DecodeErrorKind::BadLength);
        }
        let Some(payload) = rest.get(HEADER_LEN..len) else {
            return fail(DecodeErrorKind::Truncated);
        };
        self.offset = self.buf.len().min(offset.saturating_add(align(len)));
        Some(Ok(Msg {
            header,
            payload,
            offset,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SliceCursor;
    use crate::msg::{Family, Head, Message, NftMsg};

    #[test]
    fn lengths_are_checked() {
        let mut buf = [0; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        let head = Head::nft(NftMsg::GET_GEN, Family::UNSPEC);
        Message::begin(&mut cursor, &head).unwrap().end().unwrap();
        Message::begin(&mut cursor, &head).unwrap().end().unwrap();
        let mut bytes = [0; 40];
        bytes.copy_from_slice(cursor.written());
        assert_eq!(Messages::new(&bytes).filter(Result::is_ok).count(), 2);

        for (len, kind) in [
            (0_u32, DecodeErrorKind::BadLength),
            (15, DecodeErrorKind::BadLength),
            (21, DecodeErrorKind::Truncated),
            (u32::MAX, DecodeErrorKind::Truncated),
        ] {
            bytes[20..24].copy_from_slice(&len.to_ne_bytes());
            let mut messages = Messages::new(&bytes);
            assert!(messages.next().unwrap().is_ok());
            let err = messages.next().unwrap().unwrap_err();
            assert_eq!((err.kind, err.offset), (kind, 20), "length {len}");
            assert!(messages.next().is_none());
        }
    }

    #[test]
    fn a_tail_shorter_than_a_header_is_an_error() {
        let err = Messages::new(&[0; 15]).next().unwrap().unwrap_err();
        assert_eq!(err.kind, DecodeErrorKind::Truncated);
    }
}
