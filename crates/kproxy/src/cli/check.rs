//! `kproxy check`.

use core::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;

use super::{CliError, Exit, Results, Target};
use crate::check::{self, Finding, Level};
use crate::engine::STATE_DIR;

/// Look for what keeps Services from working on this node, without changing anything
///
/// Looks at the kernel's version and features, connection tracking, forwarding, bridges, the owner of
/// our tables, the folder for state, and at the headers of other tables' base chains: one that drops
/// forwarded packets by default is named with its table. No rules and no sets of others are read.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy check
  kproxy check --netns blue
  kproxy check -o json | jq '.[] | select(.level == \"problem\")'

Exit codes:
  0   no problem
  1   failed
  2   a problem was found
  64  wrong arguments")]
pub(super) struct CheckNode {
    /// Folder for state of `apply` and `run`
    #[arg(long, value_name = "DIR", default_value = STATE_DIR)]
    state_dir: PathBuf,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    results: Results,
}

impl CheckNode {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let findings = check::check(&self.target.netns(), &self.state_dir)?;
        self.results.printer().print(&findings, text)?;
        let worst = findings.iter().map(|it| it.level).max();
        Ok(if worst == Some(Level::Problem) {
            Exit::ProblemFound
        } else {
            Exit::Done
        })
    }
}

fn text(out: &mut String, findings: &Vec<Finding>) {
    for finding in findings {
        let level = match finding.level {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Problem => "PROBLEM",
        };
        // Writing to a string cannot fail.
        let _ = writeln!(
            out,
            "{level:8} {:10} {}",
            finding.check.name(),
            finding.message
        );
    }
}
