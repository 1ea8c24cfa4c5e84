//! JSON: one pass in which everything is read straight into place. When an object does not fit,
//! the document is gone through again item by item, and the object is named.

use serde::de::{DeserializeSeed, IgnoredAny, SeqAccess};
use serde_json::Deserializer;
use serde_json::error::Category;
use serde_json::value::RawValue;

use super::document::{DocumentSeed, Items, NoItems, Object, Probe};
use super::{Fault, Position, Sink};
use crate::api::Kind;

/// Reads all documents of `text`, which follow one another with or without blanks between.
pub(super) fn read(text: &str, sink: &mut impl Sink) {
    let mut start = 0;
    let mut document = 1;
    while let Err(stop) = straight(rest(text, start), &mut document, sink) {
        start += stop.offset;
        let outcome = match stop.error.classify() {
            Category::Data => careful(rest(text, start), document, stop.items, sink),
            _ => Err(stop.error),
        };
        match outcome {
            Ok(read) => {
                start += read;
                document += 1;
            }
            Err(error) => {
                let at = Position {
                    document,
                    item: None,
                };
                return sink.fault(at, syntax(text, start, &error));
            }
        }
    }
}

struct Stop {
    error: serde_json::Error,
    /// Where the unreadable document starts.
    offset: usize,
    /// Items of it that were read.
    items: usize,
}

/// Reads documents until one cannot be read.
fn straight(text: &str, document: &mut usize, sink: &mut impl Sink) -> Result<(), Stop> {
    let mut deserializer = Deserializer::from_str(text);
    let first = *document;
    while deserializer.end().is_err() {
        let mut items = Straight {
            document: *document,
            index: 0,
            sink,
        };
        let seed = DocumentSeed {
            kind: None,
            items: &mut items,
        };
        match seed.deserialize(&mut deserializer) {
            Ok(object) => {
                let at = Position {
                    document: *document,
                    item: None,
                };
                if let Some(object) = object {
                    sink.object(at, object);
                }
            }
            Err(error) => {
                return Err(Stop {
                    error,
                    items: items.index,
                    offset: offset_of(text, *document - first),
                });
            }
        }
        *document += 1;
    }
    Ok(())
}

/// Where the `n`th document starts; everything before it is known to be readable.
fn offset_of(text: &str, n: usize) -> usize {
    let mut stream = Deserializer::from_str(text).into_iter::<IgnoredAny>();
    for _ in 0..n {
        stream.next();
    }
    stream.byte_offset()
}

struct Straight<'s, S> {
    document: usize,
    index: usize,
    sink: &'s mut S,
}

impl<'de, S: Sink> Items<'de> for Straight<'_, S> {
    fn next<A: SeqAccess<'de>>(
        &mut self,
        seq: &mut A,
        kind: Option<Kind>,
    ) -> Result<bool, A::Error> {
        let item = DocumentSeed {
            kind,
            items: &mut NoItems,
        };
        let Some(object) = seq.next_element_seed(item)? else {
            return Ok(false);
        };
        let at = Position {
            document: self.document,
            item: Some(self.index),
        };
        self.sink.object(at, object.unwrap_or(Object::Other));
        self.index += 1;
        Ok(true)
    }
}

/// Reads the first document of `text` without its first `skip` items. Returns its length.
fn careful(
    text: &str,
    document: usize,
    skip: usize,
    sink: &mut impl Sink,
) -> Result<usize, serde_json::Error> {
    let mut stream = Deserializer::from_str(text).into_iter::<&RawValue>();
    let raw = match stream.next() {
        None => return Ok(text.len()),
        Some(Ok(raw)) => raw.get(),
        Some(Err(error)) => {
            // The items before the syntax error can still be read.
            let mut items = Careful {
                document,
                index: 0,
                skip,
                sink,
            };
            let seed = DocumentSeed {
                kind: None,
                items: &mut items,
            };
            let _ = seed.deserialize(&mut Deserializer::from_str(text));
            return Err(error);
        }
    };
    let mut items = Careful {
        document,
        index: 0,
        skip,
        sink,
    };
    let seed = DocumentSeed {
        kind: None,
        items: &mut items,
    };
    match seed.deserialize(&mut Deserializer::from_str(raw)) {
        Ok(None) => {}
        Ok(Some(object)) => sink.object(
            Position {
                document,
                item: None,
            },
            object,
        ),
        Err(_) => one(
            raw,
            None,
            Position {
                document,
                item: None,
            },
            sink,
        ),
    }
    Ok(stream.byte_offset())
}

struct Careful<'s, S> {
    document: usize,
    index: usize,
    skip: usize,
    sink: &'s mut S,
}

impl<'de, S: Sink> Items<'de> for Careful<'_, S> {
    fn next<A: SeqAccess<'de>>(
        &mut self,
        seq: &mut A,
        kind: Option<Kind>,
    ) -> Result<bool, A::Error> {
        let Some(raw) = seq.next_element::<&RawValue>()? else {
            return Ok(false);
        };
        if self.index >= self.skip {
            let at = Position {
                document: self.document,
                item: Some(self.index),
            };
            one(raw.get(), kind, at, self.sink);
        }
        self.index += 1;
        Ok(true)
    }
}

/// Reads one object, naming the field that does not fit.
fn one(raw: &str, kind: Option<Kind>, at: Position, sink: &mut impl Sink) {
    let mut deserializer = Deserializer::from_str(raw);
    let mut track = serde_path_to_error::Track::new();
    let tracking = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    let seed = DocumentSeed {
        kind,
        items: &mut NoItems,
    };
    match seed.deserialize(tracking) {
        Ok(object) => sink.object(at, object.unwrap_or(Object::Other)),
        Err(error) => {
            let probe = serde_json::from_str::<Probe<'_>>(raw);
            shape_fault(
                probe.ok(),
                kind,
                &track.path().to_string(),
                &error,
                at,
                sink,
            );
        }
    }
}

/// Reports an object of ours that does not fit its type; others are none of our business.
pub(super) fn shape_fault(
    probe: Option<Probe<'_>>,
    kind: Option<Kind>,
    path: &str,
    error: &serde_json::Error,
    at: Position,
    sink: &mut impl Sink,
) {
    let object = match probe {
        Some(probe) if !probe.is_ours(kind) => return sink.object(at, Object::Other),
        Some(probe) => probe.describe(kind),
        None => "object".to_owned(),
    };
    let fault = Fault::Shape {
        object,
        path: path.to_owned(),
        message: without_place(error),
    };
    sink.fault(at, fault);
}

/// serde_json's message without " at line 1 column 2", which would count from the object.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) if error.line() > 0 => text[..end].to_owned(),
        _ => text,
    }
}

fn syntax(text: &str, start: usize, error: &serde_json::Error) -> Fault {
    let before = text.get(..start).unwrap_or_default();
    Fault::Syntax {
        line: error.line() + before.bytes().filter(|&byte| byte == b'\n').count(),
        column: error.column(),
        message: without_place(error),
    }
}

fn rest(text: &str, start: usize) -> &str {
    text.get(start..).unwrap_or_default()
}
