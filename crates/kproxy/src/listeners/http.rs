//! HTTP/1.1 on one connection.

use core::convert::Infallible;
use core::future::Future;
use core::net::SocketAddr;
use core::pin::Pin;
use core::time::Duration;
use std::fmt;
use std::io;
use std::sync::Arc;

use http_body_util::Full;
use hyper::Response;
use hyper::header::ACCEPT;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::connections::Most;
use super::gzip;
use super::socket::Wildcard;
use super::task::{Context, Failure, Plan, Task};

/// A client that says nothing for so long is hung up on. Longer than any balancer's time between two
/// questions: whoever keeps a connection for the next one must not find it closing just then.
const PATIENCE: Duration = Duration::from_secs(330);
/// Most connections at a time to a site, or for a Service's health checks.
pub(super) const MOST: Most = Most::HangUp(256);

/// Answers to questions, given on the listeners' thread: they must not wait for anything, but may
/// promise to answer later.
pub type Pages = Arc<dyn Fn(&Ask<'_>) -> Reply + Send + Sync>;

/// What is asked for, whatever the method.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// Path of the URI.
    pub path: &'a str,
    /// Behind the question mark, still encoded.
    pub query: &'a str,
    /// Header `Accept`, empty without.
    pub accept: &'a str,
    /// The client is on this node: both ends of the connection are loopback addresses.
    pub is_local: bool,
}

/// An answer, now or later.
pub enum Reply {
    /// Now.
    Now(Response<String>),
    /// When it is ready.
    Later(Pin<Box<dyn Future<Output = Response<String>> + Send>>),
}

impl From<Response<String>> for Reply {
    fn from(response: Response<String>) -> Self {
        Self::Now(response)
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reply")
    }
}

/// Pages at an address.
pub struct Site {
    /// Where to listen, in the listeners' network namespace.
    pub address: SocketAddr,
    /// What it is, for logs.
    pub what: &'static str,
    /// Reason of the event when it cannot be listened on, kube-proxy's.
    pub event: &'static str,
    /// What is answered, whatever the method.
    pub pages: Pages,
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Site");
        debug.field("address", &self.address);
        debug.field("what", &self.what).finish_non_exhaustive()
    }
}

impl Site {
    pub(super) fn open(self, context: &Arc<Context>) -> Task {
        let plan = Plan {
            address: self.address,
            wildcard: Wildcard::Both,
            what: self.what.to_owned(),
            most: MOST,
            context: Arc::clone(context),
            failure: Failure::Site(self.event),
            failures: |counters| &counters.site_bind_failures,
        };
        let pages = self.pages;
        Task::spawn(plan, move |connection| {
            let pages = Arc::clone(&pages);
            async move { serve(connection, |ask| pages(ask)).await }
        })
    }
}

/// Answers the requests of a connection.
pub(super) async fn serve(connection: TcpStream, answer: impl Fn(&Ask<'_>) -> Reply) {
    let loopback = |address: io::Result<SocketAddr>| {
        // An IPv6 socket tells of IPv4 ones in its own way.
        address.is_ok_and(|it| it.ip().to_canonical().is_loopback())
    };
    let is_local = loopback(connection.local_addr()) && loopback(connection.peer_addr());
    let service = service_fn(|request: hyper::Request<_>| {
        let accept = request.headers().get(ACCEPT);
        let reply = answer(&Ask {
            path: request.uri().path(),
            query: request.uri().query().unwrap_or_default(),
            accept: accept.and_then(|it| it.to_str().ok()).unwrap_or_default(),
            is_local,
        });
        let is_packed = gzip::is_wanted(request.headers());
        async move {
            let response = match reply {
                Reply::Now(response) => response,
                Reply::Later(response) => response.await,
            };
            Ok::<_, Infallible>(gzip::packed(response, is_packed).map(Full::new))
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(connection), service)
        .await;
    if let Err(error) = served {
        tracing::debug!("http: {error}");
    }
}
