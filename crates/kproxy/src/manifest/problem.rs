//! What could not be read, and where.

use core::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

use crate::api::Kind;
use crate::ingest::{self, ObjectId, Severity};

/// A place in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Position {
    /// Document, from 1.
    pub document: usize,
    /// Index in the document's `items`, from 0, if it is a list.
    pub item: Option<usize>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "document {}", self.document)?;
        self.item
            .map_or(Ok(()), |item| write!(f, ": items[{item}]"))
    }
}

/// What is wrong.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Fault {
    /// A field of an otherwise usable object.
    #[error(transparent)]
    Field(#[from] ingest::Problem),
    /// An object of one of our kinds whose fields have unexpected types.
    #[error("{object}: {path}: {message}")]
    Shape {
        /// Kind, namespace and name as far as they could be read.
        object: String,
        /// Path of the field.
        path: String,
        /// What was expected.
        message: String,
    },
    /// Not JSON or YAML.
    #[error("line {line}, column {column}: {message}")]
    Syntax {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What was expected.
        message: String,
    },
    /// An object without `kind` or `apiVersion`.
    #[error("kind or apiVersion is missing")]
    NoKind,
    /// An object without a name.
    #[error("{0}: metadata.name: missing")]
    NoName(Kind),
    /// An object defined twice.
    #[error("{object}: also in {other}; {used} is used")]
    Duplicate {
        /// Which object.
        object: ObjectId,
        /// Where else.
        other: String,
        /// Which definition counts.
        used: &'static str,
    },
    /// A file that could not be read.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// A file that was asked for by name and is empty.
    #[error("there is nothing in it")]
    Blank,
}

impl Fault {
    /// Of which kind the object is, as far as that is known.
    #[must_use]
    pub fn kind(&self) -> Option<Kind> {
        match self {
            Self::Field(problem) => Some(problem.object.kind),
            Self::Duplicate { object, .. } => Some(object.kind),
            Self::NoName(kind) => Some(*kind),
            _ => None,
        }
    }

    /// How much it costs.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::Field(problem) => problem.reason.severity(),
            Self::Duplicate { .. } => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

impl Problem {
    /// Whether nothing is known of the whole file: it cannot be read, or it is blank where its
    /// writer has probably failed. That says nothing about the objects that should be in it.
    #[must_use]
    pub fn is_of_input(&self) -> bool {
        self.position.is_none() && matches!(self.fault, Fault::Io(_) | Fault::Blank)
    }
}

/// One line about one fault: file, place, severity, object, field, reason.
#[derive(Debug, Error)]
#[error("{}: {}{}: {fault}", file.display(), Place(position), fault.severity())]
pub struct Problem {
    /// File, `-` for standard input.
    pub file: Arc<PathBuf>,
    /// Where in the file, if the file could be read at all.
    pub position: Option<Position>,
    /// What is wrong.
    pub fault: Fault,
}

struct Place<'a>(&'a Option<Position>);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.map_or(Ok(()), |position| write!(f, "{position}: "))
    }
}
