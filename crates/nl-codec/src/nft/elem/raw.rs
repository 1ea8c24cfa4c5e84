//! The hot path of dumps: received elements that are looked at before they are decoded.

use byteorder::{ByteOrder, NativeEndian};

use super::row::{NFTA_DATA_VALUE, NFTA_SET_ELEM_DATA, NFTA_SET_ELEM_KEY, VALUE_HEADERS_LEN};
use super::{Elem, ElemRow, Elems};
use crate::nft::list::Entry;
use crate::nft::{Data, ListIter};
use crate::wire::{ATTR_HEADER_LEN, align};
use crate::{DecodeError, NLA_F_NESTED};

impl<'a> Elems<'a> {
    /// Iterates without decoding: several times faster than [`Self::iter`] for elements that are
    /// rows.
    ///
    /// ```
    /// # use nl_codec::nft::{Elem, Elems, Value};
    /// # let built = [Elem::new(Value::u32_be(7))];
    /// # let elems = Elems::new(&built);
    /// # let mut text = String::new();
    /// for elem in elems.raw() {
    ///     let elem = elem?;
    ///     match elem.row() {
    ///         Some(row) => text += &format!("{:?} => {:?}", row.key, row.data),
    ///         None => text += &format!("{:?}", elem.decode()?),
    ///     }
    /// }
    /// # assert_eq!(text, "[0, 0, 0, 7] => None");
    /// # Ok::<(), nl_codec::DecodeError>(())
    /// ```
    #[must_use]
    pub fn raw(&self) -> RawElems<'a> {
        RawElems(self.iter())
    }
}

/// Iterator over elements that are not decoded; ends after the first malformed attribute.
#[derive(Debug, Clone)]
pub struct RawElems<'a>(ListIter<'a, Elem<'a>>);

impl<'a> Iterator for RawElems<'a> {
    type Item = Result<RawElem<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.0.next_entry().map(|entry| entry.map(RawElem))
    }
}

/// An element that is not decoded yet.
#[derive(Debug, Clone, Copy)]
pub struct RawElem<'a>(Entry<'a, Elem<'a>>);

impl<'a> RawElem<'a> {
    /// The element as a row: `None` if it holds anything else (flags, a timeout, userdata, a
    /// verdict, …), or is laid out otherwise than the kernel and this crate do. What is in the row
    /// is what [`Self::decode`] would find.
    #[must_use]
    #[inline]
    pub fn row(&self) -> Option<ElemRow<'a>> {
        match &self.0 {
            Entry::Built(elem) => built_row(elem),
            Entry::Wire(attr) => wire_row(attr.payload),
        }
    }

    /// All of the element.
    ///
    /// # Errors
    /// See [`DecodeError`].
    pub fn decode(&self) -> Result<Elem<'a>, DecodeError> {
        self.0.decode()
    }
}

fn built_row<'a>(elem: &'a Elem<'a>) -> Option<ElemRow<'a>> {
    let bare = Elem {
        key: elem.key,
        data: elem.data,
        ..Elem::default()
    };
    let value = |data: &'a Data<'a>| match data {
        Data::Value(value) => Some(value.as_bytes()),
        Data::Verdict(_) => None,
    };
    if bare != *elem {
        return None;
    }
    let data = match &elem.data {
        Some(data) => Some(value(data)?),
        None => None,
    };
    let key = value(elem.key.as_ref()?)?;
    Some(ElemRow { key, data })
}

#[inline]
fn wire_row(elem: &[u8]) -> Option<ElemRow<'_>> {
    let (key, rest) = split_value(elem, NFTA_SET_ELEM_KEY)?;
    if rest.is_empty() {
        return Some(ElemRow { key, data: None });
    }
    let (data, rest) = split_value(rest, NFTA_SET_ELEM_DATA)?;
    rest.is_empty().then_some(ElemRow {
        key,
        data: Some(data),
    })
}

