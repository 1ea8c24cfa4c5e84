//! JSON documents, one behind the other. The items of a list are read one by one; an item that
//! cannot be read costs only itself.
//!
//! An item without a kind has the one its list declares. Where a list declares it behind its items
//! (sorted fields), such items are held until then; items with a kind of their own never are.

use std::io::Read;

use serde::de::DeserializeSeed;
use serde_json::Deserializer;
use serde_json::error::Category;

use super::document::{Object, ObjectSeed, Probe};
use super::stream::{Cut, Window};
use super::{Fault, Next, Position, Sink};
use crate::api::Kind;

/// Reads all documents, up to one that is YAML, behind `---`: the mark is there then.
pub(super) fn read(window: &mut Window<impl Read>, sink: &mut impl Sink) -> Option<Next> {
    let mut document = 1;
    loop {
        let at = Position {
            document,
            item: None,
        };
        match self::document(window, at, Depth::Top, sink) {
            Ok(Found::Document) => document += 1,
            Ok(Found::Nothing) => return None,
            Ok(Found::Yaml) => {
                let line = window.mark_line();
                return Some(Next { document, line });
            }
            Err(stop) => {
                sink.fault(at, stop.fault(window.line()));
                return None;
            }
        }
    }
}

/// What is next in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    /// A document, which was read.
    Document,
    /// The end.
    Nothing,
    /// What is no JSON, behind the mark of a document's beginning.
    Yaml,
}

/// Where in a document we are: a list may hold lists, as `kubectl` accepts it, but no deeper ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Top,
    Item,
    ItemOfItem,
}

