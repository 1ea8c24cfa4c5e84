//! Requests to the API server.

use core::time::Duration;
use std::sync::Arc;
use std::time::Instant;

use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, USER_AGENT};
use hyper::http::Error as HttpError;
use hyper::{Method, Request, Response, StatusCode};
use tokio::runtime::Handle;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::bucket::Bucket;
use super::error::BoxError;
use super::facts::{Asked, RequestFacts};
use super::link::Link;
use super::options::JSON;
use super::status;
use super::{ClientError, ConnectionOptions, Refusal};

/// How long an answer that is read as a whole may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// The most that is read of it.
const LONGEST: usize = 4 << 20;

/// Asks the API server; cheap to clone, and all clones share connections, rate limit and counters.
///
/// Requests run on the runtime given to [`new`](Self::new), whichever thread they are made from, so
/// that sockets belong to that one's network namespace.
///
/// Credentials that are not accepted (401) are read anew for the next request: a kubeconfig, the files
/// that it names, a token, what an exec plugin says.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ConnectionOptions,
    runtime: Handle,
    link: Mutex<Option<Arc<Link>>>,
    bucket: Bucket,
    facts: RequestFacts,
    agent: HeaderValue,
}

/// An answer, read as a whole.
#[derive(Debug, Clone)]
pub struct Answer {
    /// HTTP status.
    pub status: StatusCode,
    /// The body.
    pub body: Bytes,
}

impl Client {
    /// Connects to nothing yet, and reads nothing.
    #[must_use]
    pub fn new(options: ConnectionOptions, runtime: Handle) -> Self {
        Self(Arc::new(Inner {
            runtime,
            link: Mutex::default(),
            bucket: Bucket::new(options.rate()),
            facts: RequestFacts::default(),
            agent: user_agent(),
            options,
        }))
    }

    /// Reads the configuration and says what is wrong with it.
    ///
    /// # Errors
    /// Of files, certificates and plugins.
    pub async fn check(&self) -> Result<(), ClientError> {
        self.link().await.map(|_| ())
    }

    /// Numbers about its requests.
    #[must_use]
    pub fn facts(&self) -> RequestFacts {
        self.0.facts.clone()
    }

    /// Reads a path of the API, as JSON.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for any status but 2xx.
    pub async fn get_json(&self, path: &str) -> Result<Answer, ClientError> {
        self.whole(Method::GET, path, None).await
    }

    /// Creates an object, given as JSON, at the path of its kind.
    ///
    /// # Errors
    /// [`ClientError::Refused`] for any status but 2xx; 409 if it exists.
    pub async fn post_json(&self, path: &str, object: Vec<u8>) -> Result<Answer, ClientError> {
        self.whole(Method::POST, path, Some((JSON, object))).await
    }

    /// Changes an object by a merge patch (`application/merge-patch+json`).
    ///
    /// # Errors
    /// [`ClientError::Refused`] for any status but 2xx.
    pub async fn patch_json(&self, path: &str, patch: Vec<u8>) -> Result<Answer, ClientError> {
        let body = Some(("application/merge-patch+json", patch));
        self.whole(Method::PATCH, path, body).await
    }

