//! A list's body as it comes in, item by item: it is never held as a whole.

use super::meta::ListMeta;
use super::wire::{ProtobufError, WireType, split, varint};
use super::{MAGIC, read};
use crate::apiserver::decode::ListEnd;
use crate::apiserver::gather::{Gathered, MOST};

/// Reads `runtime.Unknown` around any of the list types, whose fields are the same: `metadata` 1,
/// `items` 2.
#[derive(Debug, Default)]
pub(in crate::apiserver) struct ListReader {
    at: At,
    gathered: Gathered,
    end: ListEnd,
    /// The list was there.
    complete: bool,
}

#[derive(Debug, Clone, Copy, Default)]
enum At {
    #[default]
    Magic,
    Envelope,
    /// In the list, of which so many bytes are still to come.
    List(u64),
}

/// One step.
enum Step<'a> {
    /// More bytes are needed.
    More,
    /// So many bytes are done with.
    Done(usize),
    /// As many, with an item in them.
    Item(usize, &'a [u8]),
}

impl ListReader {
    /// Takes the next bytes; `on_item` gets each item that is complete.
    pub(in crate::apiserver) fn push(
        &mut self,
        bytes: &[u8],
        mut on_item: impl FnMut(&[u8]),
    ) -> Result<(), ProtobufError> {
        let mut gathered = core::mem::take(&mut self.gathered);
        let result = gathered.push(bytes, |rest| {
            Ok(match self.step(rest)? {
                Step::More => None,
                Step::Done(length) => Some(length),
                Step::Item(length, item) => {
                    on_item(item);
                    Some(length)
                }
            })
        });
        self.gathered = gathered;
        result
    }

    /// What the list says of itself, if it came to its end.
    pub(in crate::apiserver) fn finish(self) -> Result<ListEnd, ProtobufError> {
        match self.at {
            At::Envelope if self.complete && self.gathered.is_empty() => Ok(self.end),
            _ => Err(ProtobufError::Cut),
        }
    }

    fn step<'a>(&mut self, rest: &'a [u8]) -> Result<Step<'a>, ProtobufError> {
        match self.at {
            At::Magic => match rest.first_chunk() {
                Some(&MAGIC) => {
                    self.at = At::Envelope;
                    Ok(Step::Done(MAGIC.len()))
                }
                Some(_) => Err(ProtobufError::Magic),
                None => Ok(Step::More),
            },
            At::Envelope => {
                let Some(field) = Field::find(rest)? else {
                    return Ok(Step::More);
                };
                if field.number == 2 && field.wire_type == WireType::Bytes {
                    self.at = At::List(field.length);
                    self.complete = field.length == 0;
                    return Ok(Step::Done(field.header));
                }
                Ok(field
                    .body(rest)?
                    .map_or(Step::More, |(length, _)| Step::Done(length)))
            }
            At::List(0) => {
                self.complete = true;
                self.at = At::Envelope;
                Ok(Step::Done(0))
            }
            At::List(left) => {
                let Some(field) = Field::find(rest)? else {
                    return Ok(Step::More);
                };
                let length = u64::try_from(field.header)
                    .ok()
                    .and_then(|header| header.checked_add(field.length));
                let left = length
                    .and_then(|length| left.checked_sub(length))
                    .ok_or(ProtobufError::Cut)?;
                let Some((length, body)) = field.body(rest)? else {
                    return Ok(Step::More);
                };
                self.at = At::List(left);
                match (field.number, field.wire_type) {
                    (1, WireType::Bytes) => {
                        let meta: ListMeta<'_> = read(body)?;
                        self.end = ListEnd {
                            version: meta.resource_version.to_owned(),
                            continuation: meta.continuation.to_owned(),
                        };
                        Ok(Step::Done(length))
                    }
                    (2, WireType::Bytes) => Ok(Step::Item(length, body)),
                    _ => Ok(Step::Done(length)),
                }
            }
        }
    }
}

/// Where a field is.
struct Field {
    number: u32,
    wire_type: WireType,
    header: usize,
    length: u64,
}

impl Field {
    /// The field that `rest` begins with, once its header is there.
    fn find(rest: &[u8]) -> Result<Option<Self>, ProtobufError> {
        let Some((tag, header)) = varint(rest)? else {
            return Ok(None);
        };
        let (number, wire_type) = split(tag)?;
        let after = rest.get(header..).unwrap_or_default();
        let (header, length) = match wire_type {
            WireType::Varint => match varint(after)? {
                Some((_, length)) => (header, u64::try_from(length).unwrap_or_default()),
                None => return Ok(None),
            },
            WireType::Fixed64 => (header, 8),
            WireType::Fixed32 => (header, 4),
            WireType::Bytes => match varint(after)? {
                Some((length, more)) => (header + more, length),
                None => return Ok(None),
            },
        };
        Ok(Some(Self {
            number,
            wire_type,
            header,
            length,
        }))
    }

    /// Its value, once all of it is there, and the length of both.
    fn body<'a>(&self, rest: &'a [u8]) -> Result<Option<(usize, &'a [u8])>, ProtobufError> {
        let length = usize::try_from(self.length)
            .ok()
            .filter(|length| *length <= MOST);
        let length = length.ok_or(ProtobufError::TooLong)?;
        let end = self.header + length;
        Ok(rest.get(self.header..end).map(|body| (end, body)))
    }
}
