//! Elements of sets and maps (`nft_add_set_elem`, `nf_tables_fill_setelem`).

use core::iter::Peekable;

use super::expr::ExprRef;
use super::{Data, Exprs, List, Str, Value};
use crate::msg::{Head, Message};
use crate::wire::{ATTR_HEADER_LEN, MAX_ATTR_PAYLOAD};
use crate::{AttrValue, EncodeError, Encoder};

mod raw;
mod row;

pub use raw::{RawElem, RawElems};
pub use row::ElemRow;

const NFTA_LIST_ELEM: u16 = 1;
const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;

bitflags::bitflags! {
    /// `NFT_SET_ELEM_*`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct ElemFlags: u32 {
        /// First key after an interval, in sets of a single field.
        const INTERVAL_END = 1;
        /// Stands for all keys that are not in the set; has no key (Linux 5.13).
        const CATCHALL = 2;
        const _ = !0;
    }
}
flags_value!(ElemFlags);

attr_struct! {
    /// An element (`NFTA_SET_ELEM_*`).
    pub struct Elem<'a> {
        /// See [`ElemFlags`].
        3 => flags: ElemFlags,
        /// Lifetime in milliseconds.
        4 => timeout: u64,
        /// Rest of the lifetime in milliseconds.
        5 => expiration: u64,
        /// Key; in interval sets the first one. Fields of a concatenation are padded to 4 bytes.
        1 => key: Data<'a>,
        /// Last key of the interval, inclusive; in concatenated interval sets.
        10 => key_end: Data<'a>,
        /// What a map holds for the key.
        2 => data: Data<'a>,
        /// At most 255 bytes; see [`crate::nft::udata`].
        6 => userdata: &'a [u8],
        /// Name of the stateful object the key maps to.
        9 => objref: Str<'a>,
        /// The one expression of the element, with its state.
        7 => expr: ExprRef<'a>,
        /// The expressions of the element, if several.
        11 => exprs: Exprs<'a>,
    }
}

impl<'a> Elem<'a> {
    /// An element of a set.
    #[must_use]
    pub fn new(key: Value<'a>) -> Self {
        Self {
            key: Some(Data::Value(key)),
            ..Self::default()
        }
    }

    /// A row of a map.
    #[must_use]
    pub fn mapping(key: Value<'a>, data: Data<'a>) -> Self {
        Self {
            data: Some(data),
            ..Self::new(key)
        }
    }

    /// The key's bytes.
    #[must_use]
    pub fn key_bytes(&self) -> Option<&[u8]> {
        match &self.key {
            Some(Data::Value(value)) => Some(value.as_bytes()),
            _ => None,
        }
    }
}

/// Elements: built by the caller, or as received.
pub type Elems<'a> = List<'a, Elem<'a>>;

attr_struct! {
    /// Elements of one set (`NFTA_SET_ELEM_LIST_*`): NEW, GET, DEL and DESTROY SETELEM. Delete
    /// without elements empties the set; get without elements dumps it. To send many elements use
    /// [`put_elems`].
    pub struct ElemList<'a> {
        /// Table.
        1 => table: Str<'a>,
        /// Set, by name.
        2 => set: Str<'a>,
        /// Set, by id of a set created in the same batch.
        4 => set_id: u32,
        /// Elements.
        3 => elems: Elems<'a>,
    }
}

impl<'a> ElemList<'a> {
    /// Names an existing set.
    #[must_use]
    pub fn named(table: &'a str, set: &'a str) -> Self {
        Self {
            table: Some(table.into()),
            set: Some(set.into()),
            ..Self::default()
        }
    }

    /// Names a set of the same batch.
    #[must_use]
    pub fn with_id(table: &'a str, set_id: u32) -> Self {
        Self {
            table: Some(table.into()),
            set_id: Some(set_id),
            ..Self::default()
        }
    }
}

/// What can be written as an element.
pub trait PutElem {
    /// Appends one entry of an element list.
    ///
    /// # Errors
    /// See [`EncodeError`].
    fn put_elem<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError>;
}

impl PutElem for Elem<'_> {
    #[inline]
    fn put_elem<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        self.encode(NFTA_LIST_ELEM, enc)
    }
}

impl<T: PutElem + ?Sized> PutElem for &T {
    #[inline]
    fn put_elem<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        (**self).put_elem(enc)
    }
}

