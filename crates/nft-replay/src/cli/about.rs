//! `nft-replay completions` and `nft-replay man`.

use std::io::{self, Write as _};

use clap::Args;
use clap_complete::Shell;
use clap_mangen::Man as Page;

use super::{CliError, Exit};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:
  nft-replay completions bash > /etc/bash_completion.d/nft-replay")]
pub(super) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, command: &mut clap::Command) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "nft-replay", &mut script);
        io::stdout().write_all(&script).map_err(CliError::Output)?;
        Ok(Exit::Done)
    }
}

/// Print the manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  nft-replay man run | man -l -")]
pub(super) struct Man {
    /// Of a command, e.g. `run`
    command: Option<String>,
}

impl Man {
    pub(super) fn run(self, all: &clap::Command) -> Result<Exit, CliError> {
        let mut all = all.clone();
        all.build();
        let command = match &self.command {
            None => Some(&all),
            Some(name) => all.find_subcommand(name),
        };
        let Some(command) = command else {
            let name = self.command.unwrap_or_default();
            eprintln!("nft-replay: there is no command {name}");
            return Ok(Exit::Usage);
        };
        let mut page = Vec::new();
        Page::new(command.clone())
            .render(&mut page)
            .map_err(CliError::Output)?;
        io::stdout().write_all(&page).map_err(CliError::Output)?;
        Ok(Exit::Done)
    }
}
