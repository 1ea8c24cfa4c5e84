//! What the proxy of a node is told.

use core::hash::BuildHasher as _;
use std::hash::RandomState;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;

use nft_batch::KernelVersion;
use svc_planner::Config;
use svc_planner::plan::Family;

use super::{Identity, SiteSettings, SourceSettings};
use crate::engine::{EngineError, GuardOptions, Recording, StateDir};
use crate::netns::Netns;
use crate::proxy::Periods;
use crate::startup;

/// Everything the proxy of a node is told, whoever tells it: options of `kproxy run`, or a
/// configuration file of kube-proxy's.
#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    /// Where to work.
    pub netns: Netns,
    /// Where objects come from.
    pub source: SourceSettings,
    /// Which Node this is.
    pub node: Identity,
    /// What IPv4 is planned by.
    pub ipv4: Config,
    /// What IPv6 is planned by.
    pub ipv6: Config,
    /// How often to program.
    pub periods: Periods,
    /// What is remembered from one process to the next.
    pub state_dir: PathBuf,
    /// Nobody else may change the tables.
    pub own_tables: bool,
    /// What is sent to the kernel is taken down.
    pub recording: Option<Recording>,
    /// A page whose port is taken ends the process, instead of being waited for.
    pub hard_fail: bool,
    /// How to look after the tables.
    pub guard: GuardOptions,
    /// Where to tell how it is doing.
    pub sites: SiteSettings,
    /// What could not be set up: Events of the own Node.
    pub warnings: Vec<startup::Warning>,
}

impl Settings {
    /// The planner's settings for `family`, on this kernel, for a table that is yet to be numbered.
    #[must_use]
    pub fn planner(&self, family: Family) -> Config {
        let config = match family {
            Family::Ipv4 => &self.ipv4,
            Family::Ipv6 => &self.ipv6,
        };
        on_this_kernel(config.clone())
    }

    /// What an earlier process left behind, once no other is at work there; the outer `None` if
    /// `stop` becomes readable before.
    pub(super) fn state_in_turn(
        &self,
        stop: BorrowedFd<'_>,
    ) -> Result<Option<Option<StateDir>>, EngineError> {
        match StateDir::open_in_turn(&self.state_dir, &self.netns, stop) {
            Ok(state) => Ok(state.map(Some)),
            Err(EngineError::State { path, error }) => {
                tracing::warn!("{}: {error}: the next start begins anew", path.display());
                Ok(Some(None))
            }
            Err(error) => Err(error),
        }
    }
}

/// Settings as this kernel needs them, with a number that differs from one start to the next.
#[must_use]
pub fn on_this_kernel(config: Config) -> Config {
    Config {
        // Before 6.17 a lookup may find neither the old nor the new row of a replacement.
        repeat_lookup: !KernelVersion::running().at_least(6, 17),
        instance: instance(),
        ..config
    }
}

fn instance() -> u32 {
    let random = RandomState::new()
        .hash_one(std::process::id())
        .to_ne_bytes();
    u32::from_ne_bytes([random[0], random[1], random[2], random[3]])
}
