//! The proxy of a node, put together: what `kproxy run` runs, whoever configured it.
//!
//! ```text
//! Source ───────┐                    ┌──> Engine ──> kernel
//! AddressWatch ─┼──mailbox──> Proxy ─┼──> Reconciler    connections that changes leave behind
//!               │                    └──> Listeners     health checks, node ports, pages
//! Orders ─Stop──┘
//! ```
//! One thread each for the source, the host's addresses and the orders; [`crate::proxy`] has the one
//! that [`run`] is called on.

mod identity;
mod orders;
mod ports;
mod settings;
mod sites;
mod source;

pub use identity::{Identity, host_name};
pub use orders::{Order, Orders};
pub use settings::{Settings, on_this_kernel};
pub use sites::SiteSettings;
pub use source::SourceSettings;

use core::net::SocketAddr;
use std::io;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;

use svc_planner::mailbox::{self, Publisher};

use self::source::Source;
use crate::apiserver::Client;
use crate::apiserver::ClientError;
use crate::check::{self, Check, CheckError};
use crate::conntrack::Reconciler;
use crate::engine::{Engine, EngineError, Saver};
use crate::events::{self, ApiSink, EventType, Recording};
use crate::health::Health;
use crate::leftovers::Remover;
use crate::listeners::Listeners;
use crate::metrics::Sources;
use crate::netns::{Netns, StartError};
use crate::proxy::Proxy;
use crate::statusz;
use crate::watch::{AddressWatch, Stop};

/// Keeps the kernel programmed until it is ordered to end; then the rules stay in place. What kube-proxy left
/// is removed by `leftovers` once ours serves.
///
/// # Errors
/// See [`NodeError`].
pub fn run(
    settings: &Settings,
    leftovers: Option<&Remover>,
    orders: &mut impl Orders,
) -> Result<Order, NodeError> {
    let stop = Stop::new().map_err(NodeError::Watch)?;
    thread::scope(|scope| {
        let listening = thread::Builder::new()
            .name("orders".to_owned())
            .spawn_scoped(scope, || {
                let order = orders.next(stop.as_fd());
                stop.order();
                order
            })
            .map_err(NodeError::Watch)?;
        let worked = work(settings, leftovers, &stop);
        stop.order();
        let order = joined(listening.join());
        worked?;
        Ok(order.map_err(NodeError::Watch)?.unwrap_or(Order::End))
    })
}

fn work(settings: &Settings, leftovers: Option<&Remover>, stop: &Stop) -> Result<(), NodeError> {
    let netns = &settings.netns;
    look_around(netns)?;
    if settings.hard_fail {
        ports::require(netns, &settings.sites)?;
    }
    let mut engine = Engine::open(netns, |family| settings.planner(family))?;
    if let Some(recording) = &settings.recording {
        engine.record(recording)?;
    }
    let Some(state) = settings.state_in_turn(stop.as_fd())? else {
        tracing::info!("asked to end before it was our turn");
        return Ok(());
    };
    engine.adopt(state.as_ref())?;
    if settings.own_tables {
        engine.own_tables()?;
    }
    let reconciler = Reconciler::start(netns)?;
    engine.tell_flows(reconciler.publisher());
    let mut addresses = AddressWatch::new(netns).map_err(NodeError::Addresses)?;
    let mut source = Source::open(settings)?;
    let clock = engine.clock();
    let mut proxy = Proxy::new(engine, Saver::new(state), settings.periods);
    // kube-proxy's measure of health.
    let (board, patience) = (proxy.board(), settings.periods.sync.saturating_mul(2));
    let mut health = Health::new(board, clock, patience);
    if let Some(leftovers) = leftovers {
        proxy.tell_programmed(leftovers.told());
        health = health.without(leftovers.board());
    }
    let health = Arc::new(health);
    let healthy = Arc::clone(&health);
    let listeners = Listeners::start(netns, Arc::new(move || healthy.is_in_step()))?;
    let api = source.api();
    let recording = api.as_ref().map(|(client, _)| record(settings, client));
    let recording = recording.transpose().map_err(NodeError::Watch)?;
    if let Some(recording) = &recording {
        let recorder = recording.recorder();
        listeners.record(recorder.clone());
        proxy = proxy.recording(recorder.clone());
        health.leftovers().record(recorder.clone());
        let started = String::new();
        recorder.node(EventType::Normal, "Starting", "StartKubeProxy", started);
        for warning in &settings.warnings {
            let note = warning.message.clone();
            recorder.node(EventType::Warning, warning.reason, "StartKubeProxy", note);
        }
    }
    let sources = Sources {
        health,
        sync: proxy.metrics(),
        conntrack: reconciler.counters(),
        listeners: listeners.counters(),
        skipped: source.skipped(),
        events: recording.as_ref().map(Recording::counters),
        api: api.map(|(client, board)| (client.facts(), board)),
        gates: settings.sites.gates.clone(),
    };
    let status = statusz::Sources {
        health: Arc::clone(&sources.health),
        sync: proxy.metrics(),
        history: proxy.history(),
        window: proxy.window(),
        api: sources.api.as_ref().map(|(_, board)| board.clone()),
        node: settings.node.name.as_str().into(),
    };
    settings.sites.open(&listeners, sources, status);
    proxy.engine().tell_listeners(listeners.publisher());
    if settings.node.is_needed {
        proxy = proxy.awaiting(&settings.node.name);
    }
    let host = addresses.read().map_err(NodeError::Addresses)?;
    for change in settings.node.host(host) {
        proxy.apply(change);
    }
    // Straight into the engine: nothing is programmed before everything was read once.
    let loaded = source.load(&settings.node, stop, |change| proxy.apply(change));
    if loaded.map_err(NodeError::Watch)? {
        keep_up(source, addresses, &mut proxy, settings, stop)?;
    }
    tracing::info!("asked to end; the rules stay");
    drop(listeners);
    proxy.finish()?;
    reconciler.finish();
    Ok(())
}

