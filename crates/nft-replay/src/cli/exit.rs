//! Exit codes.

use std::process::ExitCode;

use crate::trace::Ended;

/// What the exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// Done.
    Done,
    /// Failed.
    Failed,
    /// `run`: the kernel said something else than in the capture; `--diff`: the rulesets differ.
    Differs,
    /// Done with what could be read of a damaged capture.
    Damaged,
    /// `record`: how the recorded program ended.
    Recorded(Ended),
    /// `record` itself failed.
    NotRecorded,
    /// Wrong arguments (`EX_USAGE`).
    Usage,
}

/// For `--help`.
pub(super) const HELP: &str = "\
Examples:
  nft-replay record -o rules.pcapng -- nft -f rules.nft
  nft-replay show rules.pcapng
  nft-replay run rules.pcapng

Exit codes:
  0   done
  1   failed
  2   run: the kernel said something else than in the capture, or the rulesets differ (--diff)
  3   done with what could be read of a damaged capture; standard error says where it ends
  64  wrong arguments
  record: as the recorded program; 128 and the signal's number if a signal ended it; 125 if the
  recording itself failed";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        let code = match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Differs => 2,
            Exit::Damaged => 3,
            Exit::Recorded(Ended::Code(code)) => code,
            Exit::Recorded(Ended::Signal(signal)) => 128 + signal,
            Exit::NotRecorded => 125,
            Exit::Usage => 64,
        };
        Self::from(u8::try_from(code).unwrap_or(1))
    }
}
