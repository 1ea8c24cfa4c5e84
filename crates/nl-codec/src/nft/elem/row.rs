//! The hot path: rows with a key and at most plain data.

use byteorder::{ByteOrder, NativeEndian};

use super::{NFTA_LIST_ELEM, PutElem};
use crate::wire::{ATTR_HEADER_LEN, MAX_ATTR_PAYLOAD, align};
use crate::{EncodeError, Encoder, NLA_F_NESTED};

pub(super) const NFTA_SET_ELEM_KEY: u16 = 1;
pub(super) const NFTA_SET_ELEM_DATA: u16 = 2;
pub(super) const NFTA_DATA_VALUE: u16 = 1;

/// Two attribute headers: the key's or datum's nest, and the value in it.
pub(super) const VALUE_HEADERS_LEN: usize = 2 * ATTR_HEADER_LEN;

/// A key, and in maps its data. Written with one check of room, as the same bytes that
/// [`super::Elem`] writes; read by [`super::RawElem::row`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ElemRow<'a> {
    /// Key.
    pub key: &'a [u8],
    /// Data; `None` in sets and when deleting.
    pub data: Option<&'a [u8]>,
}

impl PutElem for ElemRow<'_> {
    #[inline]
    fn put_elem<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        let key_total = VALUE_HEADERS_LEN.saturating_add(align(self.key.len()));
        let data_total = self.data.map_or(0, |data| {
            VALUE_HEADERS_LEN.saturating_add(align(data.len()))
        });
        // Every length inside is smaller than the whole, so one check covers them all.
        let payload = key_total.saturating_add(data_total);
        if payload > MAX_ATTR_PAYLOAD {
            return Err(EncodeError::AttrTooLong {
                attr: NFTA_LIST_ELEM,
                offset: enc.position(),
                len: payload,
            });
        }
        let total = ATTR_HEADER_LEN + payload;
        enc.put_with(total, |room| {
            let Some((header, rest)) = room.split_first_chunk_mut() else {
                return;
            };
            *header = attr_header(total, NFTA_LIST_ELEM | NLA_F_NESTED);
            let Some((key, data)) = rest.split_at_mut_checked(key_total) else {
                return;
            };
            fill_value(key, NFTA_SET_ELEM_KEY, self.key);
            if let Some(value) = self.data {
                fill_value(data, NFTA_SET_ELEM_DATA, value);
            }
        })
    }
}

/// Fills `room` with `attr { NFTA_DATA_VALUE value }` and padding; the caller made it that long.
#[inline]
fn fill_value(room: &mut [u8], attr: u16, value: &[u8]) {
    let Some((headers, rest)) = room.split_first_chunk_mut::<VALUE_HEADERS_LEN>() else {
        return;
    };
    let value_total = ATTR_HEADER_LEN + value.len();
    let nest_total = ATTR_HEADER_LEN + align(value_total);
    headers[..ATTR_HEADER_LEN].copy_from_slice(&attr_header(nest_total, attr | NLA_F_NESTED));
    headers[ATTR_HEADER_LEN..].copy_from_slice(&attr_header(value_total, NFTA_DATA_VALUE));
    if let Some((bytes, padding)) = rest.split_at_mut_checked(value.len()) {
        bytes.copy_from_slice(value);
        padding.fill(0);
    }
}

/// `len` was checked against [`MAX_ATTR_PAYLOAD`].
#[inline]
fn attr_header(len: usize, attr: u16) -> [u8; ATTR_HEADER_LEN] {
    let mut header = [0; ATTR_HEADER_LEN];
    NativeEndian::write_u16(&mut header[..2], u16::try_from(len).unwrap_or(u16::MAX));
    NativeEndian::write_u16(&mut header[2..], attr);
    header
}
