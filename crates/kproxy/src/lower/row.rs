//! Rows of a set as elements on the wire, one at a time and without an allocation.

use core::net::IpAddr;

use ipnet::IpNet;
use nl_codec::nft::elem::{ElemFlags, ElemRow, PutElem};
use nl_codec::nft::{Data, Elem, Value, Verdict, VerdictCode};
use nl_codec::{EncodeError, Encoder};
use svc_planner::plan::{DataType, Datum, Family, Key, KeyType, Row, SetChange};

use super::LowerError;
use super::bytes::{Bytes, datum_bytes, fits, key_bytes};

/// The rows of one change, known to fit their set.
#[derive(Debug, Clone, Copy)]
pub struct Rows<'t> {
    family: Family,
    change: &'t SetChange,
}

impl<'t> Rows<'t> {
    /// Checks every row.
    ///
    /// # Errors
    /// [`LowerError::KeyMismatch`], [`LowerError::DatumMismatch`].
    pub fn checked(family: Family, change: &'t SetChange) -> Result<Self, LowerError> {
        let keys = change.delete.iter();
        let keys = keys.chain(change.add.iter().map(|row| &row.key));
        for key in keys {
            if key_bytes(family, change.key, key).is_none() {
                return Err(LowerError::KeyMismatch {
                    set: change.set.to_string(),
                    key: Box::new(*key),
                });
            }
        }
        for row in &change.add {
            let fits = match (change.data, &row.datum) {
                (DataType::None, Datum::None)
                | (DataType::Verdict, Datum::Goto(_) | Datum::Drop)
                | (DataType::Route, Datum::Route(_)) => true,
                (DataType::Endpoint, Datum::Endpoint { address, .. }) => fits(family, *address),
                _ => false,
            };
            if !fits {
                return Err(LowerError::DatumMismatch {
                    set: change.set.to_string(),
                    key: Box::new(row.key),
                });
            }
        }
        Ok(Self { family, change })
    }

    /// The elements to delete.
    pub fn deletions(self) -> impl Iterator<Item = impl PutElem> + use<'t> {
        let element = move |key: &'t Key, end| Element {
            family: self.family,
            layout: self.change.key,
            key,
            datum: &Datum::None,
            end,
        };
        self.change
            .delete
            .iter()
            .flat_map(move |key| {
                [
                    Some(element(key, false)),
                    end_of(key).map(|()| element(key, true)),
                ]
            })
            .flatten()
    }

    /// The elements to add.
    pub fn additions(self) -> impl Iterator<Item = impl PutElem> + use<'t> {
        let element = move |row: &'t Row, end| Element {
            family: self.family,
            layout: self.change.key,
            key: &row.key,
            datum: &row.datum,
            end,
        };
        self.change
            .add
            .iter()
            .flat_map(move |row| {
                [
                    Some(element(row, false)),
                    end_of(&row.key).map(|()| element(row, true)),
                ]
            })
            .flatten()
    }
}

/// Whether an interval has an end on the wire: the address behind it, unless there is none.
fn end_of(key: &Key) -> Option<()> {
    match key {
        Key::Prefix(net) => behind(net).map(|_| ()),
        _ => None,
    }
}

/// The first address behind a prefix.
fn behind(net: &IpNet) -> Option<IpAddr> {
    match net {
        IpNet::V4(net) => u32::from(net.broadcast())
            .checked_add(1)
            .map(|next| IpAddr::V4(next.into())),
        IpNet::V6(net) => u128::from(net.broadcast())
            .checked_add(1)
            .map(|next| IpAddr::V6(next.into())),
    }
}

/// One element.
struct Element<'t> {
    family: Family,
    layout: KeyType,
    key: &'t Key,
    datum: &'t Datum,
    end: bool,
}

impl PutElem for Element<'_> {
    #[inline]
    fn put_elem<E: Encoder>(&self, enc: &mut E) -> Result<(), EncodeError> {
        let invalid = |enc: &E| EncodeError::Invalid {
            what: "element",
            offset: enc.position(),
        };
        if self.end {
            let Key::Prefix(net) = self.key else {
                return Err(invalid(enc));
            };
            let Some(end) = behind(net).map(Key::Address) else {
                return Err(invalid(enc));
            };
            let key = key_bytes(self.family, self.layout, &end).ok_or_else(|| invalid(enc))?;
            let mut elem = Elem::new(Value::new(key.as_slice()));
            elem.flags = Some(ElemFlags::INTERVAL_END);
            return elem.put_elem(enc);
        }
        let key = key_bytes(self.family, self.layout, self.key).ok_or_else(|| invalid(enc))?;
        let verdict = match self.datum {
            Datum::Goto(chain) => Verdict::goto(chain),
            Datum::Drop => Verdict::code(VerdictCode::DROP),
            datum => {
                let datum = datum_bytes(self.family, datum);
                let row = ElemRow {
                    key: key.as_slice(),
                    data: datum.as_ref().map(Bytes::as_slice),
                };
                return row.put_elem(enc);
            }
        };
        Elem::mapping(Value::new(key.as_slice()), Data::Verdict(verdict)).put_elem(enc)
    }
}

/// Whether an element read from the kernel holds `datum`.
#[must_use]
pub fn read_back(family: Family, elem: &Elem<'_>, datum: &Datum) -> bool {
    match (&elem.data, datum) {
        (None, Datum::None) => true,
        (Some(Data::Verdict(verdict)), Datum::Goto(chain)) => {
            verdict.code == Some(VerdictCode::GOTO)
                && verdict.chain.is_some_and(|name| name == **chain)
        }
        (Some(Data::Verdict(verdict)), Datum::Drop) => verdict.code == Some(VerdictCode::DROP),
        (Some(Data::Value(value)), datum) => {
            datum_bytes(family, datum).is_some_and(|bytes| bytes.as_slice() == value.as_bytes())
        }
        _ => false,
    }
}
