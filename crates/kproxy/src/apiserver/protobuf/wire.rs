//! Protobuf's wire form: tags, varints, lengths.

use thiserror::Error;

use super::{Message, merge};
use crate::api::Text;

/// What is wrong with bytes that should be protobuf.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtobufError {
    /// They end inside a value.
    #[error("the message ends inside a field")]
    Cut,
    /// A number of more than 64 bits.
    #[error("a number is too long")]
    Varint,
    /// Field 0 or one with a wire type that is unknown or out of use.
    #[error("tag {0:#x} is none")]
    Tag(u64),
    /// A field of another type than the API's.
    #[error("field {0} has another type")]
    Type(u32),
    /// Text that is not UTF-8.
    #[error("field {0} is not UTF-8")]
    Utf8(u32),
    /// An object longer than any that the API server takes.
    #[error("an object of more than {} MiB", crate::apiserver::gather::MOST >> 20)]
    TooLong,
    /// No `k8s\0` where an object should begin.
    #[error("no Kubernetes object")]
    Magic,
}

/// A field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::apiserver) enum Value<'a> {
    Varint(u64),
    Fixed64,
    Bytes(&'a [u8]),
    Fixed32,
}

impl<'a> Value<'a> {
    pub(super) fn bytes(self, number: u32) -> Result<&'a [u8], ProtobufError> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            _ => Err(ProtobufError::Type(number)),
        }
    }

    pub(super) fn str(self, number: u32) -> Result<&'a str, ProtobufError> {
        core::str::from_utf8(self.bytes(number)?).map_err(|_| ProtobufError::Utf8(number))
    }

    /// Text that is absent when it is empty.
    pub(super) fn text(self, number: u32) -> Result<Option<Text<'a>>, ProtobufError> {
        let text = self.str(number)?;
        Ok((!text.is_empty()).then(|| text.into()))
    }

    /// `int32` and `int64`: negative numbers take ten bytes.
    pub(super) fn int(self, number: u32) -> Result<i64, ProtobufError> {
        match self {
            Self::Varint(value) => Ok(i64::from_ne_bytes(value.to_ne_bytes())),
            _ => Err(ProtobufError::Type(number)),
        }
    }

    pub(super) fn bool(self, number: u32) -> Result<bool, ProtobufError> {
        self.int(number).map(|value| value != 0)
    }

    /// A message, or one more part of it.
    pub(super) fn merge<M: Message<'a>>(
        self,
        number: u32,
        into: &mut M,
    ) -> Result<(), ProtobufError> {
        merge(into, self.bytes(number)?)
    }

    /// A message of a list.
    pub(super) fn push<M: Message<'a>>(
        self,
        number: u32,
        into: &mut Vec<M>,
    ) -> Result<(), ProtobufError> {
        let mut message = M::default();
        merge(&mut message, self.bytes(number)?)?;
        into.push(message);
        Ok(())
    }
}

/// The fields of a message.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) const fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    fn field(&mut self) -> Result<(u32, Value<'a>), ProtobufError> {
        let tag = self.varint()?;
        let (number, wire_type) = split(tag)?;
        let value = match wire_type {
            WireType::Varint => Value::Varint(self.varint()?),
            WireType::Fixed64 => {
                self.take(8)?;
                Value::Fixed64
            }
            WireType::Bytes => {
                let length = self.varint()?;
                let length = usize::try_from(length).map_err(|_| ProtobufError::Cut)?;
                Value::Bytes(self.take(length)?)
            }
            WireType::Fixed32 => {
                self.take(4)?;
                Value::Fixed32
            }
        };
        Ok((number, value))
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let (value, length) = varint(self.rest)?.ok_or(ProtobufError::Cut)?;
        self.take(length)?;
        Ok(value)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], ProtobufError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Cut)?;
        self.rest = rest;
        Ok(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u32, Value<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// How a value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WireType {
    Varint,
    Fixed64,
    Bytes,
    Fixed32,
}

/// Number and wire type of a tag.
pub(super) fn split(tag: u64) -> Result<(u32, WireType), ProtobufError> {
    let number = u32::try_from(tag >> 3).unwrap_or_default();
    let wire_type = match tag & 7 {
        0 => WireType::Varint,
        1 => WireType::Fixed64,
        2 => WireType::Bytes,
        5 => WireType::Fixed32,
        // Groups went out of use before Kubernetes began.
        _ => return Err(ProtobufError::Tag(tag)),
    };
    if number == 0 {
        return Err(ProtobufError::Tag(tag));
    }
    Ok((number, wire_type))
}

/// The number that `bytes` begin with, and its length; `None` if they end inside it.
pub(super) fn varint(bytes: &[u8]) -> Result<Option<(u64, usize)>, ProtobufError> {
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().enumerate().take(10) {
        let part = u64::from(byte & 0x7f);
        // The tenth byte holds one bit.
        if i == 9 && part > 1 {
            return Err(ProtobufError::Varint);
        }
        value |= part << (7 * i);
        if byte & 0x80 == 0 {
            return Ok(Some((value, i + 1)));
        }
    }
    if bytes.len() < 10 {
        Ok(None)
    } else {
        Err(ProtobufError::Varint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_lengths() {
        assert_eq!(varint(&[0x00]), Ok(Some((0, 1))));
        assert_eq!(varint(&[0x96, 0x01, 0xff]), Ok(Some((150, 2))));
        assert_eq!(varint(&[0x96]), Ok(None));
        assert_eq!(varint(&[]), Ok(None));
        let minus_one = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(varint(&minus_one), Ok(Some((u64::MAX, 10))));
        assert_eq!(Value::Varint(u64::MAX).int(1), Ok(-1));
        assert_eq!(varint(&[0xff; 10]), Err(ProtobufError::Varint));
    }

    #[test]
    fn fields_of_all_types_and_cut_ones() {
        let message = [
            0x08, 0x07, // 1: varint 7
            0x12, 0x02, b'h', b'i', // 2: "hi"
            0x19, 0, 0, 0, 0, 0, 0, 0, 0, // 3: fixed64
            0x25, 0, 0, 0, 0, // 4: fixed32
        ];
        let fields: Result<Vec<_>, _> = Fields::new(&message).collect();
        let expected = [
            (1, Value::Varint(7)),
            (2, Value::Bytes(b"hi")),
            (3, Value::Fixed64),
            (4, Value::Fixed32),
        ];
        assert_eq!(fields.unwrap(), expected);
        for cut in [1, 3, 4, 5, 8, message.len() - 1] {
            let last = Fields::new(&message[..cut]).last().unwrap();
            assert_eq!(last, Err(ProtobufError::Cut), "{cut}");
        }
        for wrong in [&[0x0b_u8][..], &[0x00], &[0x07]] {
            assert!(matches!(
                Fields::new(wrong).next(),
                Some(Err(ProtobufError::Tag(_)))
            ));
        }
        // A length beyond all memory.
        let long = [
            0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01,
        ];
        assert_eq!(Fields::new(&long).next(), Some(Err(ProtobufError::Cut)));
    }
}
