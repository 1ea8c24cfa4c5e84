//! A listener's task: it has the socket and all its connections, and takes them with it.

use core::future::Future;
use core::net::SocketAddr;
use core::sync::atomic::AtomicU64;
use core::time::Duration;
use std::fmt;
use std::io;
use std::sync::{Arc, OnceLock};

use svc_planner::object::{ObjectName, Uid};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time;

use super::connections::{Connections, Most};
use super::counters::{Counters, count};
use super::socket::Wildcard;
use super::{Healthy, socket};
use crate::events::{EventType, Recorder};
use crate::logging::Repeats;

/// A port that is taken is tried again after this time, or when something changes.
const RETRY: Duration = Duration::from_secs(5);
/// Pause after accepting failed, for want of file descriptors.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// What all tasks share.
pub(super) struct Context {
    pub(super) counters: Arc<Counters>,
    pub(super) healthy: Healthy,
    /// Something changed: what failed may work now.
    pub(super) retry: Notify,
    /// Where failures are told as events.
    pub(super) recorder: OnceLock<Recorder>,
}

/// The event of a port that cannot be listened on.
#[derive(Debug, Clone)]
pub(super) enum Failure {
    /// None: clients find out.
    Silent,
    /// Of this node's pages.
    Site(&'static str),
    /// Of a Service's health checks.
    HealthCheck(ObjectName, Option<Uid>),
}

impl Context {
    pub(super) fn new(counters: Arc<Counters>, healthy: Healthy) -> Self {
        Self {
            counters,
            healthy,
            retry: Notify::new(),
            recorder: OnceLock::new(),
        }
    }

    fn record(&self, failure: &Failure, what: &str, address: SocketAddr, error: &io::Error) {
        let Some(recorder) = self.recorder.get() else {
            return;
        };
        match failure {
            Failure::Silent => {}
            Failure::Site(reason) => {
                let note = format!("{what}: cannot listen on {address}: {error}");
                recorder.node(EventType::Warning, reason, "StartKubeProxy", note);
            }
            Failure::HealthCheck(service, uid) => {
                let (node, port) = (recorder.node_name(), address.port());
                let ObjectName { namespace, name } = service;
                let note = format!(
                    "node {node} failed to start healthcheck \"{namespace}/{name}\" on port {port}: {error}"
                );
                let reason = "FailedToStartServiceHealthcheck";
                recorder.service(service.clone(), *uid, reason, "Listen", note);
            }
        }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").finish_non_exhaustive()
    }
}

/// A task that listens.
#[derive(Debug)]
pub(super) struct Task(JoinHandle<()>);

impl Task {
    /// Listens on `address` for `what` and serves each connection.
    pub(super) fn spawn<S: Future<Output = ()> + Send + 'static>(
        plan: Plan,
        serve: impl Fn(TcpStream) -> S + Send + 'static,
    ) -> Self {
        Self(tokio::spawn(async move {
            let listener = plan.listen().await;
            accept(&listener, plan.most, serve).await;
        }))
    }

    /// Closes the socket and all connections; afterwards the port is free.
    pub(super) async fn close(self) {
        self.0.abort();
        // It was aborted.
        let _ = self.0.await;
    }
}

/// Where to listen.
pub(super) struct Plan {
    pub(super) address: SocketAddr,
    /// Whose connections, should that be a wildcard address.
    pub(super) wildcard: Wildcard,
    /// For logs.
    pub(super) what: String,
    /// Most connections at a time.
    pub(super) most: Most,
    pub(super) context: Arc<Context>,
    /// What is told of failures.
    pub(super) failure: Failure,
    /// Counts failures.
    pub(super) failures: fn(&Counters) -> &AtomicU64,
}

impl Plan {
    async fn listen(&self) -> TcpListener {
        let Self {
            address,
            wildcard,
            what,
            ..
        } = self;
        let mut complained = false;
        loop {
            // Before the attempt: a change during it is not missed.
            let retry = self.context.retry.notified();
            match socket::listener(*address, *wildcard) {
                Ok(listener) => {
                    if complained {
                        tracing::info!("{what}: listens on {address} now");
                    }
                    return listener;
                }
                Err(error) => {
                    count((self.failures)(&self.context.counters));
                    if !complained {
                        tracing::error!("{what}: cannot listen on {address}: {error}");
                        self.context.record(&self.failure, what, *address, &error);
                    }
                    complained = true;
                }
            }
            // Either is a reason to try again.
            let _ = time::timeout(RETRY, retry).await;
        }
    }
}

async fn accept<S: Future<Output = ()> + Send + 'static>(
    listener: &TcpListener,
    most: Most,
    serve: impl Fn(TcpStream) -> S,
) {
    let mut connections = Connections::new(most);
    let mut repeats = Repeats::default();
    loop {
        connections.room().await;
        match listener.accept().await {
            Ok((connection, _)) => {
                repeats.over();
                connections.add(serve(connection)).await;
            }
            Err(error) => {
                if let Some(tries) = repeats.failed(&error.to_string()) {
                    tracing::warn!("accept: {tries}{error}");
                }
                time::sleep(EXHAUSTED).await;
            }
        }
    }
}
