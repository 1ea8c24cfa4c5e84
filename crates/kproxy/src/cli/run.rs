//! `kproxy run`.

use core::net::SocketAddr;
use core::str::FromStr;
use core::time::Duration;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use clap::Args;
use svc_planner::mailbox::{self, Publisher};

use super::duration::duration;
use super::{ALL_ADDRESSES, CliError, Exit, ProxyOptions, Target};
use crate::check::{self, Check};
use crate::conntrack::Reconciler;
use crate::engine::{Engine, GuardOptions, Netns, Saver};
use crate::health::Health;
use crate::listeners::{Listeners, Site};
use crate::metrics::Sources;
use crate::proxy::{Periods, Proxy};
use crate::watch::{AddressWatch, Reader, Signals};

/// Keep the kernel programmed while manifests change
///
/// A file counts as changed when its writer closes it, so files are best written elsewhere and moved
/// in; mounted ConfigMaps work. A file that can no longer be read keeps serving what it served, and so
/// does the folder when it is gone. A file outside that a link leads to is read with the link only.
///
/// Ends on SIGTERM and SIGINT and leaves the rules in place, so that connections and new flows go
/// on; `kproxy cleanup` removes them. While another one is at work in the same network namespace it
/// waits, and takes over when that one ends.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy run --source dir:/etc/kproxy/manifests --cluster-cidr 10.244.0.0/16
  kproxy run --source dir:manifests --netns blue -v

Exit codes:
  0   asked to end
  1   failed
  64  wrong arguments")]
pub(super) struct Run {
    /// Where Services come from: `dir:PATH`, a folder of YAML and JSON files, watched
    #[arg(long, value_name = "dir:PATH")]
    source: SourceSpec,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    proxy: ProxyOptions,

    #[command(flatten)]
    pace: Pace,

    #[command(flatten)]
    sites: Sites,

    /// Own the tables: whoever else changes them, nft included, is refused (EPERM). They outlive the
    /// process; for kube-proxy to take over, they must be deleted then (`kproxy cleanup`). Linux 6.9
    #[arg(long)]
    table_owner: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceSpec {
    Dir(PathBuf),
}

impl FromStr for SourceSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Dir(path.into())),
            _ => Err("a source is dir:PATH"),
        }
    }
}

impl Run {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let SourceSpec::Dir(folder) = &self.source;
        self.proxy.warn();
        look_around(&self.target.netns())?;
        let netns = self.target.netns();
        let signals = Signals::new().map_err(CliError::Watch)?;
        let mut engine = Engine::open(&netns, |family| self.proxy.config(family))?;
        let Some(state) = self.proxy.state_in_turn(&netns, signals.as_fd())? else {
            tracing::info!("asked to end before it was our turn");
            return Ok(Exit::Done);
        };
        engine.adopt(state.as_ref())?;
        if self.table_owner {
            engine.own_tables()?;
        }
        let reconciler = Reconciler::start(&netns)?;
        engine.tell_flows(reconciler.publisher());
        let node_name = self.proxy.node_name();
        let mut addresses = AddressWatch::new(&netns).map_err(CliError::Addresses)?;
        let reader = Reader::new(folder, signals, &node_name);
        let mut reader = reader.map_err(|error| CliError::Folder {
            folder: folder.clone(),
            error,
        })?;
        let clock = engine.clock();
        let mut proxy = Proxy::new(engine, Saver::new(state), self.pace.periods());
        // kube-proxy's measure of health.
        let (board, patience) = (proxy.board(), self.pace.sync_period.saturating_mul(2));
        let health = Arc::new(Health::new(board, clock, patience));
        let healthy = Arc::clone(&health);
        let listeners = Listeners::start(&netns, Arc::new(move || healthy.is_in_step()))?;
        self.sites.open(&listeners, health, &reconciler);
        proxy.engine().tell_listeners(listeners.publisher());
        if self.proxy.needs_node() {
            proxy = proxy.awaiting(&node_name);
        }
        let host = addresses.read().map_err(CliError::Addresses)?;
        for change in self.proxy.host(host) {
            proxy.apply(change);
        }
        // Straight into the engine: nothing is programmed before everything was read once.
        let read = reader.load(|change| proxy.apply(change));
        if self.proxy.needs_node() && !self.proxy.names_node() && read.nodes == 0 {
            tracing::warn!(
                "no Node in {}, and none is named: {ALL_ADDRESSES}",
                folder.display()
            );
            proxy.apply(self.proxy.stand_in());
        }
        keep_up(reader, addresses, &mut proxy, &netns)?;
        tracing::info!("asked to end; the rules stay");
        drop(listeners);
        proxy.finish()?;
        reconciler.finish();
        Ok(Exit::Done)
    }
}

/// Says what will not work. Without the features that rules are made of nothing will, and no second
/// try would help.
fn look_around(netns: &Netns) -> Result<(), CliError> {
    for finding in check::at_start(netns)? {
        if finding.check == Check::Features {
            return Err(CliError::Unsupported(finding.message));
        }
        tracing::warn!("{}", finding.message);
    }
    Ok(())
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

    /// Serve /metrics, /proxyMode and /healthz there (kube-proxy: 127.0.0.1:10249). Off by default
    #[arg(long, value_name = "IP:PORT")]
    metrics_bind_address: Option<SocketAddr>,
}

impl Sites {
    fn open(&self, listeners: &Listeners, health: Arc<Health>, reconciler: &Reconciler) {
        if let Some(address) = self.healthz_bind_address {
            listeners.serve(Site {
                address,
                what: "healthz",
                pages: Arc::clone(&health).pages(),
            });
        }
        if let Some(address) = self.metrics_bind_address {
            let conntrack = reconciler.counters();
            listeners.serve(Site {
                address,
                what: "metrics",
                pages: Sources { health, conntrack }.pages(),
            });
        }
    }
}

/// Reads on threads of their own, programs on this one, until the process is asked to end.
fn keep_up(
    reader: Reader,
    addresses: AddressWatch,
    proxy: &mut Proxy,
    netns: &Netns,
) -> Result<(), CliError> {
    let (running, stop) = UnixStream::pair().map_err(CliError::Watch)?;
    let stop = &stop;
    thread::scope(|scope| {
        let (publisher, mut receiver) = mailbox::open();
        let bell = receiver.bell();
        proxy
            .engine()
            .guard(netns, GuardOptions::default(), move || bell.ring())?;
        let host = Closing(publisher.clone());
        let listening = thread::Builder::new()
            .name("addresses".to_owned())
            .spawn_scoped(scope, move || addresses.run(&host.0, stop))
            .map_err(CliError::Watch)?;
        let objects = Closing(publisher);
        let reading = thread::Builder::new()
            .name("reader".to_owned())
            .spawn_scoped(scope, move || reader.run(&objects.0, stop))
            .map_err(CliError::Watch)?;
        proxy.run(&mut receiver);
        drop(running);
        for thread in [reading, listening] {
            let ended = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            ended.map_err(CliError::Watch)?;
        }
        Ok(())
    })
}

/// Closes the mailbox when its thread ends, however it does: this one hears of it, and ends, too.
struct Closing(Publisher);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let spec = "dir:/etc/a:b".parse();
        assert_eq!(spec, Ok(SourceSpec::Dir("/etc/a:b".into())));
        for wrong in ["", "dir", "dir:", "/etc", "api:x"] {
            assert!(wrong.parse::<SourceSpec>().is_err(), "{wrong}");
        }
    }
}
