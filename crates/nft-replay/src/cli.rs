//! The command line. One file per command.

mod about;
mod exit;
mod output;
mod progress;
mod record;
mod run;
mod show;
mod stat;

pub use exit::Exit;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::capture::{Capture, ReadError};

/// Records, shows and replays nf_tables transactions.
#[derive(Debug, Parser)]
#[command(
    name = "nft-replay",
    version,
    about,
    arg_required_else_help = true,
    after_help = exit::HELP,
)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Record(record::Record),
    Show(show::Show),
    Stat(stat::StatFile),
    Run(run::Run),
    Completions(about::Completions),
    Man(about::Man),
    /// What `record` starts: becomes the program as soon as it is traced
    #[command(name = record::TRACED, hide = true)]
    Traced(record::Traced),
}

/// Runs the program: parses the arguments and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard output or error is nothing to complain about, least of all there.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    let result = match cli.command {
        Command::Record(command) => command.run(),
        Command::Show(command) => command.run(),
        Command::Stat(command) => command.run(),
        Command::Run(command) => command.run(),
        Command::Completions(command) => command.run(&mut Cli::command()),
        Command::Man(command) => command.run(&Cli::command()),
        Command::Traced(command) => command.run(),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(CliError::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => {
            Exit::Done.into()
        }
        Err(error) => {
            eprintln!("nft-replay: {error}");
            error.exit().into()
        }
    }
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// A capture.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Recording.
    #[error(transparent)]
    Trace(#[from] crate::trace::TraceError),
    /// Playing.
    #[error(transparent)]
    Play(#[from] crate::play::PlayError),
    /// The namespace.
    #[error(transparent)]
    Namespace(#[from] crate::play::NamespaceError),
    /// The user namespace.
    #[error(transparent)]
    User(#[from] netns_lab::LabError),
    /// Reading the ruleset.
    #[error("cannot read the ruleset: {0}")]
    Ruleset(#[from] nft_batch::QueryError),
    /// A socket.
    #[error(transparent)]
    Open(#[from] nft_batch::OpenError),
    /// Standard output.
    #[error("standard output: {0}")]
    Output(std::io::Error),
    /// A file.
    #[error("{}: {error}", path.display())]
    File {
        /// File.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A value that cannot be printed as JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// `--live` without consent.
    #[error(
        "nothing was sent: --live changes the ruleset of this network namespace, and nobody agreed (--yes)"
    )]
    NotAgreed,
    /// A command in the namespace.
    #[error("cannot run {what}: {error}")]
    Command {
        /// Program.
        what: String,
        /// Why.
        error: std::io::Error,
    },
    /// `--bisect` of what does not fail.
    #[error("nothing to bisect: the kernel refuses none of the capture's transactions")]
    NothingFails,
}

impl CliError {
    const fn exit(&self) -> Exit {
        match self {
            // Not to be confused with what the recorded program says.
            Self::Trace(_) => Exit::NotRecorded,
            _ => Exit::Failed,
        }
    }
}

/// Reads captures that follow each other, and says what is wrong with them. The flag is whether
/// nothing is.
fn open(files: &[PathBuf]) -> Result<(Capture, bool), CliError> {
    let mut all = Capture::default();
    let mut whole = true;
    for file in files {
        let capture = Capture::open(file).map_err(|error| match error {
            ReadError::Open { .. } => CliError::Read(error),
            other => CliError::File {
                path: file.clone(),
                error: std::io::Error::other(other.to_string()),
            },
        })?;
        if let Some(damage) = &capture.damage {
            whole = false;
            let count = capture.packets.len();
            eprintln!(
                "warning: {}: {damage}; {count} datagrams before that were read",
                file.display()
            );
        }
        all.append(capture);
    }
    Ok((all, whole))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
