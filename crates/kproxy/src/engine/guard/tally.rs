//! What others did to a table, in numbers.

use core::time::Duration;

use super::Editor;

/// What others did to the table of one family since the start, and what became of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Interference {
    /// Transactions of others that changed the table.
    pub edits: u64,
    /// Times that events may have been missed, so that all was compared.
    pub losses: u64,
    /// Times that the table was made anew, beside what was left of it.
    pub rebuilds: u64,
    /// Times that chains and rules were put back in place.
    pub mends: u64,
    /// Rows put right one by one.
    pub rows: u64,
    /// Rows compared by walks over all of them.
    pub compared: u64,
    /// Such walks that came to an end.
    pub passes: u64,
    /// Times that all rows were looked through that the kernel does not count.
    pub counts: u64,
    /// Times that somebody kept changing the table back.
    pub fights: u64,
    /// Since when somebody does, on the engine's clock: the table may not be as it should be.
    pub contended_since: Option<Duration>,
    /// Who changed it last.
    pub last_editor: Option<Editor>,
}

impl Interference {
    /// Who changed the table last, as far as that is known.
    #[must_use]
    pub fn changed_by(&self) -> String {
        match &self.last_editor {
            Some(editor) => editor.to_string(),
            None => "somebody".to_owned(),
        }
    }
}
