//! `nft-replay stat`.

use std::path::PathBuf;

use clap::Args;

use super::output::{Format, Results, print, print_json};
use super::{CliError, Exit, open};
use crate::session::Session;
use crate::stat::Stat;

/// Show sizes, operations and times of a capture
#[derive(Debug, Args)]
#[command(
    name = "stat",
    after_help = "Examples:
  nft-replay stat rules.pcapng
  nft-replay stat rules.pcapng -o json

Exit codes:
  0   done
  1   failed
  3   done with what could be read of a damaged capture
  64  wrong arguments"
)]
pub(super) struct StatFile {
    /// Captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    #[command(flatten)]
    results: Results,
}

impl StatFile {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let (capture, whole) = open(&self.files)?;
        let stat = Stat::of(&capture, &Session::new(&capture));
        match self.results.output {
            Format::Json => print_json(&stat)?,
            Format::Text => print(&stat.to_string())?,
        }
        Ok(if whole { Exit::Done } else { Exit::Damaged })
    }
}
