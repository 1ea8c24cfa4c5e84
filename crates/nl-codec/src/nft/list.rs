//! Lists of nested attributes (`NFTA_LIST_ELEM`).

use core::fmt;

use crate::{Attr, AttrValue, Attrs, DecodeError, EncodeError, Encoder};

/// `NFTA_LIST_ELEM`; also `NFTA_DEVICE_NAME`, the entry of a device list.
const NFTA_LIST_ELEM: u16 = 1;

/// A list of `T`: built by the caller, or as received and decoded while iterating. The kernel does
/// not look at the attribute type of an entry; it is 1 here and in the kernel's own messages.
#[derive(Clone, Copy)]
pub struct List<'a, T>(Repr<'a, T>);

#[derive(Clone, Copy)]
enum Repr<'a, T> {
    Built(&'a [T]),
    Wire(&'a [u8]),
}

impl<'a, T> List<'a, T> {
    /// The entries in `entries`.
    #[must_use]
    pub const fn new(entries: &'a [T]) -> Self {
        Self(Repr::Built(entries))
    }

    /// Iterates; received lists are decoded on the way.
    #[must_use]
    pub fn iter(&self) -> ListIter<'a, T> {
        match self.0 {
            Repr::Built(list) => ListIter(IterRepr::Built(list.iter())),
            Repr::Wire(bytes) => ListIter(IterRepr::Wire(Attrs::new(bytes))),
        }
    }
}

impl<'a, T: AttrValue<'a> + Copy> IntoIterator for &List<'a, T> {
    type Item = Result<T, DecodeError>;
    type IntoIter = ListIter<'a, T>;

    fn into_iter(self) -> ListIter<'a, T> {
        self.iter()
    }
}

impl<'a, T: AttrValue<'a> + Copy + PartialEq> PartialEq for List<'a, T> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<'a, T: AttrValue<'a> + Copy + fmt::Debug> fmt::Debug for List<'a, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterator over a [`List`]; ends after the first malformed attribute.
#[derive(Debug, Clone)]
pub struct ListIter<'a, T>(IterRepr<'a, T>);

#[derive(Debug, Clone)]
enum IterRepr<'a, T> {
    Built(core::slice::Iter<'a, T>),
    Wire(Attrs<'a>),
}

/// An entry of a list, not decoded yet.
#[derive(Debug, Clone, Copy)]
pub(super) enum Entry<'a, T> {
    Built(&'a T),
    Wire(Attr<'a>),
}

impl<'a, T: AttrValue<'a> + Copy> Entry<'a, T> {
    #[inline]
    pub(super) fn decode(&self) -> Result<T, DecodeError> {
        match self {
            Self::Built(entry) => Ok(**entry),
            Self::Wire(attr) => attr.value("list entry"),
        }
    }
}

impl<'a, T> ListIter<'a, T> {
    #[inline]
    pub(super) fn next_entry(&mut self) -> Option<Result<Entry<'a, T>, DecodeError>> {
        match &mut self.0 {
            IterRepr::Built(iter) => iter.next().map(|entry| Ok(Entry::Built(entry))),
            IterRepr::Wire(attrs) => attrs.next().map(|attr| attr.map(Entry::Wire)),
        }
    }
}

impl<'a, T: AttrValue<'a> + Copy> Iterator for ListIter<'a, T> {
    type Item = Result<T, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.next_entry().map(|entry| entry?.decode())
    }
}

impl<'a, T: AttrValue<'a>> AttrValue<'a> for List<'a, T> {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        let mut nest = enc.nest(attr)?;
        match self.0 {
            Repr::Built(list) => {
                for entry in list {
                    crate::put_attr(&mut *nest, NFTA_LIST_ELEM, entry)?;
                }
            }
            Repr::Wire(bytes) => nest.put(bytes)?,
        }
        nest.end()
    }

    #[inline]
    fn decode(attr: &Attr<'a>, _what: &'static str) -> Result<Self, DecodeError> {
        Ok(Self(Repr::Wire(attr.payload)))
    }
}
