//! The [`Encoder`] trait and its two sinks, and the guard that closes a nested attribute.

use byteorder::{ByteOrder, NativeEndian};

use crate::EncodeError;
use crate::attr::NLA_F_NESTED;
use crate::wire::{ALIGN, ATTR_HEADER_LEN, MAX_ATTR_PAYLOAD, align};

/// Where encoded bytes go. Implemented by [`SliceCursor`], which writes, and [`LenCounter`], which
/// only counts; both apply the same length checks, so a message that counts also encodes, given
/// room.
pub trait Encoder {
    /// Bytes produced so far.
    fn position(&self) -> usize;

    /// Appends `bytes`.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] when the buffer is full; nothing is written then.
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError>;

    /// Appends an attribute header for `payload_len` bytes, the payload and its padding.
    ///
    /// # Errors
    /// [`EncodeError::AttrTooLong`] or [`EncodeError::NoRoom`]; nothing is written then.
    fn put_attr_bytes(&mut self, attr: u16, payload: &[u8]) -> Result<(), EncodeError>;

    /// Appends `len` bytes which `fill` writes, all of them: what it leaves is whatever the buffer
    /// held before. A sink that only counts does not call it.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`] when the buffer is full; `fill` is not called then.
    fn put_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), EncodeError>
    where
        Self: Sized;

    /// Overwrites bytes already produced at `offset`; out of range is ignored.
    fn patch(&mut self, offset: usize, bytes: &[u8]);

    /// Drops everything from `position` on; a position beyond the end is ignored.
    fn truncate(&mut self, position: usize);

    /// Opens a nested attribute (`NLA_F_NESTED` is added). Close it with [`Nest::end`]; dropping
    /// the guard without that removes the attribute.
    ///
    /// # Errors
    /// [`EncodeError::NoRoom`].
    #[inline]
    fn nest(&mut self, attr: u16) -> Result<Nest<'_, Self>, EncodeError>
    where
        Self: Sized,
    {
        let start = self.position();
        let mut header = [0; ATTR_HEADER_LEN];
        NativeEndian::write_u16(&mut header[2..], attr | NLA_F_NESTED);
        self.put(&header)?;
        Ok(Nest {
            enc: self,
            start,
            attr,
            open: true,
        })
    }
}

/// Writes into a caller's buffer.
#[derive(Debug)]
pub struct SliceCursor<'b> {
    buf: &'b mut [u8],
    pos: usize,
}

impl<'b> SliceCursor<'b> {
    /// Starts writing at the beginning of `buf`.
    pub fn new(buf: &'b mut [u8]) -> Self {
        Self { buf, pos: 0 }
    }

    /// What was written.
    #[must_use]
    pub fn written(&self) -> &[u8] {
        self.buf.get(..self.pos).unwrap_or_default()
    }

    /// Bytes left in the buffer.
    #[must_use]
    pub fn remaining(&self) -> usize {
        self.buf.len().saturating_sub(self.pos)
    }
}

impl Encoder for SliceCursor<'_> {
    #[inline]
    fn position(&self) -> usize {
        self.pos
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.put_with(bytes.len(), |room| room.copy_from_slice(bytes))
    }

    #[inline]
    fn put_attr_bytes(&mut self, attr: u16, payload: &[u8]) -> Result<(), EncodeError> {
        let len = attr_len(attr, payload.len(), self.pos)?;
        self.put_with(align(usize::from(len)), |room| {
            let (header, rest) = room.split_at_mut(ATTR_HEADER_LEN);
            NativeEndian::write_u16(&mut header[..2], len);
            NativeEndian::write_u16(&mut header[2..], attr);
            let (value, padding) = rest.split_at_mut(payload.len());
            value.copy_from_slice(payload);
            padding.fill(0);
        })
    }

    #[inline]
    fn put_with(&mut self, len: usize, fill: impl FnOnce(&mut [u8])) -> Result<(), EncodeError> {
        let room = self
            .buf
            .get_mut(self.pos..)
            .and_then(|rest| rest.get_mut(..len));
        let Some(room) = room else {
            return Err(EncodeError::NoRoom {
                offset: self.pos,
                needed: len,
            });
        };
        fill(room);
        self.pos += len;
        Ok(())
    }

    #[inline]
    fn patch(&mut self, offset: usize, bytes: &[u8]) {
        let end = offset.saturating_add(bytes.len());
        if end <= self.pos
            && let Some(target) = self.buf.get_mut(offset..end)
        {
            target.copy_from_slice(bytes);
        }
    }

    #[inline]
    fn truncate(&mut self, position: usize) {
        self.pos = self.pos.min(position);
    }
}

/// Counts what a [`SliceCursor`] would write; never runs out of room.
#[derive(Debug, Default, Clone, Copy)]
pub struct LenCounter {
    pos: usize,
}

impl LenCounter {
    /// Starts at zero.
    #[must_use]
    pub const fn new() -> Self {
        Self { pos: 0 }
    }
}

