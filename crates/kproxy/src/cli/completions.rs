//! `kproxy completions`.

use std::io;

use clap::Args;
use clap_complete::Shell;

use super::{CliError, Exit};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kproxy completions bash > /etc/bash_completion.d/kproxy")]
pub(super) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(self, command: &mut clap::Command) -> Result<Exit, CliError> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, command, "kproxy", &mut script);
        io::Write::write_all(&mut io::stdout(), &script)?;
        Ok(Exit::Done)
    }
}