enum Stop {
    Cut(Cut),
    Expected(&'static str),
}

impl Stop {
    fn fault(self, line: usize) -> Fault {
        match self {
            Self::Cut(Cut::Io(error)) => error.into(),
            Self::Cut(Cut::End) => stopped(line, "the text ends inside a value"),
            Self::Cut(Cut::Missing) => expected(line, "a value"),
            Self::Expected(what) => expected(line, what),
        }
    }
}

impl<T: Into<Cut>> From<T> for Stop {
    fn from(cut: T) -> Self {
        Self::Cut(cut.into())
    }
}

/// Reads a document if there is one.
fn document(
    window: &mut Window<impl Read>,
    at: Position,
    depth: Depth,
    sink: &mut impl Sink,
) -> Result<Found, Stop> {
    if depth == Depth::Top && window.peek()? == Some(b'-') {
        // Between documents, where a YAML parser accepts it.
        window.set_mark();
        window.skip_prefix(b"---")?;
        if window.marked().is_empty() {
            return Err(Stop::Expected("an object"));
        }
        if window.peek()?.is_some_and(|byte| byte != b'{') {
            window.back();
            return Ok(Found::Yaml);
        }
    }
    match window.peek()? {
        None => return Ok(Found::Nothing),
        Some(b'{') => {}
        Some(_) => return Err(Stop::Expected("an object")),
    }
    window.set_mark();
    window.skip();
    let mut list: Option<ItemsKind> = None;
    loop {
        match window.peek()? {
            Some(b'"') => {
                let is_items = field(window, list.is_some())?;
                if is_items && window.peek()? == Some(b'[') {
                    let kind = list.get_or_insert_with(|| ItemsKind::of_head(window.marked()));
                    items(window, kind, at, depth, sink)?;
                } else {
                    window.skip_value()?;
                    if let Some(kind) = &mut list {
                        kind.field(window.marked());
                    }
                }
                if list.is_some() {
                    window.set_mark();
                }
            }
            Some(b',') => window.skip(),
            Some(b'}') => break,
            Some(_) => return Err(Stop::Expected("a field name, `,` or `}`")),
            None => return Err(Cut::End.into()),
        }
    }
    window.skip();
    match list {
        Some(ItemsKind::Known(_)) => {}
        Some(ItemsKind::NotYet(held)) => held.read(sink),
        None => {
            let text = (window.marked(), window.mark_line());
            object(text, &mut ItemsKind::Known(None), at, depth, sink);
        }
    }
    Ok(Found::Document)
}

/// Takes a field's name and colon; whether it is `items`.
fn field(window: &mut Window<impl Read>, list: bool) -> Result<bool, Stop> {
    if list {
        window.set_mark();
    }
    window.skip_value()?;
    let is_items = window.marked().ends_with(b"\"items\"");
    match window.peek()? {
        Some(b':') => window.skip(),
        Some(_) => return Err(Stop::Expected("`:`")),
        None => return Err(Cut::End.into()),
    }
    Ok(is_items)
}

/// Reads the items of a list.
fn items(
    window: &mut Window<impl Read>,
    kind: &mut ItemsKind,
    at: Position,
    depth: Depth,
    sink: &mut impl Sink,
) -> Result<(), Stop> {
    window.skip();
    let mut index = 0;
    loop {
        match window.peek()? {
            Some(b']') => break,
            Some(b',') => window.skip(),
            Some(b'}' | b':') => return Err(Stop::Expected("an object, `,` or `]`")),
            // Also what is no object, which costs only itself.
            Some(_) => {
                window.set_mark();
                window.skip_value()?;
                // An item of an inner list goes by the place of its list.
                let (at, depth) = match depth {
                    Depth::Top => {
                        let item = Some(index);
                        (Position { item, ..at }, Depth::Item)
                    }
                    Depth::Item | Depth::ItemOfItem => (at, Depth::ItemOfItem),
                };
                let text = (window.marked(), window.mark_line());
                object(text, kind, at, depth, sink);
                index += 1;
            }
            None => return Err(Cut::End.into()),
        }
    }
    window.skip();
    Ok(())
}

/// Kind of the items that name none.
enum ItemsKind {
    /// What the list declares, if that is a kind of ours.
    Known(Option<Kind>),
    /// The list has not said yet.
    NotYet(Held),
}

/// Items that wait for their list to declare their kind.
struct Held {
    /// The list without its items and its closing brace.
    list: Vec<u8>,
    /// Texts of the items, one behind the other.
    texts: Vec<u8>,
    items: Vec<HeldItem>,
}

struct HeldItem {
    /// End of its text.
    end: usize,
    line: usize,
    at: Position,
    depth: Depth,
}

impl ItemsKind {
    /// From a list's head, everything up to `"items":`.
    fn of_head(head: &[u8]) -> Self {
        let list = [head, b"null"].concat();
        match list_probe(&list) {
            Some(probe) if !probe.declares() => Self::NotYet(Held {
                list,
                texts: Vec::new(),
                items: Vec::new(),
            }),
            probe => Self::Known(probe.and_then(|probe| probe.items_kind())),
        }
    }

    fn known(&self) -> Option<Kind> {
        match self {
            Self::Known(kind) => *kind,
            Self::NotYet(_) => None,
        }
    }

    /// Takes note of a field behind the items.
    fn field(&mut self, text: &[u8]) {
        if let Self::NotYet(held) = self
            && (text.starts_with(b"\"kind\"") || text.starts_with(b"\"apiVersion\""))
        {
            held.list.push(b',');
            held.list.extend_from_slice(text);
        }
    }
}

impl Held {
    fn hold(&mut self, text: &[u8], line: usize, at: Position, depth: Depth) {
        self.texts.extend_from_slice(text);
        self.items.push(HeldItem {
            end: self.texts.len(),
            line,
            at,
            depth,
        });
    }