impl Encoder for LenCounter {
    #[inline]
    fn position(&self) -> usize {
        self.pos
    }

    #[inline]
    fn put(&mut self, bytes: &[u8]) -> Result<(), EncodeError> {
        self.pos = self.pos.saturating_add(bytes.len());
        Ok(())
    }

    #[inline]
    fn put_attr_bytes(&mut self, attr: u16, payload: &[u8]) -> Result<(), EncodeError> {
        let len = attr_len(attr, payload.len(), self.pos)?;
        self.pos = self.pos.saturating_add(align(usize::from(len)));
        Ok(())
    }

    #[inline]
    fn put_with(&mut self, len: usize, _fill: impl FnOnce(&mut [u8])) -> Result<(), EncodeError> {
        self.pos = self.pos.saturating_add(len);
        Ok(())
    }

    #[inline]
    fn patch(&mut self, _offset: usize, _bytes: &[u8]) {}

    #[inline]
    fn truncate(&mut self, position: usize) {
        self.pos = self.pos.min(position);
    }
}

/// `nla_len` for a payload, or the error that says it cannot be expressed.
#[inline]
fn attr_len(attr: u16, payload: usize, offset: usize) -> Result<u16, EncodeError> {
    if payload > MAX_ATTR_PAYLOAD {
        return Err(EncodeError::AttrTooLong {
            attr,
            offset,
            len: payload,
        });
    }
    u16::try_from(payload + ATTR_HEADER_LEN).map_err(|_| EncodeError::AttrTooLong {
        attr,
        offset,
        len: payload,
    })
}

/// An open nested attribute. Dereferences to its encoder; [`Nest::end`] writes the length.
#[derive(Debug)]
#[must_use = "a nest that is not ended is removed again"]
pub struct Nest<'e, E: Encoder> {
    enc: &'e mut E,
    start: usize,
    attr: u16,
    open: bool,
}

impl<E: Encoder> Nest<'_, E> {
    /// Closes the attribute, padding after a payload put raw.
    ///
    /// # Errors
    /// [`EncodeError::AttrTooLong`] if what was put inside exceeds 65,531 bytes,
    /// [`EncodeError::NoRoom`] if the padding does not fit; the attribute is removed then.
    #[inline]
    pub fn end(mut self) -> Result<(), EncodeError> {
        let payload = self
            .enc
            .position()
            .saturating_sub(self.start + ATTR_HEADER_LEN);
        let len = attr_len(self.attr, payload, self.start)?;
        if !payload.is_multiple_of(ALIGN) {
            let padding = align(payload) - payload;
            self.enc
                .put([0; ALIGN].get(..padding).unwrap_or_default())?;
        }
        let mut bytes = [0; 2];
        NativeEndian::write_u16(&mut bytes, len);
        self.enc.patch(self.start, &bytes);
        self.open = false;
        Ok(())
    }
}

open_guard!(Nest);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nest_dropped_unfinished_leaves_no_bytes() {
        let mut buf = [0; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        cursor.put_attr_bytes(1, b"x").unwrap();
        let before = cursor.position();
        {
            let mut nest = cursor.nest(2).unwrap();
            nest.put_attr_bytes(3, b"abcd").unwrap();
        }
        assert_eq!(cursor.position(), before);
    }

    #[test]
    fn nest_length_is_exact_at_the_limit_and_an_error_beyond() {
        let mut buf = [0; 70_000];
        for (payload, ok) in [(65_524, true), (65_528, false)] {
            let mut cursor = SliceCursor::new(&mut buf);
            let mut nest = cursor.nest(2).unwrap();
            nest.put_attr_bytes(1, &[7; 65_528][..payload]).unwrap();
            assert_eq!(nest.end().is_ok(), ok, "{payload}");
            if !ok {
                assert_eq!(cursor.position(), 0);
            }
        }
    }

    #[test]
    fn counter_agrees_with_cursor() {
        let mut buf = [0; 64];
        let mut cursor = SliceCursor::new(&mut buf);
        let mut counter = LenCounter::new();
        fn encode<E: Encoder>(e: &mut E) -> Result<(), EncodeError> {
            let mut nest = e.nest(9)?;
            nest.put_attr_bytes(1, b"hello")?;
            nest.end()
        }
        encode(&mut cursor).unwrap();
        encode(&mut counter).unwrap();
        assert_eq!(cursor.position(), counter.position());
        assert_eq!(cursor.position(), 16);
    }

    #[test]
    fn running_out_of_room_names_the_offset_and_writes_nothing() {
        let mut buf = [0; 10];
        let mut cursor = SliceCursor::new(&mut buf);
        cursor.put_attr_bytes(1, b"abc").unwrap();
        let err = cursor.put_attr_bytes(2, b"abc").unwrap_err();
        assert_eq!(
            err,
            EncodeError::NoRoom {
                offset: 8,
                needed: 8
            }
        );
        assert_eq!(cursor.position(), 8);
    }
}
