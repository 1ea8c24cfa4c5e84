//! One object of a list, or one event of a watch.

use core::fmt;
use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::DecodeError;
use crate::api::{EndpointSlice, Kind, Metadata, Node, Service, ServiceCidr};
use crate::apiserver::protobuf::{self, Unknown, WatchEvent};
use crate::apiserver::{Refusal, status};
use crate::ingest::ObjectId;
use crate::manifest::Object;

/// What a body is made of.
#[derive(Debug)]
#[non_exhaustive]
#[allow(
    clippy::large_enum_variant,
    reason = "made, read and dropped one at a time on the stack"
)]
pub enum Item<'a> {
    /// An object as it is now: of a list, `ADDED` or `MODIFIED`.
    Object(Object<'a>),
    /// `DELETED`: the object as it was at last.
    Deleted(Object<'a>),
    /// An object that cannot be read; it may be deleted.
    Unreadable(Unreadable),
    /// `BOOKMARK`: everything up to this version was sent.
    Bookmark {
        /// `metadata.resourceVersion`.
        version: &'a str,
        /// The objects that there were when the watch began have all been sent.
        initial_events_end: bool,
    },
    /// `ERROR`: the watch is over.
    Refused(Refusal),
    /// An event of a type that nobody knows.
    Other(&'a str),
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Which one, if that much can be read.
    pub object: Option<ObjectId>,
    /// What is wrong with it.
    pub reason: String,
    /// What it is told of is that it is gone.
    pub deleted: bool,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.object {
            Some(object) => write!(f, "{object}: {}", self.reason),
            None => write!(f, "an object without a name: {}", self.reason),
        }
    }
}

impl<'a> Item<'a> {
    pub(super) fn of_json(kind: Kind, text: &'a [u8]) -> Self {
        match object(kind, text) {
            Ok(object) => Self::Object(object),
            Err(error) => Self::Unreadable(Unreadable {
                object: serde_json::from_slice(text)
                    .ok()
                    .and_then(|it: Named<'_>| it.id(kind)),
                reason: error.to_string(),
                deleted: false,
            }),
        }
    }

    pub(super) fn of_protobuf(kind: Kind, bytes: &'a [u8]) -> Self {
        match protobuf::object(kind, bytes) {
            Ok(object) => Self::Object(object),
            Err(error) => Self::Unreadable(Unreadable {
                object: protobuf::identity(kind, bytes),
                reason: error.to_string(),
                deleted: false,
            }),
        }
    }

    /// The same, of which it is told that it is gone.
    fn deleted(self) -> Self {
        match self {
            Self::Object(object) => Self::Deleted(object),
            Self::Unreadable(it) => Self::Unreadable(Unreadable {
                deleted: true,
                ..it
            }),
            other => other,
        }
    }
}

/// Reads an event of a protobuf watch.
pub(super) fn protobuf(
    kind: Kind,
    frame: &[u8],
    on_item: &mut impl FnMut(Item<'_>),
) -> Result<(), DecodeError> {
    let event = WatchEvent::read(frame)?;
    let raw = || Ok::<_, DecodeError>(Unknown::read(event.object)?.raw);
    match event.kind {
        "ADDED" | "MODIFIED" => on_item(Item::of_protobuf(kind, raw()?)),
        "DELETED" => on_item(Item::of_protobuf(kind, raw()?).deleted()),
        "BOOKMARK" => {
            let metadata = protobuf::metadata(raw()?)?;
            on_item(bookmark(&metadata));
        }
        "ERROR" => on_item(Item::Refused(protobuf::status(event.object)?)),
        other => on_item(Item::Other(other)),
    }
    Ok(())
}

/// Reads an event of a JSON watch.
pub(super) fn json(
    kind: Kind,
    text: &[u8],
    on_item: &mut impl FnMut(Item<'_>),
) -> Result<(), DecodeError> {
    let event: JsonEvent<'_> = serde_json::from_slice(text)?;
    let object = event.object.get().as_bytes();
    match &*event.r#type {
        "ADDED" | "MODIFIED" => on_item(Item::of_json(kind, object)),
        "DELETED" => on_item(Item::of_json(kind, object).deleted()),
        "BOOKMARK" => {
            let named: Named<'_> = serde_json::from_slice(object)?;
            on_item(bookmark(&named.metadata));
        }
        "ERROR" => on_item(Item::Refused(status::json(object)?)),
        other => on_item(Item::Other(other)),
    }
    Ok(())
}

#[derive(Deserialize)]
struct JsonEvent<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

/// What every object has.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

impl Named<'_> {
    fn id(&self, kind: Kind) -> Option<ObjectId> {
        ObjectId::new(kind, &self.metadata)
    }
}

fn bookmark<'a>(metadata: &'a Metadata<'_>) -> Item<'a> {
    let end = metadata.annotations.initial_events_end.as_deref();
    Item::Bookmark {
        version: metadata.resource_version.as_deref().unwrap_or_default(),
        initial_events_end: end == Some("true"),
    }
}

fn object(kind: Kind, text: &[u8]) -> serde_json::Result<Object<'_>> {
    Ok(match kind {
        Kind::Service => Object::Service(serde_json::from_slice::<Service<'_>>(text)?),
        Kind::EndpointSlice => {
            Object::EndpointSlice(serde_json::from_slice::<EndpointSlice<'_>>(text)?)
        }
        Kind::Node => Object::Node(serde_json::from_slice::<Node<'_>>(text)?),
        Kind::ServiceCidr => Object::ServiceCidr(serde_json::from_slice::<ServiceCidr<'_>>(text)?),
    })
}
