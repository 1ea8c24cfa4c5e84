//! What ends a list or watch before its time.

use super::transfer::TransferError;
use super::{ClientError, Refusal};

/// Why a list or watch failed.
#[derive(Debug)]
pub(super) enum Failure {
    Transfer(TransferError),
    /// An `ERROR` event.
    Event(Refusal),
    /// The stream ended before all objects were sent.
    Unfinished,
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Transfer(error) => error.fmt(f),
            Self::Event(refusal) => refusal.fmt(f),
            Self::Unfinished => f.write_str("the list ended before all objects were sent"),
        }
    }
}

impl Failure {
    pub(super) const fn is_silence(&self) -> bool {
        matches!(self, Self::Transfer(error) if error.is_silence())
    }

    pub(super) fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Transfer(TransferError::Client(ClientError::Refused(refusal)))
            | Self::Event(refusal) => Some(refusal),
            _ => None,
        }
    }
}
