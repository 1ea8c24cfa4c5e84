//! `kproxy cleanup`.

use clap::Args;

use super::{CliError, Exit, Global};
use crate::engine;

/// Remove everything kproxy programmed: the tables `ip kube-proxy` and `ip6 kube-proxy`
///
/// Can be repeated; nothing there is fine.
#[derive(Debug, Args)]
pub(super) struct Cleanup {}

impl Cleanup {
    pub(super) fn run(self, global: &Global) -> Result<Exit, CliError> {
        engine::cleanup(&global.netns())?;
        Ok(Exit::Done)
    }
}
