//! The API's protobuf form, read without copies into the shapes of [`crate::api`].
//!
//! Only the fields a proxy reads are looked at; everything else is skipped. Field numbers are those
//! of `generated.proto` in k8s.io/api and k8s.io/apimachinery, which never change once released.
//! Strings that the API writes although they are empty (its encoder does, JSON leaves them out) are
//! read as absent, so that both forms give the same object.

mod cidr;
mod envelope;
mod list;
mod meta;
mod node;
mod service;
mod slice;
mod status;
mod wire;

pub use envelope::{MAGIC, Unknown, WatchEvent};
pub(super) use list::ListReader;
pub use wire::ProtobufError;

pub(super) use self::status::status;

use self::wire::{Fields, Value};
use crate::api::{EndpointSlice, Kind, Metadata, Node, Service, ServiceCidr};
use crate::ingest::ObjectId;
use crate::manifest::Object;

/// A message, built from its fields in whatever order they come.
pub(super) trait Message<'a>: Default {
    /// Takes a field; those that do not matter are ignored.
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError>;
}

/// Reads an object of a kind, without its envelope.
///
/// # Errors
/// Bytes that are no protobuf, or of other types than the kind's fields have.
pub fn object(kind: Kind, bytes: &[u8]) -> Result<Object<'_>, ProtobufError> {
    Ok(match kind {
        Kind::Service => Object::Service(read::<Service<'_>>(bytes)?),
        Kind::EndpointSlice => Object::EndpointSlice(read::<EndpointSlice<'_>>(bytes)?),
        Kind::Node => Object::Node(read::<Node<'_>>(bytes)?),
        Kind::ServiceCidr => Object::ServiceCidr(read::<ServiceCidr<'_>>(bytes)?),
    })
}

/// `metadata` of an object of any kind.
pub(super) fn metadata(bytes: &[u8]) -> Result<Metadata<'_>, ProtobufError> {
    read::<Named<'_>>(bytes).map(|named| named.metadata)
}

/// Which object it is, if that much can be read.
pub(super) fn identity(kind: Kind, bytes: &[u8]) -> Option<ObjectId> {
    ObjectId::new(kind, &metadata(bytes).ok()?)
}

/// What all kinds have in common.
#[derive(Default)]
struct Named<'a> {
    metadata: Metadata<'a>,
}

impl<'a> Message<'a> for Named<'a> {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            1 => value.merge(number, &mut self.metadata),
            _ => Ok(()),
        }
    }
}

/// Reads a message.
pub(super) fn read<'a, M: Message<'a>>(bytes: &'a [u8]) -> Result<M, ProtobufError> {
    let mut message = M::default();
    merge(&mut message, bytes)?;
    Ok(message)
}

/// Adds the fields of a message that comes in parts.
fn merge<'a, M: Message<'a>>(message: &mut M, bytes: &'a [u8]) -> Result<(), ProtobufError> {
    for field in Fields::new(bytes) {
        let (number, value) = field?;
        message.field(number, value)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod schema;
#[cfg(test)]
mod tests;
