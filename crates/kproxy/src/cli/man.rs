//! `kproxy man`.

use std::io;

use clap::Args;
use clap_mangen::Man as Page;

use super::{CliError, Exit};

/// Print the manual page
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kproxy man | man -l -")]
pub(super) struct Man {
    /// Of a command, e.g. `apply`
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
            eprintln!("kproxy: there is no command {name}");
            return Ok(Exit::Usage);
        };
        let mut page = Vec::new();
        Page::new(command.clone()).render(&mut page)?;
        io::Write::write_all(&mut io::stdout(), &page)?;
        Ok(Exit::Done)
    }
}