/// Appends one message with as many of `elems` as fit: into the list's 65,531 bytes, and into the
/// encoder's buffer. Returns their number; the first one that did not fit is still in `elems`.
/// Without elements nothing is written.
///
/// # Errors
/// See [`EncodeError`]; only for the first element. Nothing is written then, and no element is
/// consumed.
pub fn put_elems<'a, E, I>(
    enc: &mut E,
    head: &Head,
    list: &ElemList<'a>,
    elems: &mut Peekable<I>,
) -> Result<usize, EncodeError>
where
    E: Encoder,
    I: Iterator<Item: PutElem>,
{
    if elems.peek().is_none() {
        return Ok(0);
    }
    let mut message = Message::begin(enc, head)?;
    list.encode_attrs(&mut *message)?;
    let mut nest = message.nest(NFTA_SET_ELEM_LIST_ELEMENTS)?;
    let limit = nest.start() + ATTR_HEADER_LEN + MAX_ATTR_PAYLOAD;
    let mut count = 0;
    while let Some(elem) = elems.peek() {
        let before = nest.position();
        let result = elem.put_elem(&mut *nest);
        if result.is_ok() && nest.position() <= limit {
            count += 1;
            elems.next();
            continue;
        }
        if count == 0 {
            result?;
            // Too long on its own: ending the nest says so.
            break;
        }
        // Whatever is wrong with this element, the next call begins with it.
        nest.truncate(before);
        break;
    }
    nest.end()?;
    message.end()?;
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::vec;
    use std::vec::Vec;

    use super::*;
    use crate::msg::{Family, Messages, NftMsg};
    use crate::nft::{Verdict, VerdictCode};
    use crate::{LenCounter, SliceCursor};

    fn head() -> Head {
        Head::nft(NftMsg::NEW_SETELEM, Family::IPV4)
    }

    #[test]
    fn a_row_is_the_same_bytes_as_an_element() {
        for (key_len, data_len) in [
            (16, Some(8)),
            (4, None),
            (5, Some(3)),
            (64, Some(64)),
            (0, Some(0)),
        ] {
            let (key, data) = (vec![1; key_len], data_len.map(|len| vec![2; len]));
            let row = ElemRow {
                key: &key,
                data: data.as_deref(),
            };
            let elem = Elem {
                data: data.as_deref().map(|data| Data::Value(Value::new(data))),
                ..Elem::new(Value::new(&key))
            };
            let (mut a, mut b) = ([0xaa; 256], [0xbb; 256]);
            let (mut a, mut b) = (SliceCursor::new(&mut a), SliceCursor::new(&mut b));
            row.put_elem(&mut a).unwrap();
            elem.put_elem(&mut b).unwrap();
            assert_eq!(a.written(), b.written());
            let mut counter = LenCounter::new();
            row.put_elem(&mut counter).unwrap();
            assert_eq!(counter.position(), a.position());
        }
    }

    #[test]
    fn a_row_too_long_is_an_error() {
        let key = vec![0; 65_528];
        let row = ElemRow {
            key: &key,
            data: None,
        };
        let err = row.put_elem(&mut LenCounter::new()).unwrap_err();
        assert!(matches!(err, EncodeError::AttrTooLong { .. }), "{err}");
    }

    /// Splits `count` rows with keys of `key_len` bytes and returns the rows of each message and
    /// the length of its element list.
    fn split(count: usize, key_len: usize, buf: &mut [u8]) -> Vec<(usize, usize)> {
        let key = vec![7; key_len];
        let row = ElemRow {
            key: &key,
            data: None,
        };
        let mut rows = core::iter::repeat_n(row, count).peekable();
        let mut out = Vec::new();
        while rows.peek().is_some() {
            let mut cursor = SliceCursor::new(buf);
            let count = put_elems(&mut cursor, &head(), &ElemList::with_id("t", 1), &mut rows);
            let count = count.unwrap();
            let message = Messages::new(cursor.written()).next().unwrap().unwrap();
            let list: ElemList<'_> = message.nfnetlink().unwrap().body().unwrap();
            let elems = list.elems.unwrap();
            assert!(
                elems
                    .iter()
                    .all(|elem| elem.unwrap().key_bytes() == Some(&key))
            );
            assert_eq!(elems.iter().count(), count);
            // 20 bytes of headers, table and set id with 8 each.
            out.push((count, cursor.position() - 36));
        }
        out
    }

    #[test]
    fn lists_are_split_before_their_length_wraps() {
        let mut buf = vec![0; 200_000];
        // 28 bytes each with a 16-byte key: 2,340 make 65,520 of 65,531.
        assert_eq!(
            split(5_000, 16, &mut buf),
            [(2_340, 65_524), (2_340, 65_524), (320, 8_964)]
        );
        // The largest list there is: one element of 65,528 bytes, 65,532 with the list's header.
        assert_eq!(split(2, 65_516, &mut buf), [(1, 65_532), (1, 65_532)]);
        // Four bytes more than fit.
        let key = vec![7; 65_520];
        let mut rows = [ElemRow {
            key: &key,
            data: None,
        }]
        .into_iter()
        .peekable();
        let mut cursor = SliceCursor::new(&mut buf);
        let err = put_elems(&mut cursor, &head(), &ElemList::named("t", "s"), &mut rows);
        assert!(
            matches!(err, Err(EncodeError::AttrTooLong { .. })),
            "{err:?}"
        );
        assert_eq!(cursor.position(), 0);
        assert!(rows.peek().is_some());
    }

    #[test]
    fn a_full_buffer_ends_the_message_too() {
        let mut buf = [0; 36 + 4 + 3 * 16 + 15];
        assert_eq!(split(7, 4, &mut buf), [(3, 52), (3, 52), (1, 20)]);

        let mut small = [0; 40];
        let mut rows = [Elem::new(Value::u32_be(1))].into_iter().peekable();
        let mut cursor = SliceCursor::new(&mut small);
        let err = put_elems(&mut cursor, &head(), &ElemList::named("t", "s"), &mut rows);
        assert!(matches!(err, Err(EncodeError::NoRoom { .. })), "{err:?}");
        assert_eq!(cursor.position(), 0);
        assert!(rows.peek().is_some());
    }

    #[test]
    fn a_bad_element_ends_the_message_before_it() {
        let mut bad = Elem::new(Value::u32_be(2));
        bad.objref = Some(Str::new(b"a\0b"));
        let mut buf = [0; 256];
        let mut cursor = SliceCursor::new(&mut buf);
        let mut elems = [Elem::new(Value::u32_be(1)), bad].into_iter().peekable();
        let list = ElemList::named("t", "s");
        assert_eq!(put_elems(&mut cursor, &head(), &list, &mut elems), Ok(1));
        let written = cursor.position();
        let err = put_elems(&mut cursor, &head(), &list, &mut elems);
        assert!(matches!(err, Err(EncodeError::Invalid { .. })), "{err:?}");
        assert_eq!(cursor.position(), written);
    }

    #[test]
    fn no_elements_make_no_message() {
        let mut counter = LenCounter::new();
        let mut rows = core::iter::empty::<Elem<'_>>().peekable();
        let count = put_elems(&mut counter, &head(), &ElemList::named("t", "s"), &mut rows);
        assert_eq!((count, counter.position()), (Ok(0), 0));
    }

    #[test]
    fn verdict_rows_are_as_nft_sends_them() {
        // nft 1.0.6: add element ip t m { 1.2.3.4 . tcp . 80 timeout 5s comment "ec" : goto reg }
        let mut expected = Vec::new();
        let mut put = |len: u16, attr: u16, payload: &[u8]| {
            expected.extend_from_slice(&len.to_ne_bytes());
            expected.extend_from_slice(&attr.to_ne_bytes());
            expected.extend_from_slice(payload);
        };
        put(72, 0x8001, &[]);
        put(12, 4, &[0, 0, 0, 0, 0, 0, 0x13, 0x88]);
        put(20, 0x8001, &[]);
        put(16, 1, &[1, 2, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0]);
        put(24, 0x8002, &[]);
        put(20, 0x8002, &[]);
        put(8, 1, &[0xff, 0xff, 0xff, 0xfc]);
        put(8, 2, b"reg\0");
        put(9, 6, b"\x00\x03ec\0\0\0\0");

        let elem = Elem {
            timeout: Some(5_000),
            userdata: Some(b"\x00\x03ec\0"),
            ..Elem::mapping(
                Value::new(&[1, 2, 3, 4, 6, 0, 0, 0, 0, 80, 0, 0]),
                Data::Verdict(Verdict::goto("reg")),
            )
        };
        let mut buf = [0; 128];
        let mut cursor = SliceCursor::new(&mut buf);
        elem.put_elem(&mut cursor).unwrap();
        assert_eq!(cursor.written(), expected);
        assert_eq!(VerdictCode::GOTO.0, -4);
    }
}
