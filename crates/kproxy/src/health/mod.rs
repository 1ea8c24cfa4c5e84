//! How the proxy is doing, for probes and load balancers: the pages of `--healthz-bind-address`.
//!
//! | page | 200 while |
//! |---|---|
//! | `/healthz` | in step, and the own Node is there and not about to go: it may be sent traffic |
//! | `/livez` | in step: no change waits for longer than two sync periods, in any family |
//! | `/readyz` | each family was programmed completely once, nobody keeps changing its table back, and nothing is left of kube-proxy's other modes that may take packets before |
//!
//! An idle proxy is in step for ever, and one that waits for the own Node is, too. The first two are kube-proxy's (`pkg/proxy/healthcheck`), to the byte; the third says why, a line
//! for each family.

mod answer;

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;
use std::time::SystemTime;

use hyper::header::{CONTENT_TYPE, HeaderValue, X_CONTENT_TYPE_OPTIONS};
use hyper::{Response, StatusCode};
use svc_planner::plan::Family;

use self::answer::Body;
use crate::engine::Clock;
use crate::leftovers;
use crate::listeners::Pages;
use crate::proxy::{FamilyStatus, Status, StatusBoard};

/// What is known of the proxy's health.
#[derive(Debug)]
pub struct Health {
    board: StatusBoard,
    clock: Clock,
    patience: Duration,
    leftovers: leftovers::Board,
    healthz: Codes,
    livez: Codes,
}

/// How often each answer was given.
#[derive(Debug, Default)]
struct Codes {
    ok: AtomicU64,
    unavailable: AtomicU64,
}

impl Health {
    /// Health by a loop's status, which is told on the engine's `clock`; a family is unhealthy when a
    /// change waits for `patience`.
    #[must_use]
    pub fn new(board: StatusBoard, clock: Clock, patience: Duration) -> Self {
        Self {
            board,
            clock,
            patience,
            leftovers: leftovers::Board::default(),
            healthz: Codes::default(),
            livez: Codes::default(),
        }
    }

    /// Not ready while something of kube-proxy's is left that may take packets before our rules do.
    #[must_use]
    pub fn without(self, leftovers: leftovers::Board) -> Self {
        Self { leftovers, ..self }
    }

    /// What kube-proxy left and cannot be removed.
    #[must_use]
    pub const fn leftovers(&self) -> &leftovers::Board {
        &self.leftovers
    }

    /// The loop's status.
    #[must_use]
    pub fn status(&self) -> Status {
        self.board.read()
    }

    /// Is every family in step?
    #[must_use]
    pub fn is_in_step(&self) -> bool {
        self.board
            .read()
            .is_in_step(self.clock.now(), self.patience)
    }

    /// Is this family?
    #[must_use]
    pub fn is_family_in_step(&self, family: &FamilyStatus) -> bool {
        family.is_in_step(self.clock.now(), self.patience)
    }

    /// The time of day at a time of the engine's clock that is not in the future.
    #[must_use]
    pub fn time_of_day(&self, time: Duration) -> SystemTime {
        let now = SystemTime::now();
        let ago = self.clock.now().saturating_sub(time);
        now.checked_sub(ago).unwrap_or(now)
    }

    /// How often `/healthz` and `/livez` were answered with each status code.
    pub fn replies(&self) -> [(&'static str, [(u16, u64); 2]); 2] {
        [
            ("healthz", self.healthz.counts()),
            ("livez", self.livez.counts()),
        ]
    }

    /// The pages.
    #[must_use]
    pub fn pages(self: Arc<Self>) -> Pages {
        Arc::new(move |ask| match ask.path {
            "/healthz" => self.healthz().into(),
            "/livez" => self.livez().into(),
            "/readyz" => self.readyz().into(),
            _ => not_found().into(),
        })
    }

    fn healthz(&self) -> Response<String> {
        let (status, mut body) = self.body();
        body.node_eligible = Some(status.node.eligible);
        let ok = body.healthy && status.node.eligible;
        if ok {
            body.well();
        }
        self.healthz.count(ok);
        json(ok, &body)
    }

    fn livez(&self) -> Response<String> {
        let (_, mut body) = self.body();
        if body.healthy {
            body.well();
        }
        self.livez.count(body.healthy);
        json(body.healthy, &body)
    }

    fn body(&self) -> (Status, Body) {
        let status = self.board.read();
        // One reading for all: what happened at the same time is told as of the same time.
        let (now, day) = (self.clock.now(), SystemTime::now());
        let time_of_day = |time| day.checked_sub(now.saturating_sub(time)).unwrap_or(day);
        let body = Body::new(&status, now, self.patience, time_of_day);
        (status, body)
    }

    fn readyz(&self) -> Response<String> {
        let status = self.board.read();
        let left = self.leftovers.read();
        let ready = status.families.iter().all(is_ready) && left.is_empty();
        let now = self.clock.now();
        let lines = status.families.iter().map(|family| why(family, now));
        let left = left.iter().map(|left| format!("not ready: {left}\n"));
        text(code(ready), lines.chain(left).collect())
    }
}

impl Codes {
    fn count(&self, ok: bool) {
        let counter = if ok { &self.ok } else { &self.unavailable };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    fn counts(&self) -> [(u16, u64); 2] {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [(200, read(&self.ok)), (503, read(&self.unavailable))]
    }
}

const fn is_ready(family: &FamilyStatus) -> bool {
    family.last_success.is_some() && family.interference.contended_since.is_none()
}

/// A line on why a family is ready or not.
fn why(status: &FamilyStatus, now: Duration) -> String {
    let family = family_label(status.family);
    if let Some(since) = status.interference.contended_since {
        let seconds = now.saturating_sub(since).as_secs();
        let who = status.interference.changed_by();
        return format!("{family}: not ready: {who} keeps changing the table, for {seconds} s\n");
    }
    match (&status.last_success, &status.last_error) {
        (Some(_), _) => format!("{family}: ready\n"),
        (None, Some((_, error))) => format!("{family}: not ready: never programmed: {error}\n"),
        (None, None) => format!("{family}: not ready: not programmed yet\n"),
    }
}

const fn code(ok: bool) -> StatusCode {
    if ok {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    }
}

fn json(ok: bool, body: &Body) -> Response<String> {
    // Strings and booleans can be written.
    let body = serde_json::to_string(body).unwrap_or_default();
    response(code(ok), "application/json", body)
}

fn text(code: StatusCode, body: String) -> Response<String> {
    response(code, "text/plain; charset=utf-8", body)
}

/// A family as kube-proxy names it.
pub(crate) const fn family_label(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// As Go's server says it.
pub(crate) fn not_found() -> Response<String> {
    text(StatusCode::NOT_FOUND, "404 page not found\n".to_owned())
}

/// An answer that no browser takes for something else.
pub(crate) fn response(code: StatusCode, kind: &'static str, body: String) -> Response<String> {
    let mut response = Response::new(body);
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