/// Writes events by the API.
fn record(settings: &Settings, client: &Client) -> io::Result<Recording> {
    let sink = ApiSink::new(client.clone())?;
    Recording::start(events::Options::new(&settings.node.name), sink)
}

/// Says what will not work. Without the features that rules are made of nothing will, and no second
/// try would help.
fn look_around(netns: &Netns) -> Result<(), NodeError> {
    for finding in check::at_start(netns)? {
        if finding.check == Check::Features {
            return Err(NodeError::Unsupported(finding.message));
        }
        tracing::warn!("{}", finding.message);
    }
    Ok(())
}

/// Reads on threads of their own, programs on this one, until the order to stop.
fn keep_up(
    source: Source,
    addresses: AddressWatch,
    proxy: &mut Proxy,
    settings: &Settings,
    stop: &Stop,
) -> Result<(), NodeError> {
    thread::scope(|scope| {
        let (publisher, mut receiver) = mailbox::open();
        let bell = receiver.bell();
        proxy
            .engine()
            .guard(&settings.netns, settings.guard, move || bell.ring())?;
        let host = Closing(publisher.clone());
        let listening = thread::Builder::new()
            .name("addresses".to_owned())
            .spawn_scoped(scope, move || addresses.run(&host.0, stop))
            .map_err(NodeError::Watch)?;
        let objects = Closing(publisher);
        let reading = thread::Builder::new()
            .name("source".to_owned())
            .spawn_scoped(scope, move || source.run(&objects.0, stop))
            .map_err(NodeError::Watch)?;
        proxy.run(&mut receiver);
        stop.order();
        for thread in [reading, listening] {
            joined(thread.join()).map_err(NodeError::Watch)?;
        }
        Ok(())
    })
}

/// What a thread returned; its panic is ours.
fn joined<T>(result: thread::Result<T>) -> T {
    result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Closes the mailbox when its thread ends, however it does: this one hears of it, and ends, too.
struct Closing(Publisher);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Why the proxy of a node ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// The kernel.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A part that works beside the engine.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The API server, or how to reach it.
    #[error(transparent)]
    Api(#[from] ClientError),
    /// The folder of a source.
    #[error("{}: {error}", folder.display())]
    Folder {
        /// Folder.
        folder: PathBuf,
        /// Why it cannot be watched.
        error: io::Error,
    },
    /// Waiting for changes and orders.
    #[error("cannot wait for changes: {0}")]
    Watch(io::Error),
    /// The addresses of the host's interfaces.
    #[error("cannot read the host's addresses: {0}")]
    Addresses(io::Error),
    /// A page that must be served and cannot be.
    #[error("cannot listen on {address}: {error} (bindAddressHardFail)")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        error: io::Error,
    },
    /// The kernel lacks what rules are made of.
    #[error("{0}")]
    Unsupported(String),
    /// What the kernel can do.
    #[error(transparent)]
    Check(#[from] CheckError),
}