    /// Reads the items at the end of the list.
    fn read(self, sink: &mut impl Sink) {
        let mut kind = ItemsKind::Known(list_probe(&self.list).and_then(|it| it.items_kind()));
        let mut start = 0;
        for item in self.items {
            let text = self.texts.get(start..item.end).unwrap_or_default();
            object((text, item.line), &mut kind, item.at, item.depth, sink);
            start = item.end;
        }
    }
}

/// What a list, given without its closing brace, says of itself.
fn list_probe(list: &[u8]) -> Option<Probe> {
    serde_json::from_slice(&[list, b"}"].concat()).ok()
}

/// Reads one object, which starts at `line`, naming the field that does not fit.
fn object(
    (bytes, line): (&[u8], usize),
    items_kind: &mut ItemsKind,
    at: Position,
    depth: Depth,
    sink: &mut impl Sink,
) {
    let kind = items_kind.known();
    let text = match core::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => return sink.fault(at, stopped(line, &error.to_string())),
    };
    let mut deserializer = Deserializer::from_str(text);
    let error = match (ObjectSeed { kind }).deserialize(&mut deserializer) {
        Ok(Object::List) => return inner_list(bytes, line, at, depth, sink),
        Ok(Object::Unknown) => {
            return match items_kind {
                ItemsKind::NotYet(held) if is_kindless(text) => held.hold(bytes, line, at, depth),
                _ => sink.object(at, Object::Unknown),
            };
        }
        Ok(object) => return sink.object(at, object),
        Err(error) => error,
    };
    if error.classify() != Category::Data {
        let fault = Fault::Syntax {
            line: line + error.line().saturating_sub(1),
            column: error.column(),
            message: without_place(&error),
        };
        return sink.fault(at, fault);
    }
    if let ItemsKind::NotYet(held) = items_kind
        && is_kindless(text)
    {
        return held.hold(bytes, line, at, depth);
    }
    // Once more, this time keeping track of where we are.
    let mut deserializer = Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let tracking = serde_path_to_error::Deserializer::new(&mut deserializer, &mut track);
    match (ObjectSeed { kind }).deserialize(tracking) {
        Ok(object) => sink.object(at, object),
        Err(error) => {
            let is_object = text.starts_with('{');
            let probe = is_object.then(|| serde_json::from_str(text).ok()).flatten();
            shape_fault(probe, kind, &track.path().to_string(), &error, at, sink);
        }
    }
}

/// Whether an object leaves it to its list to say what it is.
fn is_kindless(text: &str) -> bool {
    serde_json::from_str(text).is_ok_and(|probe: Probe| probe.is_kindless())
}

/// Reads the items of a list that is an item itself.
fn inner_list(bytes: &[u8], line: usize, at: Position, depth: Depth, sink: &mut impl Sink) {
    if depth == Depth::ItemOfItem {
        return sink.fault(at, stopped(line, TOO_DEEP));
    }
    let mut window = Window::new(bytes);
    if let Err(stop) = document(&mut window, at, Depth::Item, sink) {
        sink.fault(at, stop.fault(line + window.line() - 1));
    }
}

/// What is said of a list three lists deep.
pub(super) const TOO_DEEP: &str = "lists in lists in lists are not read";

/// Reports an object of ours that does not fit its type; others are none of our business.
pub(super) fn shape_fault(
    probe: Option<Probe>,
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
        message: in_words_of_the_api(&without_place(error)),
    };
    sink.fault(at, fault);
}

/// Names the expected type as users of the API know it, not as Rust does.
fn in_words_of_the_api(message: &str) -> String {
    let Some((found, expected)) = message.split_once(", expected ") else {
        return message.to_owned();
    };
    let expected = match expected {
        "i64" => "an integer",
        "a sequence" => "a list",
        "a map" => "an object",
        expected if expected.starts_with("struct ") => "an object",
        expected => expected,
    };
    format!("{found}, expected {expected}")
}

/// serde_json's message without " at line 1 column 2", which would count from the object.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rfind(" at line ") {
        Some(end) if error.line() > 0 => text[..end].to_owned(),
        _ => text,
    }
}

fn expected(line: usize, what: &str) -> Fault {
    let message = format!("expected {what}; nothing behind it was read");
    stopped(line, &message)
}

pub(super) fn stopped(line: usize, message: &str) -> Fault {
    Fault::Syntax {
        line,
        column: 1,
        message: message.to_owned(),
    }
}
