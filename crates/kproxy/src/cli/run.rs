//! `kproxy run`.

use core::net::SocketAddr;
use core::str::FromStr;
use core::time::Duration;
use std::path::PathBuf;

use clap::Args;
use svc_planner::plan::Family;

use super::api::ApiOptions;
use super::duration::duration;
use super::recording::RecordingOptions;
use super::{CliError, Exit, Privileges, ProxyOptions, Target};
use crate::apiserver::ConnectionOptions;
use crate::engine::GuardOptions;
use crate::node::{self, NodeError, Settings, SiteSettings, SourceSettings};
use crate::proxy::Periods;
use crate::startup;
use crate::statusz::Audience;
use crate::watch::Signals;

/// Keep the kernel programmed while Services change
///
/// From the API server, as kube-proxy does, or from a folder of manifests. There, a file counts as changed when its writer closes it, so files are best written elsewhere and moved
/// in; mounted ConfigMaps work. A file that can no longer be read keeps serving what it served, and so
/// does the folder when it is gone. A file outside that a link leads to is read with the link only.
///
/// Ends on SIGTERM and SIGINT and leaves the rules in place, so that connections and new flows go
/// on; `kproxy cleanup` removes them. While another one is at work in the same network namespace it
/// waits, and takes over when that one ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy run --source api --kubeconfig /var/lib/kube-proxy/kubeconfig.conf
  kproxy run --source dir:/etc/kproxy/manifests --cluster-cidr 10.244.0.0/16
  kproxy run --source dir:manifests --netns blue -v

Exit codes:
  0   asked to end
  1   failed
  64  wrong arguments")]
pub(super) struct Run {
    /// Where Services come from: `api`, the API server, or `dir:PATH`, a folder of YAML and JSON files,
    /// watched
    #[arg(long, value_name = "api|dir:PATH")]
    source: SourceSpec,

    #[command(flatten)]
    api: ApiOptions,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    proxy: ProxyOptions,

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    sites: Sites,

    #[command(flatten)]
    privileges: Privileges,

    #[command(flatten)]
    recording: RecordingOptions,

    /// Own the tables: whoever else changes them, nft included, is refused (EPERM). They outlive the
    /// process; for kube-proxy to take over, they must be deleted then (`kproxy cleanup`). Linux 6.9
    #[arg(long)]
    table_owner: bool,
}

/// Where Services come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SourceSpec {
    /// The API server.
    Api,
    /// A folder.
    Dir(PathBuf),
}

impl SourceSpec {
    /// What the proxy is told; the API server is reached by `connection`.
    pub(super) fn settings(
        &self,
        connection: impl FnOnce() -> ConnectionOptions,
    ) -> SourceSettings {
        match self {
            Self::Api => SourceSettings::Api(connection()),
            Self::Dir(folder) => SourceSettings::Folder(folder.clone()),
        }
    }
}

impl FromStr for SourceSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Dir(path.into())),
            None if text == "api" => Ok(Self::Api),
            _ => Err("a source is api or dir:PATH"),
        }
    }
}

impl Run {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        self.proxy.warn();
        let netns = self.target.netns();
        let mut starts_programs = false;
        if self.source == SourceSpec::Api {
            let connection = self.api.connection();
            connection.check().map_err(NodeError::Api)?;
            starts_programs = connection.starts_programs();
        }
        // While this is the only thread.
        let begun = startup::begin(
            &netns,
            &startup::Plan {
                settings: startup::Settings::default(),
                confinement: self.privileges.confinement(&netns, starts_programs),
                leftovers: self.privileges.leftovers(),
            },
        )?;
        let remover = begun.leftovers.start().map_err(NodeError::Watch)?;
        let mut signals = Signals::new().map_err(NodeError::Watch)?;
        node::run(&self.settings(), Some(&remover), &mut signals)?;
        Ok(Exit::Done)
    }

    fn settings(&self) -> Settings {
        Settings {
            netns: self.target.netns(),
            source: self.source.settings(|| self.api.connection()),
            node: self.proxy.identity(),
            ipv4: self.proxy.planner(Family::Ipv4),
            ipv6: self.proxy.planner(Family::Ipv6),
            periods: self.pace.periods(),
            state_dir: self.proxy.state_dir().to_owned(),
            own_tables: self.table_owner,
            recording: self.recording.recording(),
            hard_fail: false,
            guard: GuardOptions::default(),
            sites: SiteSettings {
                gates: self.proxy.gates(),
                ..self.sites.settings()
            },
            // Nothing is set up.
            warnings: Vec::new(),
        }
    }
}

/// How often to programme.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pace")]
struct Pace {
    /// Shortest time between two syncs; the first change after a rest is programmed at once
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    min_sync_period: Duration,

    /// Longest pause after a failed sync
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = duration)]
    sync_period: Duration,
}

impl Pace {
    const fn periods(&self) -> Periods {
        Periods {
            min_sync: self.min_sync_period,
            sync: self.sync_period,
        }
    }
}

/// Where to tell how it is doing.
#[derive(Debug, Args)]
#[command(next_help_heading = "Health and metrics")]
struct Sites {
    /// Serve /healthz, /livez and /readyz there, in the network namespace programmed (kube-proxy:
    /// 0.0.0.0:10256). Without a cluster nobody asks: off by default
    #[arg(long, value_name = "IP:PORT")]
    healthz_bind_address: Option<SocketAddr>,

    /// Serve /metrics, /statusz, /proxyMode and /healthz there (kube-proxy: 127.0.0.1:10249). Off by default
    #[arg(long, value_name = "IP:PORT")]
    metrics_bind_address: Option<SocketAddr>,

    /// Who may look at /statusz there, a page for people that lists every Service
    #[arg(
        long,
        value_enum,
        value_name = "local|all|off",
        default_value_t,
        hide_possible_values = true
    )]
    statusz: Audience,
}

impl Sites {
    fn settings(&self) -> SiteSettings {
        SiteSettings {
            healthz: self.healthz_bind_address,
            metrics: self.metrics_bind_address,
            statusz: self.statusz,
            ..SiteSettings::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let spec = "dir:/etc/a:b".parse();
        assert_eq!(spec, Ok(SourceSpec::Dir("/etc/a:b".into())));
        assert_eq!("api".parse(), Ok(SourceSpec::Api));
        for wrong in ["", "dir", "dir:", "/etc", "api:x"] {
            assert!(wrong.parse::<SourceSpec>().is_err(), "{wrong}");
        }
    }
}
