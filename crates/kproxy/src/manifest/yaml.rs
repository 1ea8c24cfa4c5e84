//! YAML. Documents are separated first, so that one that cannot be parsed does not cost the
//! others; items of a list are read one by one.

use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::document::{Object, ObjectSeed};
use super::json::{TOO_DEEP, shape_fault, stopped};
use super::{Fault, Next, Position, Sink};
use crate::api::{Kind, Text};
use crate::yaml::with_whole_numbers;

/// Reads all documents of `text`, whose first one is `next` of a file.
pub(super) fn read(text: &[u8], next: Next, sink: &mut impl Sink) {
    for (document, (line, part)) in documents(text).enumerate() {
        let line = next.line - 1 + line;
        let at = Position {
            document: next.document + document,
            item: None,
        };
        let part = match core::str::from_utf8(part) {
            Ok(part) => part,
            Err(error) => {
                let valid = part.get(..error.valid_up_to()).unwrap_or_default();
                let line = line + valid.iter().filter(|byte| **byte == b'\n').count();
                sink.fault(
                    at,
                    stopped(line, "not UTF-8; the rest of the document was not read"),
                );
                continue;
            }
        };
        let seed = YamlDocument { at, line, sink };
        let parsed = serde_saphyr::with_deserializer_from_str_with_options(
            part,
            options(part.len()),
            |deserializer| seed.deserialize(deserializer),
        );
        match parsed {
            Ok(Some(value)) => object(&value, None, at, line, sink),
            Ok(None) => {}
            Err(error) => {
                let place = error.location();
                let number = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
                let fault = Fault::Syntax {
                    line: line + place.map_or(0, |place| number(place.line()).saturating_sub(1)),
                    column: place.map_or(0, |place| number(place.column())),
                    message: without_place(&error.without_snippet().to_string()),
                };
                sink.fault(at, fault);
            }
        }
    }
}

/// The parser's message without its own places, which count from the document's start, and without
/// its advice to programmers.
fn without_place(message: &str) -> String {
    let end = [
        " at line ",
        " (defined at ",
        " (used at ",
        ", set DuplicateKeyPolicy",
    ]
    .iter()
    .filter_map(|place| message.find(place))
    .min();
    let message = message.get(..end.unwrap_or(message.len()));
    format!(
        "{}; the rest of the document was not read",
        message.unwrap_or_default()
    )
}

/// Texts between document markers, each with the line it starts on; empty ones are left out.
fn documents(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut marks = vec![(1, 0, 0)];
    let mut offset = 0;
    for (number, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let end = offset + line.len();
        let bare = line.trim_ascii_end();
        if bare == b"---" || line.starts_with(b"--- ") || line.starts_with(b"---\t") {
            // What follows the dashes on their line belongs to the document.
            marks.push((number + 1, offset, offset + 3));
        } else if bare == b"..." {
            marks.push((number + 2, offset, end));
        }
        offset = end;
    }
    let ends: Vec<usize> = marks
        .iter()
        .skip(1)
        .map(|mark| mark.1)
        .chain([offset])
        .collect();
    marks
        .into_iter()
        .zip(ends)
        .filter_map(|((line, _, start), end)| {
            let part = text.get(start..end)?;
            let blank = part.split(|byte| *byte == b'\n').all(|line| {
                let line = line.trim_ascii();
                line.is_empty() || line.starts_with(b"#") || line.starts_with(b"%")
            });
            (!blank).then_some((line, part))
        })
}

/// A file is as big as its owner made it; what is limited is what aliases could multiply.
fn options(len: usize) -> serde_saphyr::Options {
    let mut options = serde_saphyr::Options::default();
    options.with_snippet = false;
    options.legacy_octal_numbers = true;
    if let Some(budget) = &mut options.budget {
        budget.max_events = budget.max_events.max(len.saturating_mul(2));
        budget.max_nodes = budget.max_nodes.max(len.saturating_mul(2));
        budget.max_total_scalar_bytes = budget.max_total_scalar_bytes.max(len.saturating_mul(2));
    }
    options
}

