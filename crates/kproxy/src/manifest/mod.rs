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
mod yaml;

pub use document::Object;
pub use folder::{FileKey, manifests_in};
pub use problem::{Fault, Position, Problem};
pub use source::{Input, Source, Stats};

/// What a manifest's text turns into.
pub(crate) trait Sink {
    /// An object of one of our kinds, or another.
    fn object(&mut self, at: Position, object: Object<'_>);

    /// Something that could not be read.
    fn fault(&mut self, at: Position, fault: Fault);
}

/// Reads all documents of `text`. JSON is told from YAML by its first character.
pub(crate) fn read(text: &str, sink: &mut impl Sink) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        json::read(text, sink);
    } else {
        yaml::read(text, sink);
    }
}
