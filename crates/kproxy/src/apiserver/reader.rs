//! Keeps up with the API server, on a thread of its own.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net;
use std::time::Instant;

use svc_planner::mailbox::Publisher;
use svc_planner::object::Change;
use tokio::net::UnixStream;
use tokio::runtime::{Builder, Runtime};

use super::board::ApiBoard;
use super::outbox::Outbox;
use super::pace::Pace;
use super::reflector::Reflector;
use super::resource::Resource;
use super::{Client, ClientError, ConnectionOptions};
use crate::api::Kind;

/// How often progress is told.
const PROGRESS: Duration = Duration::from_secs(1);

/// Receives Services, EndpointSlices, ServiceCIDRs and the own Node, first all of them, then what
/// changes. Nothing is kept of them but names and versions.
///
/// All of it, and the requests of its [`client`](Self::client), run on one runtime, which works while
/// [`load`](Self::load) or [`run`](Self::run) does, on the thread that calls it.
pub struct ApiReader {
    runtime: Runtime,
    client: Client,
    board: ApiBoard,
    outbox: Outbox,
    watches: Vec<Watch>,
}

type Watch = Pin<Box<dyn Future<Output = Infallible> + Send>>;

/// How the first reading ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loaded {
    /// All Services, EndpointSlices and the own Node, if there is one, have been received.
    Synced,
    /// The order to stop came before.
    Stopped,
}

impl core::fmt::Debug for ApiReader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ApiReader")
            .field("board", &self.board)
            .finish_non_exhaustive()
    }
}

impl ApiReader {
    /// Reads the configuration; of Nodes, only `node_name` matters, if there is one at all. Connects
    /// to nothing yet.
    ///
    /// # Errors
    /// Of the kubeconfig, certificates, keys and plugins.
    pub fn new(options: ConnectionOptions, node_name: Option<&str>) -> Result<Self, ClientError> {
        Self::with_pace(options, node_name, Pace::default())
    }

    pub(super) fn with_pace(
        options: ConnectionOptions,
        node_name: Option<&str>,
        pace: Pace,
    ) -> Result<Self, ClientError> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let client = Client::new(options, runtime.handle().clone());
        runtime.block_on(client.check())?;
        let (outbox, board) = (Outbox::default(), ApiBoard::default());
        let mut resources = vec![
            Resource::services(),
            Resource::endpoint_slices(),
            Resource::service_cidrs(),
        ];
        resources.extend(node_name.map(Resource::node));
        let watches = resources.into_iter().map(|resource| -> Watch {
            let (outbox, board) = (outbox.clone(), board.clone());
            Box::pin(Reflector::new(client.clone(), resource, pace, outbox, board).run())
        });
        Ok(Self {
            watches: watches.collect(),
            runtime,
            client,
            board,
            outbox,
        })
    }

    /// Asks the same server, within the same limits.
    #[must_use]
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// How the watches are doing.
    #[must_use]
    pub fn board(&self) -> ApiBoard {
        self.board.clone()
    }

    /// Receives everything there is, however long it takes, unless `stop`, a socket, becomes readable.
    ///
    /// # Errors
    /// Of waiting for `stop`.
    pub fn load(
        &mut self,
        stop: &impl AsFd,
        mut on_change: impl FnMut(Change),
    ) -> io::Result<Loaded> {
        let _context = self.runtime.enter();
        let stop = Readable::new(stop)?;
        let mut progress = Progress::new(self.board.clone());
        // What is quick is told when it is done.
        let mut tick = tokio::time::interval_at((Instant::now() + PROGRESS).into(), PROGRESS);
        let (watches, outbox) = (&mut self.watches, &self.outbox);
        let loaded = self.runtime.block_on(poll_fn(|context| {
            poll(watches, context);
            for change in outbox.take() {
                on_change(change);
            }
            if progress.is_synced() {
                return Poll::Ready(Ok(Loaded::Synced));
            }
            while tick.poll_tick(context).is_ready() {
                progress.tell();
            }
            stop.poll(context).map_ok(|()| Loaded::Stopped)
        }));
        progress.finish();
        loaded
    }

    /// Publishes what changes, all at once what came at once, until `stop`, a socket, becomes readable,
    /// or nobody takes changes any more.
    ///
    /// # Errors
    /// Of waiting for `stop`.
    pub fn run(mut self, publisher: &Publisher, stop: &impl AsFd) -> io::Result<()> {
        let ended = {
            let _context = self.runtime.enter();
            let stop = Readable::new(stop)?;
            let (watches, outbox) = (&mut self.watches, &self.outbox);
            self.runtime.block_on(poll_fn(|context| {
                poll(watches, context);
                let changes = outbox.take();
                if !changes.is_empty() && publisher.publish_all(changes).is_err() {
                    return Poll::Ready(Ok(()));
                }
                stop.poll(context)
            }))
        };
        // Watches are cut, not waited for.
        self.watches.clear();
        self.runtime.shutdown_background();
        ended
    }
}

fn poll(watches: &mut [Watch], context: &mut Context<'_>) {
    for watch in watches {
        // None of them ends.
        let _: Poll<Infallible> = watch.as_mut().poll(context);
    }
}

/// Ready when a socket can be read; nothing is read from it.
struct Readable(UnixStream);

impl Readable {
    fn new(socket: &impl AsFd) -> io::Result<Self> {
        let socket = net::UnixStream::from(socket.as_fd().try_clone_to_owned()?);
        socket.set_nonblocking(true)?;
        UnixStream::from_std(socket).map(Self)
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.poll_read_ready(context)
    }
}

/// The first reading, told once a second at most.
struct Progress {
    board: ApiBoard,
    began: Instant,
    told: String,
}

impl Progress {
    fn new(board: ApiBoard) -> Self {
        Self {
            board,
            began: Instant::now(),
            told: String::new(),
        }
    }

    /// Whether everything that must be known is. ServiceCIDRs are not worth waiting for where they
    /// cannot be had.
    fn is_synced(&self) -> bool {
        self.board
            .all(|it| it.synced || (it.kind == Kind::ServiceCidr && (it.absent || it.errors > 0)))
    }

    fn tell(&mut self) {
        let kinds = self.board.snapshot().into_iter().map(|it| {
            let state = match &it.last_error {
                Some(error) => format!(" ({error})"),
                None if it.synced => String::new(),
                None => " so far".to_owned(),
            };
            format!("{} {}{state}", it.objects, it.kind)
        });
        let kinds: Vec<_> = kinds.collect();
        let text = kinds.join(", ");
        if text != self.told {
            tracing::info!("receiving the cluster: {text}");
            self.told = text;
        }
    }

    fn finish(&self) {
        let objects: usize = self.board.snapshot().iter().map(|it| it.objects).sum();
        let seconds = self.began.elapsed().as_secs_f64();
        tracing::info!("{objects} objects received in {seconds:.1} s");
    }
}
