//! Rows of a set as elements on the wire, one at a time and without an allocation.

use core::net::IpAddr;

use ipnet::IpNet;
use nl_codec::nft::elem::{ElemFlags, ElemRow, PutElem};
use nl_codec::nft::{Data, Elem, Value, Verdict, VerdictCode};
use nl_codec::{EncodeError, Encoder};
use svc_planner::plan::{DataType, Datum, EndpointId, Family, Key, KeyType, Route, Row, SetChange};

use super::LowerError;
use super::bytes::{Bytes, datum_bytes, fits, key_bytes, last_key_bytes};

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
                | (DataType::Route, Datum::Route(_))
                | (DataType::List, Datum::List(_))
                | (DataType::EndpointId, Datum::EndpointId(_) | Datum::Stuck { .. }) => true,
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

/// An element of an interval set: an end of a range, or both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Boundary<'b> {
    /// The first key, or the first behind the last.
    pub key: &'b [u8],
    /// The last key, where an element names both.
    pub last: Option<&'b [u8]>,
    /// It is the first key behind the last.
    pub end: bool,
}

/// Hands the elements that a row of an interval set is made of to `each`; nothing, if it fits none.
pub fn boundaries(family: Family, layout: KeyType, key: &Key, mut each: impl FnMut(Boundary<'_>)) {
    let Some(first) = key_bytes(family, layout, key) else {
        return;
    };
    let last = last_key_bytes(family, layout, key);
    each(Boundary {
        key: first.as_slice(),
        last: last.as_ref().map(Bytes::as_slice),
        end: false,
    });
    if let Key::Prefix(net) = key
        && let Some(end) = behind(net).map(Key::Address)
        && let Some(end) = key_bytes(family, layout, &end)
    {
        each(Boundary {
            key: end.as_slice(),
            last: None,
            end: true,
        });
    }
}

/// The same of an element as the kernel lists it; `None` without a key.
#[must_use]
pub fn boundary_of<'e>(elem: &'e Elem<'_>) -> Option<Boundary<'e>> {
    let last = match &elem.key_end {
        Some(Data::Value(last)) => Some(last.as_bytes()),
        _ => None,
    };
    let flags = elem.flags.unwrap_or(ElemFlags::empty());
    Some(Boundary {
        key: elem.key_bytes()?,
        last,
        end: flags.contains(ElemFlags::INTERVAL_END),
    })
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
        if let Some(last) = last_key_bytes(self.family, self.layout, self.key) {
            let mut elem = Elem::new(Value::new(key.as_slice()));
            elem.key_end = Some(Data::Value(Value::new(last.as_slice())));
            return elem.put_elem(enc);
        }
        let verdict = match self.datum {
            Datum::Goto(chain) => Verdict::goto(chain),
            Datum::Drop => Verdict::code(VerdictCode::DROP),
            Datum::Stuck {
                endpoint,
                milliseconds,
            } => {
                let data = Data::Value(Value::u32_ne(endpoint.0));
                let mut elem = Elem::mapping(Value::new(key.as_slice()), data);
                elem.timeout = Some(u64::from(*milliseconds));
                return elem.put_elem(enc);
            }
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

/// Whether an element holds this datum and nothing more; its key was looked up.
#[must_use]
pub fn holds(family: Family, elem: &Elem<'_>, datum: &Datum) -> bool {
    match (datum, &elem.data) {
        (Datum::None, None) => true,
        (Datum::Goto(chain), Some(Data::Verdict(verdict))) => {
            verdict.code == Some(VerdictCode::GOTO)
                && verdict
                    .chain
                    .is_some_and(|name| name.as_bytes() == chain.as_bytes())
        }
        (Datum::Drop, Some(Data::Verdict(verdict))) => verdict.code == Some(VerdictCode::DROP),
        (datum, Some(Data::Value(value))) => {
            datum_bytes(family, datum).is_some_and(|bytes| bytes.as_slice() == value.as_bytes())
        }
        _ => false,
    }
}

/// The datum of an element read from a set with data of type `data`; `None` if it is none that we
/// write.
#[must_use]
pub fn datum_of(family: Family, data: DataType, elem: &Elem<'_>) -> Option<Datum> {
    let bytes = match (data, &elem.data) {
        (DataType::None, None) => return Some(Datum::None),
        (DataType::Verdict, Some(Data::Verdict(verdict))) => {
            return match verdict.code? {
                VerdictCode::GOTO => verdict.chain?.to_str().map(|name| Datum::Goto(name.into())),
                VerdictCode::DROP => Some(Datum::Drop),
                _ => None,
            };
        }
        (_, Some(Data::Value(value))) => value.as_bytes(),
        _ => return None,
    };
    match (data, family, bytes.len()) {
        (DataType::Route, _, 4) => {
            let route = bytes.try_into().ok().map(u32::from_ne_bytes)?;
            Some(Datum::Route(Route(route)))
        }
        (DataType::List, _, 4) => {
            let list = bytes.try_into().ok().map(u32::from_ne_bytes)?;
            Some(Datum::List(list))
        }
        (DataType::EndpointId, _, 4) => {
            let id = EndpointId(bytes.try_into().ok().map(u32::from_ne_bytes)?);
            // Dynamic rows say what is left of their lifetime.
            Some(match elem.expiration {
                None => Datum::EndpointId(id),
                Some(left) => Datum::Stuck {
                    endpoint: id,
                    milliseconds: u32::try_from(left).unwrap_or(u32::MAX).max(1),
                },
            })
        }
        (DataType::Endpoint, Family::Ipv4, 8) => {
            let (address, port) = bytes.split_first_chunk::<4>()?;
            endpoint((*address).into(), port)
        }
        (DataType::Endpoint, Family::Ipv6, 20) => {
            let (address, port) = bytes.split_first_chunk::<16>()?;
            endpoint((*address).into(), port)
        }
        _ => None,
    }
}

fn endpoint(address: IpAddr, port: &[u8]) -> Option<Datum> {
    let port = u16::from_be_bytes(*port.first_chunk()?);
    Some(Datum::Endpoint { address, port })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_are_read_as_they_are_written() {
        let route = Datum::Route(Route(0x0010_0002));
        let v4 = Datum::Endpoint {
            address: [10, 0, 0, 1].into(),
            port: 0x1f90,
        };
        let v6 = Datum::Endpoint {
            address: "fd00::1".parse().unwrap(),
            port: 1,
        };
        for (family, data, datum) in [
            (Family::Ipv4, DataType::Route, route),
            (Family::Ipv6, DataType::List, Datum::List(7)),
            (
                Family::Ipv6,
                DataType::EndpointId,
                Datum::EndpointId(EndpointId::FIRST),
            ),
            (Family::Ipv4, DataType::Endpoint, v4),
            (Family::Ipv6, DataType::Endpoint, v6),
        ] {
            let bytes = datum_bytes(family, &datum).unwrap();
            let value = Data::Value(Value::new(bytes.as_slice()));
            let elem = Elem::mapping(Value::u32_ne(0), value);
            assert_eq!(datum_of(family, data, &elem).as_ref(), Some(&datum));
            assert!(holds(family, &elem, &datum));
            assert!(!holds(family, &elem, &Datum::None));
            assert!(!holds(family, &elem, &Datum::Route(Route(0xdead))));
            assert_eq!(datum_of(family, DataType::Verdict, &elem), None);
        }
        let verdict = Data::Verdict(Verdict::goto("c"));
        let elem = Elem::mapping(Value::u32_ne(0), verdict);
        let read = datum_of(Family::Ipv4, DataType::Verdict, &elem);
        assert_eq!(read, Some(Datum::Goto("c".into())));
        assert!(holds(Family::Ipv4, &elem, &Datum::Goto("c".into())));
        assert!(!holds(Family::Ipv4, &elem, &Datum::Goto("d".into())));
        assert!(!holds(Family::Ipv4, &elem, &Datum::Drop));
        assert_eq!(datum_of(Family::Ipv4, DataType::Route, &elem), None);
    }

    #[test]
    fn an_interval_ends_behind_its_last_address() {
        let behind = |net: &str| behind(&net.parse().unwrap()).map(|next| next.to_string());
        assert_eq!(behind("10.0.0.0/8").as_deref(), Some("11.0.0.0"));
        assert_eq!(behind("10.0.0.1/32").as_deref(), Some("10.0.0.2"));
        assert_eq!(behind("fd00::/108").as_deref(), Some("fd00::10:0"));
        assert_eq!(behind("128.0.0.0/1"), None);
        assert_eq!(behind("::/0"), None);
    }
}
