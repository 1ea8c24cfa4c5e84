//! Exit codes.

use std::process::ExitCode;

use crate::explain::Decision;

/// What the exit code says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exit {
    /// Done; `plan`: nothing would change.
    Done,
    /// Failed.
    Failed,
    /// `plan`: something would change.
    WouldChange,
    /// Done, but part of the input was left out.
    Incomplete,
    /// `check`: a problem was found.
    ProblemFound,
    /// `explain`: what becomes of the connection.
    Decided(Decision),
    /// Wrong arguments (`EX_USAGE`).
    Usage,
}

/// For `--help`.
pub(super) const HELP: &str = "\
Without a command it runs in place of kube-proxy, with its flags: see `kproxy help proxy`.

Examples:
  kproxy --config=/var/lib/kube-proxy/config.conf --hostname-override=node-1
  kproxy demo
  kproxy apply -f manifests/
  kproxy help apply

Exit codes:
  0   done (plan: nothing would change)
  1   failed
  2   plan: something would change; check: a problem was found
  3   done, but part of the input was left out; standard error says what
  4, 5, 6  explain: not translated, rejected, dropped
  64  wrong arguments";

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::WouldChange | Exit::ProblemFound => 2,
            Exit::Incomplete => 3,
            Exit::Decided(Decision::Endpoint) => 0,
            Exit::Decided(Decision::Untouched) => 4,
            Exit::Decided(Decision::Rejected) => 5,
            Exit::Decided(Decision::Dropped) => 6,
            Exit::Usage => 64,
        })
    }
}
