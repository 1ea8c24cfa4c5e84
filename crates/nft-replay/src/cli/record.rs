//! `nft-replay record`.

use core::sync::atomic::AtomicBool;
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use clap::Args;
use nft_batch::record::{PcapngWriter, Section};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use super::{CliError, Exit, open};
use crate::trace::{self, TraceError};

/// Name of the hidden command.
pub(super) const TRACED: &str = "traced-program";

/// Record what a program sends to nf_tables, and what it is told
///
/// The program runs under ptrace, which any user may do with programs of one's own; threads and
/// children are followed, and the recording ends when all of them have ended. With --from, captures
/// of others (tcpdump or dumpcap on an nlmon interface) are taken over instead.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nft-replay record -o rules.pcapng -- nft -f rules.nft
  nft-replay record -o proxy.pcapng -- kube-proxy --config config.yaml
  nft-replay record -o rules.pcapng --from nlmon0.pcap

Exit codes:
  As the recorded program; 128 and the signal's number if a signal ended it
  125  the recording itself failed; a program that was running went on to its end
  64   wrong arguments")]
pub(super) struct Record {
    /// Where the recording goes: a pcapng file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,

    /// Take over captures of others
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    from: Vec<PathBuf>,

    /// The program and its arguments
    #[arg(last = true, required_unless_present = "from", value_name = "COMMAND")]
    command: Vec<OsString>,
}

impl Record {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        if !self.from.is_empty() {
            return self.take_over();
        }
        let failed = |error| CliError::Trace(TraceError::Begin(error));
        let words: Vec<_> = self
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let section = Section::here(concat!("nft-replay ", env!("CARGO_PKG_VERSION")))
            .with_comment(&format!("nft-replay: ptrace of {}", words.join(" ")));
        let file = File::create(&self.output).map_err(|error| {
            let path = self.output.display();
            failed(std::io::Error::other(format!("{path}: {error}")))
        })?;
        let mut writer = PcapngWriter::new(file, &section).map_err(failed)?;
        // An interrupt from the keyboard reaches the program as well; the recording ends with it.
        let ignored = Arc::new(AtomicBool::new(false));
        signal_hook::flag::register(SIGINT, ignored).map_err(failed)?;
        let (stop, asked) = UnixStream::pair().map_err(failed)?;
        pipe::register(SIGTERM, asked).map_err(failed)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(TRACED).arg("--").args(&self.command);
        let ended = trace::run(&mut command, stop, |packet| packet.write(&mut writer))?;
        Ok(Exit::Recorded(ended))
    }

    fn take_over(&self) -> Result<Exit, CliError> {
        let (capture, whole) = open(&self.from)?;
        let fail = |error| CliError::File {
            path: self.output.clone(),
            error,
        };
        let file = File::create(&self.output).map_err(fail)?;
        capture.write(std::io::BufWriter::new(file)).map_err(fail)?;
        Ok(if whole { Exit::Done } else { Exit::Damaged })
    }
}

#[derive(Debug, Args)]
pub(super) struct Traced {
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

impl Traced {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        Err(CliError::Trace(trace::become_traced(&self.command)))
    }
}
