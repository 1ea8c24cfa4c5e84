//! Results on standard output: for people, or as JSON. Standard error has logs and complaints.

use std::io::{self, IsTerminal as _, Write as _};

use clap::ValueEnum;
use serde::Serialize;

use super::CliError;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON document.
    Json,
}

/// Writes results.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    format: Format,
}

impl Printer {
    /// Writes in `format`.
    #[must_use]
    pub fn new(format: Format) -> Self {
        Self { format }
    }

    /// Whether standard output shows colours.
    #[must_use]
    pub fn coloured() -> bool {
        io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
    }

    /// Writes `value` as JSON, or what `text` makes of it.
    ///
    /// # Errors
    /// [`CliError::Output`], [`CliError::Json`]; a reader that has gone away is no error.
    pub fn print<T: Serialize>(
        self,
        value: &T,
        text: impl FnOnce(&mut String, &T),
    ) -> Result<(), CliError> {
        let mut out = match self.format {
            Format::Json => serde_json::to_string_pretty(value)? + "\n",
            Format::Text => {
                let mut out = String::new();
                text(&mut out, value);
                out
            }
        };
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        let mut stdout = io::stdout().lock();
        match stdout
            .write_all(out.as_bytes())
            .and_then(|()| stdout.flush())
        {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => Ok(()),
        }
    }
}
