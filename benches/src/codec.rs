//! The codec's cases: one NEWSETELEM message of 1,000 map elements with 16-byte keys and 8-byte
//! data, encoded and decoded by us and by code that checks nothing.

use nl_codec::msg::{Family, Head, Messages, NftMsg};
use nl_codec::nft::Data;
use nl_codec::nft::elem::{ElemList, ElemRow, put_elems};
use nl_codec::{DecodeError, EncodeError, SliceCursor};

/// Elements in the message.
pub const ELEMENTS: usize = 1000;

/// Keys and data to encode.
#[derive(Debug)]
pub struct Rows(Vec<([u8; 16], [u8; 8])>);

impl Default for Rows {
    fn default() -> Self {
        let row = |i: usize| {
            let mut key = [0; 16];
            key[..8].copy_from_slice(&(i as u64).to_be_bytes());
            (key, [10, 0, 0, 1, 0, 80, 0, 0])
        };
        Self((0..ELEMENTS).map(row).collect())
    }
}

impl Rows {
    /// With nl-codec: every length and the buffer's end checked. Returns the bytes written.
    ///
    /// # Errors
    /// When `buf` is too small.
    pub fn encode(&self, buf: &mut [u8]) -> Result<usize, EncodeError> {
        let mut cursor = SliceCursor::new(buf);
        let head = Head::nft(NftMsg::NEW_SETELEM, Family::IPV4);
        let mut rows = self
            .0
            .iter()
            .map(|(key, data)| ElemRow {
                key,
                data: Some(data),
            })
            .peekable();
        put_elems(
            &mut cursor,
            &head,
            &ElemList::with_id("kube-proxy", 1),
            &mut rows,
        )?;
        Ok(cursor.written().len())
    }

    /// The floor: a cursor that checks no length, has no errors and patches lengths at the end.
    /// Writes the same bytes. `buf` must be large enough.
    #[allow(clippy::cast_possible_truncation, reason = "the floor checks nothing")]
    pub fn encode_unchecked(&self, buf: &mut [u8]) -> usize {
        let mut pos = 0;
        let mut put = |at: &mut usize, bytes: &[u8]| {
            buf[*at..*at + bytes.len()].copy_from_slice(bytes);
            *at += bytes.len();
        };
        put(&mut pos, &[0; 4]);
        put(&mut pos, &[NftMsg::NEW_SETELEM.0, 10, 1, 0]);
        put(&mut pos, &[0; 8]);
        put(&mut pos, &[2, 0, 0, 0]);
        put(&mut pos, &[15, 0, 1, 0]);
        put(&mut pos, b"kube-proxy\0\0");
        put(&mut pos, &[8, 0, 4, 0]);
        put(&mut pos, &1_u32.to_be_bytes());
        let list = pos;
        put(&mut pos, &[0, 0, 3, 0x80]);
        for (key, data) in &self.0 {
            put(&mut pos, &[44, 0, 1, 0x80]);
            put(&mut pos, &[24, 0, 1, 0x80, 20, 0, 1, 0]);
            put(&mut pos, key);
            put(&mut pos, &[16, 0, 2, 0x80, 12, 0, 1, 0]);
            put(&mut pos, data);
        }
        buf[list..list + 2].copy_from_slice(&((pos - list) as u16).to_ne_bytes());
        buf[..4].copy_from_slice(&(pos as u32).to_ne_bytes());
        pos
    }
}

/// Reads a message of [`Rows`] row by row; returns a sum over keys and data.
///
/// # Errors
/// When the bytes are no such message.
pub fn decode_rows(bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut sum = 0;
    for message in Messages::new(bytes) {
        let list: ElemList<'_> = message?.nfnetlink()?.body()?;
        for elem in list.elems.iter().flat_map(|elems| elems.raw()) {
            if let Some(row) = elem?.row() {
                sum += checksum(row.key, row.data.unwrap_or_default());
            }
        }
    }
    Ok(sum)
}

/// As [`decode_rows`], with every attribute an element can have.
///
/// # Errors
/// When the bytes are no such message.
pub fn decode_elements(bytes: &[u8]) -> Result<u64, DecodeError> {
    let mut sum = 0;
    for message in Messages::new(bytes) {
        let list: ElemList<'_> = message?.nfnetlink()?.body()?;
        for elem in list.elems.iter().flatten() {
            let elem = elem?;
            if let (Some(key), Some(Data::Value(data))) = (elem.key_bytes(), &elem.data) {
                sum += checksum(key, data.as_bytes());
            }
        }
    }
    Ok(sum)
}

/// The floor: walks the attributes by their lengths, without looking at a type or having errors.
/// The list must be the message's last attribute.
#[must_use]
pub fn decode_by_hand(bytes: &[u8]) -> u64 {
    let len = |at: usize| usize::from(u16::from_ne_bytes([bytes[at], bytes[at + 1]]));
    let next = |at: usize| at + len(at).next_multiple_of(4);
    let mut sum = 0;
    let mut attr = 20;
    while next(attr) < bytes.len() {
        attr = next(attr);
    }
    let mut elem = attr + 4;
    while elem < bytes.len() {
        let key = elem + 4;
        let data = next(key);
        let value = |nest: usize| &bytes[nest + 8..nest + 4 + len(nest + 4)];
        sum += checksum(value(key), value(data));
        elem = next(elem);
    }
    sum
}

/// Looks at the bytes, as whoever decodes them does.
fn checksum(key: &[u8], data: &[u8]) -> u64 {
    let first = |bytes: &[u8]| {
        let bytes = bytes.first_chunk().copied();
        u64::from_be_bytes(bytes.unwrap_or_default())
    };
    first(key).wrapping_add(first(data) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn the_floor_writes_the_same_bytes() {
        let rows = Rows::default();
        let (mut ours, mut floor) = (vec![0; 1 << 17], vec![0; 1 << 17]);
        let len = rows.encode(&mut ours).unwrap();
        assert_eq!(rows.encode_unchecked(&mut floor), len);
        assert!(ours[..len] == floor[..len], "the bytes differ");
    }

    #[test]
    fn all_decoders_find_the_same() {
        let mut buf = vec![0; 1 << 17];
        let len = Rows::default().encode(&mut buf).unwrap();
        // 0 to 999, and 1,000 times the address.
        let expected = 499_500 + 1_000 * 0x0a00_0001;
        assert_eq!(decode_rows(&buf[..len]), Ok(expected));
        assert_eq!(decode_elements(&buf[..len]), Ok(expected));
        assert_eq!(decode_by_hand(&buf[..len]), expected);
    }
}
