//! Where events go.

use thiserror::Error;

use super::Event;

/// What became of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It was written.
    Created,
    /// One of its name is there already (409 AlreadyExists).
    Known,
}

/// Why an event was not written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SinkError {
    /// Another try would end the same.
    #[error("refused: {0}")]
    Refused(String),
    /// Another try may succeed.
    #[error("{0}")]
    Failed(String),
}

/// Writes events. Called on the recorder's own thread, which waits for it.
pub trait Sink: Send {
    /// Creates the object.
    ///
    /// # Errors
    /// [`SinkError`].
    fn create(&mut self, event: &Event) -> Result<Told, SinkError>;
}
