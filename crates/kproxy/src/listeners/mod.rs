//! What the node itself listens for: load balancers that ask for its health
//! (`healthCheckNodePort`), clients of TCP node ports at loopback addresses, and whoever asks how the
//! proxy is doing ([`Site`]).
//!
//! ```text
//! engine, after each successful sync ──ListenerChanges──> a thread with a runtime of its own
//!                                                           │ one HTTP server an address and Service
//!                                                           │ one TCP proxy a node port
//!                                                           └─ each in the network namespace given
//! ```
//! The sync path never waits for this thread. A port that cannot be listened on is named once,
//! counted, and tried again every few seconds and after each change; no other port waits for it.

mod affinity;
mod connections;
mod counters;
mod family;
mod gzip;
mod health;
mod http;
mod localhost;
mod socket;
mod task;

pub use counters::{Counters, LocalhostTotals, Totals};
pub(crate) use socket::site;

pub use http::{Ask, Pages, Reply, Site};

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns};
use svc_planner::listeners::ListenerChanges;
use svc_planner::plan::Family;
use tokio::runtime;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};

use self::family::Listening;
use self::task::Context;
use crate::events::Recorder;
use crate::family::FAMILIES;
use crate::netns::{Netns, StartError};

/// Is the proxy in step with the cluster? Part of the answer to load balancers.
pub type Healthy = Arc<dyn Fn() -> bool + Send + Sync>;

/// The thread that listens.
#[derive(Debug)]
pub struct Listeners {
    publisher: Publisher,
    context: Arc<Context>,
    thread: Option<JoinHandle<()>>,
}

/// Where the engine tells what is to be listened for.
#[derive(Debug, Clone)]
pub struct Publisher(UnboundedSender<News>);

#[derive(Debug)]
enum News {
    Changes(Family, ListenerChanges),
    Site(Site),
    Stop,
}

impl Listeners {
    /// Starts the thread in a network namespace. It listens for nothing before it is told to, see
    /// [`publisher`](Self::publisher).
    ///
    /// # Errors
    /// See [`StartError`].
    pub fn start(netns: &Netns, healthy: Healthy) -> Result<Self, StartError> {
        let netns = netns.open()?;
        let (sender, news) = mpsc::unbounded_channel();
        let context = Arc::new(Context::new(Arc::default(), healthy));
        let shared = Arc::clone(&context);
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(StartError::Thread)?;
        let thread = thread::Builder::new()
            .name("listeners".to_owned())
            .spawn(move || {
                // Sockets belong to the namespace of the thread that makes them.
                let entered = netns.map_or(Ok(()), |file| setns(file, CloneFlags::CLONE_NEWNET));
                match entered {
                    Ok(()) => runtime.block_on(listen(news, shared)),
                    Err(errno) => tracing::error!("listeners: network namespace: {errno}"),
                }
            })
            .map_err(StartError::Thread)?;
        Ok(Self {
            publisher: Publisher(sender),
            context,
            thread: Some(thread),
        })
    }

    /// Answers at a site from now on.
    pub fn serve(&self, site: Site) {
        // The thread lives as long as this.
        let _ = self.publisher.0.send(News::Site(site));
    }

    /// For [`Engine::tell_listeners`](crate::engine::Engine::tell_listeners).
    #[must_use]
    pub fn publisher(&self) -> Publisher {
        self.publisher.clone()
    }

    /// What went wrong so far, in numbers.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.context.counters)
    }

    /// Tells ports that cannot be listened on as events there.
    pub fn record(&self, recorder: Recorder) {
        // The first one stays.
        let _ = self.context.recorder.set(recorder);
    }
}

impl Drop for Listeners {
    /// Closes all listeners and connections.
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.publisher.0.send(News::Stop);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the listeners' thread panicked");
        }
    }
}

impl Publisher {
    /// Tells what is in force.
    pub fn publish(&self, family: Family, changes: ListenerChanges) {
        if !changes.is_empty() {
            // Nobody listens any more when the process ends.
            let _ = self.0.send(News::Changes(family, changes));
        }
    }
}

async fn listen(mut news: UnboundedReceiver<News>, context: Arc<Context>) {
    let mut families = FAMILIES.map(|family| (family, Listening::new(family, &context)));
    let mut sites = Vec::new();
    while let Some(news) = news.recv().await {
        match news {
            News::Changes(family, changes) => {
                for (_, listening) in families.iter_mut().filter(|(it, _)| *it == family) {
                    listening.apply(&changes).await;
                }
                context.retry.notify_waiters();
            }
            News::Site(site) => sites.push(site.open(&context)),
            News::Stop => return,
        }
    }
}
