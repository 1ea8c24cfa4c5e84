//! What is around objects: `runtime.Unknown` with its magic number, and `WatchEvent`.

use super::wire::{ProtobufError, Value};
use super::{Message, read};

/// Every object begins with it (apimachinery/pkg/runtime/serializer/protobuf: `protoEncodingPrefix`).
pub const MAGIC: [u8; 4] = *b"k8s\0";

/// `runtime.Unknown`: an object and what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unknown<'a> {
    /// `typeMeta.apiVersion`.
    pub api_version: &'a str,
    /// `typeMeta.kind`.
    pub kind: &'a str,
    /// The object.
    pub raw: &'a [u8],
}

impl<'a> Unknown<'a> {
    /// Reads an object's envelope.
    ///
    /// # Errors
    /// Without the magic number, or when what follows is no protobuf.
    pub fn read(bytes: &'a [u8]) -> Result<Self, ProtobufError> {
        read(bytes.strip_prefix(&MAGIC).ok_or(ProtobufError::Magic)?)
    }
}

impl<'a> Message<'a> for Unknown<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => {
                let mut types = TypeMeta::default();
                value.merge(number, &mut types)?;
                (self.api_version, self.kind) = (types.api_version, types.kind);
            }
            2 => self.raw = value.bytes(number)?,
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct TypeMeta<'a> {
    api_version: &'a str,
    kind: &'a str,
}

impl<'a> Message<'a> for TypeMeta<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.api_version = value.str(number)?,
            2 => self.kind = value.str(number)?,
            _ => {}
        }
        Ok(())
    }
}

/// `meta/v1.WatchEvent`, the content of a frame; it has no magic number itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub kind: &'a str,
    /// The object, with its envelope.
    pub object: &'a [u8],
}

impl<'a> WatchEvent<'a> {
    /// Reads a frame.
    ///
    /// # Errors
    /// When it is no protobuf.
    pub fn read(frame: &'a [u8]) -> Result<Self, ProtobufError> {
        read(frame)
    }
}

impl<'a> Message<'a> for WatchEvent<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => self.kind = value.str(number)?,
            2 => {
                let mut raw = RawExtension::default();
                value.merge(number, &mut raw)?;
                self.object = raw.raw;
            }
            _ => {}
        }
        Ok(())
    }
}

#[derive(Default)]
struct RawExtension<'a> {
    raw: &'a [u8],
}

impl<'a> Message<'a> for RawExtension<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 1 {
            self.raw = value.bytes(number)?;
        }
        Ok(())
    }
}
