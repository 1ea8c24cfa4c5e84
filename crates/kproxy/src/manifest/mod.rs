//! Manifests: files of YAML or JSON holding the API's objects, alone, several in a file, or in
//! `List`s, as `kubectl get -o yaml` and `-o json` print them.
//!
//! Each object is handed on as soon as it is read, so a `List` of a whole cluster costs its text
//! and no more. Whatever cannot be read is one line that names file, document, item, object and
//! field; the rest is served.

mod document;
mod folder;
mod json;
mod problem;
mod source;
mod stream;
mod yaml;

pub use document::Object;
pub use folder::{FileKey, manifests_in};
pub use problem::{Fault, Position, Problem};
pub use source::{Input, Source, Stats};

use std::io::{self, Read};

use stream::Window;

use crate::yaml::Utf16;

/// What a manifest's text turns into.
pub(crate) trait Sink {
    /// An object of one of our kinds, or another.
    fn object(&mut self, at: Position, object: Object<'_>);

    /// Something that could not be read.
    fn fault(&mut self, at: Position, fault: Fault);
}

/// How much there was to read.
pub(crate) struct Length {
    /// Bytes.
    pub(crate) bytes: u64,
    /// Nothing but blanks.
    pub(crate) blank: bool,
}

/// Where a text goes on.
#[derive(Debug, Clone, Copy)]
struct Next {
    /// Number of the next document.
    document: usize,
    /// Line that it begins on.
    line: usize,
}

impl Next {
    const FIRST: Self = Self {
        document: 1,
        line: 1,
    };
}

/// Reads all documents of a text and returns its length. JSON, told by its first characters, is read
/// piece by piece, YAML, which may follow it, as a whole. UTF-16 is told by its byte order mark.
///
/// # Errors
/// Of the first read; later ones are told to `sink`.
pub(crate) fn read(reader: impl Read, sink: &mut impl Sink) -> io::Result<Length> {
    let mut window = Window::new(reader);
    for order in Utf16::ALL {
        window.skip_prefix(&order.mark())?;
        if !window.marked().is_empty() {
            window.set_mark();
            let text = order.decode(&window.take_rest()?);
            return read(text.as_bytes(), sink);
        }
    }
    window.skip_prefix("\u{feff}".as_bytes())?;
    window.set_mark();
    let first = window.peek()?;
    // A brace and a bare word is YAML.
    window.skip();
    let is_json = first == Some(b'{') && matches!(window.peek()?, None | Some(b'"' | b'}'));
    window.back();
    if is_json {
        if let Some(next) = json::read(&mut window, sink) {
            yaml::read(&window.take_rest()?, next, sink);
        }
        return Ok(Length {
            bytes: window.bytes(),
            blank: false,
        });
    }
    let text = window.take_rest()?;
    yaml::read(&text, Next::FIRST, sink);
    Ok(Length {
        bytes: u64::try_from(text.len()).unwrap_or(u64::MAX),
        blank: first.is_none(),
    })
}

#[cfg(test)]
mod spellings;
#[cfg(test)]
mod tests;
