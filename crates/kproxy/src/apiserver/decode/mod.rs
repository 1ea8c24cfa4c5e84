//! What the API server sends, whichever way: lists and watches, JSON and protobuf, in pieces of any
//! size. Objects are read one at a time into the slim shapes of [`crate::api`], which borrow from
//! what came in; nothing is held but what is not complete yet.

mod event;
mod frames;
mod inflate;
mod values;

use super::gather::MOST;
pub use event::{Item, Unreadable};
pub(super) use inflate::Inflate;

use thiserror::Error;

use self::frames::Frames;
use self::values::{ListValues, Values};
use super::protobuf::{ListReader, ProtobufError};
use crate::api::Kind;

/// How objects are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Encoding {
    /// What a `Content-Type` says, `None` if it is neither.
    #[must_use]
    pub fn of(content_type: &str) -> Option<Self> {
        let essence = content_type.split(';').next().unwrap_or_default().trim();
        match essence {
            "application/json" => Some(Self::Json),
            super::options::PROTOBUF => Some(Self::Protobuf),
            _ => None,
        }
    }
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The answer to a list request.
    List,
    /// The answer to a watch request.
    Watch,
}

/// Why a body cannot be read on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// It ended too early.
    #[error("the answer ends too early")]
    Cut,
    /// An object longer than any that the API server takes.
    #[error("an object of more than {} MiB", MOST >> 20)]
    TooLong,
    /// JSON that is no list.
    #[error("the answer is no list")]
    NoList,
    /// JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// Protobuf.
    #[error("protobuf: {0}")]
    Protobuf(#[from] ProtobufError),
    /// Compressed data.
    #[error("gzip: {0}")]
    Gzip(std::io::Error),
}

/// What a list says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListEnd {
    /// `metadata.resourceVersion`.
    pub version: String,
    /// `metadata.continue`; empty after the last page.
    pub continuation: String,
}

/// Reads one body.
#[derive(Debug)]
pub struct Decoder {
    kind: Kind,
    body: Body,
}

#[derive(Debug)]
enum Body {
    JsonList(ListValues),
    JsonWatch(Values),
    ProtobufList(ListReader),
    ProtobufWatch(Frames),
}

impl Decoder {
    /// For a body with objects of `kind`.
    #[must_use]
    pub fn new(kind: Kind, encoding: Encoding, form: Form) -> Self {
        let body = match (encoding, form) {
            (Encoding::Json, Form::List) => Body::JsonList(ListValues::default()),
            (Encoding::Json, Form::Watch) => Body::JsonWatch(Values::default()),
            (Encoding::Protobuf, Form::List) => Body::ProtobufList(ListReader::default()),
            (Encoding::Protobuf, Form::Watch) => Body::ProtobufWatch(Frames::default()),
        };
        Self { kind, body }
    }

    /// Takes the next bytes; `on_item` gets what they complete.
    ///
    /// # Errors
    /// What cannot be taken apart. An object that cannot be read is an item.
    pub fn push(
        &mut self,
        bytes: &[u8],
        mut on_item: impl FnMut(Item<'_>),
    ) -> Result<(), DecodeError> {
        let kind = self.kind;
        match &mut self.body {
            Body::JsonList(list) => list.push(bytes, |text| on_item(Item::of_json(kind, text))),
            Body::JsonWatch(values) => {
                values.push(bytes, |text| event::json(kind, text, &mut on_item))
            }
            Body::ProtobufList(list) => {
                list.push(bytes, |item| on_item(Item::of_protobuf(kind, item)))?;
                Ok(())
            }
            Body::ProtobufWatch(frames) => {
                frames.push(bytes, |frame| event::protobuf(kind, frame, &mut on_item))
            }
        }
    }

    /// At the end of the body: what a list says of itself; of a watch that its last event was whole.
    ///
    /// # Errors
    /// [`DecodeError::Cut`].
    pub fn finish(self) -> Result<ListEnd, DecodeError> {
        let complete = match self.body {
            Body::JsonList(list) => return list.finish(),
            Body::ProtobufList(list) => return Ok(list.finish()?),
            Body::JsonWatch(values) => values.is_complete(),
            Body::ProtobufWatch(frames) => frames.is_complete(),
        };
        if complete {
            Ok(ListEnd::default())
        } else {
            Err(DecodeError::Cut)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_have_parameters() {
        for (text, encoding) in [
            ("application/json", Some(Encoding::Json)),
            ("application/json;stream=watch", Some(Encoding::Json)),
            (
                "application/vnd.kubernetes.protobuf;stream=watch",
                Some(Encoding::Protobuf),
            ),
            (
                "application/vnd.kubernetes.protobuf ; a=b",
                Some(Encoding::Protobuf),
            ),
            ("text/html", None),
            ("", None),
        ] {
            assert_eq!(Encoding::of(text), encoding, "{text}");
        }
    }
}
