//! HTTP/1.1 on one connection.

use core::convert::Infallible;
use core::net::SocketAddr;
use core::time::Duration;
use std::fmt;
use std::sync::Arc;

use hyper::Response;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;

use super::task::{Context, Plan, Task};

/// A client that says nothing for so long is hung up on.
const PATIENCE: Duration = Duration::from_secs(30);
/// Most connections at a time to a site.
const MOST_CONNECTIONS: usize = 64;

/// Answers to paths, given on the listeners' thread: they must not wait for anything.
pub type Pages = Arc<dyn Fn(&str) -> Response<String> + Send + Sync>;

/// Pages at an address.
pub struct Site {
    /// Where to listen, in the listeners' network namespace.
    pub address: SocketAddr,
    /// What it is, for logs.
    pub what: &'static str,
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
            what: self.what.to_owned(),
            most: MOST_CONNECTIONS,
            context: Arc::clone(context),
            failures: |counters| &counters.site_bind_failures,
        };
        let pages = self.pages;
        Task::spawn(plan, move |connection| {
            let pages = Arc::clone(&pages);
            async move { serve(connection, |path| pages(path)).await }
        })
    }
}

/// Answers the requests of a connection, by their paths.
pub(super) async fn serve(connection: TcpStream, answer: impl Fn(&str) -> Response<String>) {
    let service = service_fn(|request: hyper::Request<_>| {
        let answer = answer(request.uri().path());
        async { Ok::<_, Infallible>(answer) }
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
