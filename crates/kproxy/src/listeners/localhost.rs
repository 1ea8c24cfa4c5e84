//! TCP node ports at loopback addresses: each connection is joined to one to an endpoint
//! (KEP-6032). The kernel cannot translate such packets without routing them as martians.

use core::time::Duration;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use svc_planner::listeners::LocalhostPort;
use svc_planner::plan::Family;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::affinity::Endpoints;
use super::counters::count;
use super::task::Context;

/// How long an endpoint may take to accept. No other is tried.
const DIAL: Duration = Duration::from_secs(5);

/// One node port.
#[derive(Debug)]
pub(super) struct NodePort {
    family: Family,
    endpoints: Mutex<Endpoints>,
    context: Arc<Context>,
}

impl NodePort {
    pub(super) fn new(family: Family, port: &LocalhostPort, context: Arc<Context>) -> Self {
        let node_port = Self {
            family,
            endpoints: Mutex::default(),
            context,
        };
        node_port.set(port);
        node_port
    }

    /// Other endpoints for new connections; those that are open stay with theirs.
    pub(super) fn set(&self, port: &LocalhostPort) {
        // No edit can be left half done.
        let mut endpoints = self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        endpoints.set(&port.endpoints, port.affinity);
    }

    /// Joins a connection to one to an endpoint, until both sides have ended.
    pub(super) async fn serve(self: Arc<Self>, mut client: TcpStream) {
        count(&self.context.counters.localhost(self.family).connections);
        let endpoint = {
            let mut endpoints = self
                .endpoints
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            endpoints.choose(Instant::now())
        };
        let Some(endpoint) = endpoint else {
            return;
        };
        let mut server = match timeout(DIAL, TcpStream::connect(endpoint)).await {
            Ok(Ok(server)) => server,
            failed => {
                count(&self.context.counters.localhost(self.family).dial_failures);
                let why = match failed {
                    Ok(Err(error)) => error.to_string(),
                    _ => "no answer".to_owned(),
                };
                tracing::debug!("node port at a loopback address: {endpoint}: {why}");
                return;
            }
        };
        // Latency matters more than the number of packets, as for any forwarder.
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        // The end of one direction is passed on, and the other goes on.
        if let Err(error) = copy_bidirectional(&mut client, &mut server).await {
            tracing::debug!("node port at a loopback address: {endpoint}: {error}");
        }
    }
}
