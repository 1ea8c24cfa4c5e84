//! Results on standard output: for people, or as JSON.

use std::io::{self, IsTerminal as _, Write as _};

use clap::{Args, ValueEnum};
use serde::Serialize;

use super::CliError;

/// How results are printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// How to print.
#[derive(Debug, Args)]
pub(super) struct Results {
    /// How results are printed
    #[arg(long, short, value_enum, default_value_t)]
    pub(super) output: Format,
}

/// Whether standard output shows colours.
pub(super) fn coloured() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints text.
pub(super) fn print(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(CliError::Output)
}

/// Prints a value as one JSON document.
pub(super) fn print_json<T: Serialize>(value: &T) -> Result<(), CliError> {
    print(&(serde_json::to_string_pretty(value)? + "\n"))
}
