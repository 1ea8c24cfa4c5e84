//! `kproxy demo`.

use clap::{Args, value_parser};

use super::{CliError, Exit, Printer, Results};
use crate::demo;

/// Show a sample cluster at work, in private network namespaces
///
/// Makes a node, a client and some pods, programs a handful of Services, sends real TCP and UDP
/// through their addresses, IPv4 and IPv6, and shows which endpoint got how much. Needs root, or a
/// system that lets users make user namespaces. Touches nothing outside its own namespaces, which
/// are gone when it ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy demo
  kproxy demo --flows 1000 -o json

Exit codes:
  0   all traffic went where it should
  1   failed, or some did not
  64  wrong arguments")]
pub(super) struct Demo {
    /// New flows to each address
    #[arg(long, default_value_t = 300, value_parser = value_parser!(u32).range(50..=100_000))]
    flows: u32,

    #[command(flatten)]
    results: Results,
}

impl Demo {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let report = demo::run(self.flows, |doing| eprintln!("{doing} …"))?;
        self.results.printer().print(&report, |out, report| {
            out.push('\n');
            out.push_str(&report.table(Printer::coloured()));
        })?;
        Ok(if report.is_success() {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}