/// What is in `attr { NFTA_DATA_VALUE … }`, if `bytes` begins with it and the nest holds no more,
/// and what follows.
#[inline]
fn split_value(bytes: &[u8], attr: u16) -> Option<(&[u8], &[u8])> {
    let headers = bytes.first_chunk::<VALUE_HEADERS_LEN>()?;
    let nest_len = usize::from(NativeEndian::read_u16(&headers[..2]));
    let nest = NativeEndian::read_u16(&headers[2..4]);
    let value_len = usize::from(NativeEndian::read_u16(&headers[4..6]));
    let value = NativeEndian::read_u16(&headers[6..]);
    // The kernel does not set the flag for nested attributes everywhere.
    if nest & !NLA_F_NESTED != attr
        || value != NFTA_DATA_VALUE
        || nest_len != ATTR_HEADER_LEN + align(value_len)
    {
        return None;
    }
    let (whole, rest) = bytes.split_at_checked(nest_len)?;
    let value = whole.get(VALUE_HEADERS_LEN..ATTR_HEADER_LEN + value_len)?;
    Some((value, rest))
}

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::arb::{Arb, Source};
    use crate::nft::Value;
    use crate::nft::elem::PutElem;
    use crate::nft::expr::Counter;
    use crate::{Attrs, Encoder, SliceCursor};

    /// The entry that `elem` is on the wire.
    fn encoded(elem: &impl PutElem) -> Vec<u8> {
        let mut buf = std::vec![0xaa; 2048];
        let mut cursor = SliceCursor::new(&mut buf);
        elem.put_elem(&mut cursor).unwrap();
        let len = cursor.position();
        buf.truncate(len);
        buf
    }

    fn raw(bytes: &[u8]) -> Option<RawElem<'_>> {
        let attr = Attrs::new(bytes).next()?.ok()?;
        Some(RawElem(Entry::Wire(attr)))
    }

    /// A row found is all there is, read the long way.
    fn check_row(elem: RawElem<'_>) {
        if let Some(row) = elem.row() {
            let expected = Elem {
                data: row.data.map(|data| Data::Value(Value::new(data))),
                ..Elem::new(Value::new(row.key))
            };
            assert_eq!(elem.decode(), Ok(expected));
        }
    }

    proptest! {
        #[test]
        fn rows_are_found(key in vec(any::<u8>(), 0..100), data in vec(any::<u8>(), 0..100)) {
            for data in [None, Some(&*data)] {
                let row = ElemRow { key: &key, data };
                let bytes = encoded(&row);
                prop_assert_eq!(raw(&bytes).unwrap().row(), Some(row));
            }
        }

        #[test]
        fn a_row_is_the_whole_element(
            bytes in vec(any::<u8>(), 0..300),
            damage in vec((any::<u16>(), any::<u8>()), 0..3),
        ) {
            let nested = [Counter::default().into()];
            let built = [Elem::arb(&mut Source { bytes: &bytes, nested: &nested })];
            let mut wire = encoded(&built[0]);
            let elem = raw(&wire).unwrap();
            check_row(elem);
            let from_built = Elems::new(&built).raw().next().unwrap().unwrap();
            check_row(from_built);
            // Data before key is for the long way, too.
            prop_assert_eq!(elem.row(), from_built.row());
            for (at, value) in damage {
                let at = usize::from(at) % wire.len();
                wire[at] = value;
            }
            raw(&wire).into_iter().for_each(check_row);
            raw(&bytes).into_iter().for_each(check_row);
        }

        #[test]
        fn damaged_rows(
            row in vec(any::<u8>(), 20),
            damage in vec((any::<u8>(), 0..32_u8), 1..4),
        ) {
            let mut wire = encoded(&ElemRow { key: &row[..13], data: Some(&row[13..]) });
            for (at, value) in damage {
                let at = usize::from(at) % wire.len();
                wire[at] = value;
            }
            raw(&wire).into_iter().for_each(check_row);
        }
    }
}