/// Reads a document: a list's items are handed on, anything else is returned.
struct YamlDocument<'s, S> {
    at: Position,
    line: usize,
    sink: &'s mut S,
}

impl<'de, S: Sink> DeserializeSeed<'de> for YamlDocument<'_, S> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for YamlDocument<'_, S> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    /// As a document without anything in it.
    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Map::new();
        let mut list = false;
        // Items that leave it to their list to say what they are, which it does behind them.
        let mut held = Vec::new();
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if &*key == "items" {
                list = true;
                let declared = fields.contains_key("apiVersion") && fields.contains_key("kind");
                map.next_value_seed(YamlItems {
                    kind: items_kind(|field| fields.get(field)),
                    held: (!declared).then_some(&mut held),
                    document: &mut self,
                })?;
            } else {
                fields.insert(key.to_string(), map.next_value()?);
            }
        }
        let kind = items_kind(|field| fields.get(field));
        for (at, item) in held {
            object(&item, kind, at, self.line, self.sink);
        }
        Ok((!list).then_some(Value::Object(fields)))
    }
}

/// The kind a list gives its items.
fn items_kind<'v>(field: impl Fn(&str) -> Option<&'v Value>) -> Option<Kind> {
    let word = |name| field(name).and_then(Value::as_str);
    let (version, kind) = word("apiVersion").zip(word("kind"))?;
    Kind::of_list(version, kind)
}

struct YamlItems<'d, 's, S> {
    kind: Option<Kind>,
    /// Where items without a kind wait if the list has not said its kind yet.
    held: Option<&'d mut Vec<(Position, Value)>>,
    document: &'d mut YamlDocument<'s, S>,
}

impl<'de, S: Sink> DeserializeSeed<'de> for YamlItems<'_, '_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for YamlItems<'_, '_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        let mut index = 0;
        while let Some(value) = seq.next_element::<Value>()? {
            let at = Position {
                item: Some(index),
                ..self.document.at
            };
            match value.get("items") {
                Some(Value::Array(items)) => {
                    let kind = items_kind(|field| value.get(field));
                    for item in items {
                        object(item, kind, at, self.document.line, self.document.sink);
                    }
                }
                _ => match &mut self.held {
                    Some(held) if is_kindless(&value) => held.push((at, value)),
                    _ => object(
                        &value,
                        self.kind,
                        at,
                        self.document.line,
                        self.document.sink,
                    ),
                },
            }
            index += 1;
        }
        Ok(())
    }
}

/// Whether an object leaves it to its list to say what it is.
fn is_kindless(value: &Value) -> bool {
    let given = |field: &str| value.get(field).is_some_and(|it| !it.is_null());
    value.is_object() && !given("apiVersion") && !given("kind")
}

/// Reads one object out of its tree, naming the field that does not fit. `line` is its document's.
fn object(value: &Value, kind: Option<Kind>, at: Position, line: usize, sink: &mut impl Sink) {
    let mut track = serde_path_to_error::Track::new();
    let tracking = serde_path_to_error::Deserializer::new(value, &mut track);
    match (ObjectSeed { kind }).deserialize(tracking) {
        Ok(Object::List) => sink.fault(
            at,
            Fault::Syntax {
                line,
                column: 1,
                message: TOO_DEEP.to_owned(),
            },
        ),
        Ok(object) => sink.object(at, object),
        Err(error) => {
            if let Some(value) = with_whole_numbers(value) {
                return object(&value, kind, at, line, sink);
            }
            let is_object = value.is_object();
            let probe = is_object.then(|| serde::Deserialize::deserialize(value).ok());
            let probe = probe.flatten();
            shape_fault(probe, kind, &track.path().to_string(), &error, at, sink);
        }
    }
}
