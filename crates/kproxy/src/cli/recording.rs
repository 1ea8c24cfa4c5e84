//! Options about recording.

use std::path::PathBuf;

use clap::Args;

use crate::engine::Recording;

/// What to take down.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Recording")]
pub(super) struct RecordingOptions {
    /// Record what is sent to nf_tables, and what it says, in the pcapng file FILE (the part before in
    /// FILE.1), for nft-replay and wireshark
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,

    /// How long both files may be together; what is older goes
    #[arg(long, value_name = "MIB", default_value_t = 64, requires = "record",
          value_parser = clap::value_parser!(u32).range(1..))]
    record_limit: u32,
}

impl RecordingOptions {
    /// What was asked for.
    pub(super) fn recording(&self) -> Option<Recording> {
        self.record.clone().map(|file| Recording {
            file,
            limit: u64::from(self.record_limit) << 20,
        })
    }
}
