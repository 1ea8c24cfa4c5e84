//! `kproxy cleanup`.

use clap::Args;

use super::{CliError, Exit, Target};
use crate::engine::{self, EngineError};
use crate::leftovers;
use crate::netns::Netns;

/// Remove everything kproxy programmed: the tables `ip kube-proxy` and `ip6 kube-proxy`
///
/// And what kube-proxy left in its modes iptables and ipvs, found by name: chains KUBE-… and jumps to them
/// (in nf_tables, and in legacy iptables where `iptables-legacy-save` is installed), link kube-ipvs0 and what
/// belongs to it. Neither the kubelet's chains nor rules of others are touched. Can be repeated; nothing
/// there is fine.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy cleanup
  kproxy cleanup --netns blue
  kproxy cleanup --leftovers     # only what kube-proxy left

Exit codes:
  0   done
  1   failed
  64  wrong arguments")]
pub(super) struct Cleanup {
    #[command(flatten)]
    target: Target,

    /// Remove only what kube-proxy left in its modes iptables and ipvs, and keep our tables
    #[arg(long)]
    leftovers: bool,
}

impl Cleanup {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let options = leftovers::Options::default();
        remove(&self.target.netns(), self.leftovers, options)
    }
}

/// Removes our tables, unless `only_leftovers`, and what kube-proxy left.
pub(super) fn remove(
    netns: &Netns,
    only_leftovers: bool,
    options: leftovers::Options,
) -> Result<Exit, CliError> {
    let ours = if only_leftovers {
        Ok(())
    } else {
        engine::cleanup(netns)
    };
    let remaining = leftovers::cleanup(netns, options);
    ours?;
    // What remains is in the log.
    let remaining = remaining.map_err(EngineError::from)?;
    Ok(if remaining.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    })
}
