//! Answers of the API server, lists and watches, JSON and protobuf: whatever the pieces in which one
//! arrives, the same comes of it.
//!
//! ```text
//! input = form u8 (bits: kind 0–1, protobuf 2, watch 3) | piece u8 | the body
//! ```

use kproxy::api::Kind;
use kproxy::apiserver::decode::{Decoder, Encoding, Form, Item};
use kproxy::ingest::{self, ObjectId};
use kproxy::manifest::Object;

pub(crate) fn run(input: &[u8]) {
    let Some(([form, piece], body)) = input.split_first_chunk::<2>() else {
        return;
    };
    let whole = read(*form, body.len().max(1), body);
    let pieces = read(*form, usize::from(*piece).max(1), body);
    assert_eq!(whole, pieces);
}

/// What comes of a body that arrives in pieces of so many bytes, line by line.
fn read(form: u8, piece: usize, body: &[u8]) -> Vec<String> {
    let kind = match form & 3 {
        0 => Kind::Service,
        1 => Kind::EndpointSlice,
        2 => Kind::Node,
        _ => Kind::ServiceCidr,
    };
    let encoding = if form & 4 == 0 {
        Encoding::Json
    } else {
        Encoding::Protobuf
    };
    let shape = if form & 8 == 0 {
        Form::List
    } else {
        Form::Watch
    };
    let mut decoder = Decoder::new(kind, encoding, shape);
    let mut lines = Vec::new();
    for bytes in body.chunks(piece) {
        if decoder
            .push(bytes, |item| lines.push(told(kind, item)))
            .is_err()
        {
            // What is wrong may be noticed sooner or later, and is told by place.
            lines.push("broken".to_owned());
            return lines;
        }
    }
    let end = decoder.finish();
    lines.push(end.map_or_else(|_| "broken".to_owned(), |end| format!("{end:?}")));
    lines
}

fn told(kind: Kind, item: Item<'_>) -> String {
    match item {
        Item::Object(object) => format!("{:?}", ingested(kind, &object)),
        Item::Deleted(object) => format!("deleted {:?}", ingested(kind, &object)),
        // Its reason names a place in what had arrived.
        Item::Unreadable(it) => format!("unreadable {:?}", it.object),
        other => format!("{other:?}"),
    }
}

/// The planner's object, and what is wrong with it.
fn ingested(kind: Kind, object: &Object<'_>) -> String {
    let mut problems = Vec::new();
    let id = |metadata| ObjectId::new(kind, metadata);
    let change = match object {
        Object::Service(api) => {
            id(&api.metadata).map(|id| ingest::service(&id, api, &mut problems))
        }
        Object::EndpointSlice(api) => {
            id(&api.metadata).map(|id| ingest::endpoint_slice(&id, api, &mut problems))
        }
        Object::Node(api) => id(&api.metadata).map(|id| ingest::node(&id, api, &mut problems)),
        Object::ServiceCidr(api) => {
            id(&api.metadata).map(|id| ingest::service_cidr(&id, api, &mut problems))
        }
        _ => None,
    };
    format!("{change:?} {}", problems.len())
}
