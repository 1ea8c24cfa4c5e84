//! `kproxy cleanup`.

use clap::Args;

use super::{CliError, Exit, Target};
use crate::engine;

/// Remove everything kproxy programmed: the tables `ip kube-proxy` and `ip6 kube-proxy`
///
/// Can be repeated; nothing there is fine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy cleanup
  kproxy cleanup --netns blue

Exit codes:
  0   done
  1   failed
  64  wrong arguments")]
pub(super) struct Cleanup {
    #[command(flatten)]
    target: Target,
}

impl Cleanup {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        engine::cleanup(&self.target.netns())?;
        Ok(Exit::Done)
    }
}
