//! What becomes of each field of the file: the one table that the decoder, the warnings and
//! docs/CONFIGURATION.md go by.

use super::mode::Mode;

/// A field of the file that holds a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Names from the top, joined by dots. Fields of list items carry the list's path.
    pub path: &'static str,
    /// What may stand there.
    pub kind: Kind,
    /// What stands for nothing; empty if nothing does.
    pub default: &'static str,
    /// What it does.
    pub standing: Standing,
}

/// What may stand in a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// true or false.
    Bool,
    /// A whole number.
    Integer,
    /// A number.
    Number,
    /// Text.
    Text,
    /// Text such as 30s.
    Duration,
    /// The same, or null for nothing said.
    OptionalDuration,
    /// Text such as 30s, or a number of nanoseconds.
    DurationOrNanoseconds,
    /// A list of texts.
    Texts,
    /// Names and true or false.
    Switches,
    /// Text such as 4Ki.
    Quantity,
}

/// What becomes of a field or flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It does what kube-proxy does with it.
    Works,
    /// The same, in some modes; kube-proxy does not read it in others either.
    WorksIn(&'static [Mode]),
    /// It is read and checked, and then: what happens instead.
    Accepted(&'static str),
}

impl Field {
    pub(super) const fn works(path: &'static str, kind: Kind, default: &'static str) -> Self {
        Self {
            path,
            kind,
            default,
            standing: Standing::Works,
        }
    }

    pub(super) const fn works_in(
        path: &'static str,
        kind: Kind,
        default: &'static str,
        modes: &'static [Mode],
    ) -> Self {
        Self {
            path,
            kind,
            default,
            standing: Standing::WorksIn(modes),
        }
    }

    pub(super) const fn accepted(
        path: &'static str,
        kind: Kind,
        default: &'static str,
        instead: &'static str,
    ) -> Self {
        Self {
            path,
            kind,
            default,
            standing: Standing::Accepted(instead),
        }
    }
}

impl Kind {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Text => "text",
            Self::Duration => "duration",
            Self::OptionalDuration => "duration or null",
            Self::DurationOrNanoseconds => "duration or nanoseconds",
            Self::Texts => "list of texts",
            Self::Switches => "map of bools",
            Self::Quantity => "quantity",
        }
    }
}