    /// Sends a request whose answer is read by the caller, whatever its status; the URI is a path and
    /// query. Waits `patience` for the answer to begin.
    pub(super) async fn stream(
        &self,
        request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<Response<Incoming>, ClientError> {
        let client = self.clone();
        let sent = self
            .0
            .runtime
            .spawn(async move { client.send(request, patience).await });
        Running(sent).ended().await
    }

    /// What to ask for where both encodings will do.
    pub(super) fn accept(&self) -> String {
        self.0.options.accept()
    }

    async fn whole(
        &self,
        method: Method,
        path: &str,
        body: Option<(&'static str, Vec<u8>)>,
    ) -> Result<Answer, ClientError> {
        let client = self.clone();
        let request = request(method, path, body);
        let sent = self
            .0
            .runtime
            .spawn(async move { client.read_whole(request?).await });
        Running(sent).ended().await
    }

    async fn read_whole(&self, request: Request<Full<Bytes>>) -> Result<Answer, ClientError> {
        let method = request.method().clone();
        let response = self.send(request, PATIENCE).await?;
        let (head, body) = response.into_parts();
        let host = self.host().await;
        let body = timeout(PATIENCE, Limited::new(body, LONGEST).collect()).await;
        let body = match body {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return Err(ClientError::TooLong {
                    host,
                    limit: LONGEST,
                });
            }
            Ok(Err(error)) => return Err(ClientError::Connection { host, error }),
            Err(_) => {
                return Err(ClientError::Silent {
                    host,
                    after: PATIENCE,
                });
            }
        };
        let asked = Asked {
            method: method.as_str(),
            host: &host,
        };
        self.0.facts.received(&asked, body.len());
        if !head.status.is_success() {
            return Err(refusal(head.status, &head.headers, &body).into());
        }
        Ok(Answer {
            status: head.status,
            body,
        })
    }

    async fn send(
        &self,
        mut request: Request<Full<Bytes>>,
        patience: Duration,
    ) -> Result<Response<Incoming>, ClientError> {
        let inner = &*self.0;
        let waited = inner.bucket.take().await;
        let link = self.link().await?;
        let host = link.host().to_owned();
        let method = request.method().clone();
        let asked = Asked {
            method: method.as_str(),
            host: &host,
        };
        inner.facts.waited(&asked, waited);
        let length = hyper::body::Body::size_hint(request.body()).exact();
        inner.facts.sent(
            &asked,
            length.and_then(|it| it.try_into().ok()).unwrap_or_default(),
        );
        request
            .headers_mut()
            .insert(USER_AGENT, inner.agent.clone());
        let started = Instant::now();
        let answer = timeout(patience, link.send(request)).await;
        let code = match &answer {
            Ok(Ok(response)) => response.status().as_str().to_owned(),
            // client-go's word.
            _ => "<error>".to_owned(),
        };
        inner.facts.answered(&asked, &code, started.elapsed());
        match answer {
            Ok(Ok(response)) => {
                if response.status() == StatusCode::UNAUTHORIZED {
                    self.forget(&link).await;
                }
                Ok(response)
            }
            failed => {
                if link.may_be_replaced() {
                    self.forget(&link).await;
                }
                Err(match failed {
                    Ok(Err(error)) => ClientError::Connection {
                        host,
                        error: innermost(error),
                    },
                    _ => ClientError::Silent {
                        host,
                        after: patience,
                    },
                })
            }
        }
    }

    /// The link in use, or a new one.
    async fn link(&self) -> Result<Arc<Link>, ClientError> {
        let mut link = self.0.link.lock().await;
        if let Some(link) = link.as_ref().filter(|link| !link.is_outdated()) {
            return Ok(Arc::clone(link));
        }
        match (Link::make(&self.0.options, &self.0.facts).await, &*link) {
            (Ok(made), _) => Ok(Arc::clone(link.insert(Arc::new(made)))),
            // Files that are being written, or taken away, are no reason to do without.
            (Err(error), Some(old)) => {
                tracing::warn!("{error}; what was read before stays in use");
                Ok(Arc::clone(old))
            }
            (Err(error), None) => Err(error),
        }
    }

    /// Has the next request make a new link, if nobody did before.
    pub(super) async fn renew(&self) {
        self.0.link.lock().await.take();
    }

    async fn forget(&self, old: &Arc<Link>) {
        let mut link = self.0.link.lock().await;
        if link.as_ref().is_some_and(|link| Arc::ptr_eq(link, old)) {
            link.take();
        }
    }

    /// Host and port of the server.
    pub(super) async fn host(&self) -> String {
        let link = self.0.link.lock().await;
        link.as_ref()
            .map_or_else(String::new, |link| link.host().to_owned())
    }
}

/// A request on the client's runtime, given up when nobody waits for it any more.
struct Running<T>(JoinHandle<Result<T, ClientError>>);

impl<T> Running<T> {
    async fn ended(mut self) -> Result<T, ClientError> {
        match (&mut self.0).await {
            Ok(result) => result,
            Err(error) => Err(ClientError::Runtime(std::io::Error::other(error))),
        }
    }
}

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// As client-go's: program/version (os/architecture).
fn user_agent() -> HeaderValue {
    let text = concat!("kproxy/", env!("CARGO_PKG_VERSION"));
    let arch = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    HeaderValue::try_from(format!("{text} ({}/{arch})", std::env::consts::OS))
        .unwrap_or_else(|_| HeaderValue::from_static(text))
}

fn request(
    method: Method,
    path: &str,
    body: Option<(&'static str, Vec<u8>)>,
) -> Result<Request<Full<Bytes>>, ClientError> {
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header(ACCEPT, JSON);
    if let Some((kind, _)) = &body {
        request = request.header(CONTENT_TYPE, *kind);
    }
    let body = body.map_or_else(Bytes::new, |(_, body)| body.into());
    request
        .body(Full::new(body))
        .map_err(|error: HttpError| ClientError::Connection {
            host: path.to_owned(),
            error: error.into(),
        })
}

/// What a server that does not do what it was asked says about it.
pub(super) fn refusal(status: StatusCode, headers: &HeaderMap, body: &[u8]) -> Refusal {
    let mut refusal = status::read(body).unwrap_or_default();
    // The line counts: what is in between may answer, too.
    refusal.code = status.as_u16();
    let seconds = headers
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok()?.parse().ok());
    refusal.retry_after = seconds.map(Duration::from_secs).or(refusal.retry_after);
    refusal
}

/// The error that says most: those around it only say that something failed.
fn innermost(error: BoxError) -> BoxError {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_user_agent_names_program_version_and_platform() {
        let agent = user_agent();
        let agent = agent.to_str().unwrap();
        assert!(agent.starts_with("kproxy/0."), "{agent}");
        assert!(agent.ends_with(')') && agent.contains("linux/"), "{agent}");
    }
}
