//! Keeps up with the objects of one kind: lists them, watches them, and begins anew when it must.
//!
//! ```text
//!   ┌─> List: a streaming list, or pages where that is refused ──> Watch, from there on ─┐
//!   │                                                                │  ^                │
//!   └── 410 Gone (in the status or in an event)  <───────────────────┘  └── any other end┘
//! ```
//! Lists never ask for more than the server's cache holds: `resourceVersion=0` at first, then the
//! last version seen or a later one; where the server has never heard of that, a consistent streaming
//! list, so that a server that lags behind does not take us back. What a list does not hold any more is
//! gone at its end, never before, and never because the server cannot be reached.

use core::convert::Infallible;
use core::time::Duration;

use tokio::time::{Instant, sleep};

use super::Client;
use super::backoff::{Backoff, Random};
use super::board::ApiBoard;
use super::decode::{Form, Item, ListEnd};
use super::expectation::Expectation;
use super::failure::Failure;
use super::outbox::Outbox;
use super::pace::Pace;
use super::resource::{Resource, encoded};
use super::store::Store;
use super::transfer::{Transfer, TransferError};
use crate::logging::Repeats;

/// A server without streaming lists that has not heard of our version so often will not: what it has
/// is taken, though it may be older.
const BEHIND: u32 = 4;
/// A watch that the server refuses so often in a row, though it is well, is not asked for again: what it
/// cannot go on from is jumped over by a list, as client-go does at once.
const IN_VAIN: u32 = 3;
/// A streaming list that so often comes to no end is one that the server does not know of.
const ENDLESS: u32 = 2;
/// Page size of lists that the server cuts at all (client-go: `defaultPageSize`).
const PAGE: &str = "500";

/// See the module.
#[derive(Debug)]
pub(super) struct Reflector {
    client: Client,
    resource: Resource,
    pace: Pace,
    store: Store,
    /// Everything up to this version was received; empty before the first list.
    version: String,
    /// How often the server has said that it never heard of that version, since the last list.
    behind: u32,
    /// How often in a row the server has refused a watch from that version on.
    refused: u32,
    /// How often in a row a streaming list came to no end.
    endless: u32,
    /// The server began to answer the last streaming list.
    answered: bool,
    /// The list is complete that it began with.
    listed: bool,
    /// The server may be asked for a streaming list.
    streaming: bool,
    /// It may be asked for protobuf.
    protobuf: bool,
    /// It may cut a list into pages.
    paged: bool,
    backoff: Backoff,
    /// What the log says of failures.
    repeats: Repeats,
    random: Random,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    List,
    Watch,
}

/// How a watch ended that did not fail.
#[derive(Debug, Clone, Copy)]
struct Closed {
    /// Too soon for a server that is well.
    at_once: bool,
}

impl Reflector {
    pub(super) fn new(
        client: Client,
        resource: Resource,
        pace: Pace,
        outbox: Outbox,
        board: ApiBoard,
    ) -> Self {
        board.add(resource.kind);
        Self {
            client,
            pace,
            store: Store::new(resource.clone(), outbox, board),
            resource,
            version: String::new(),
            behind: 0,
            refused: 0,
            endless: 0,
            answered: false,
            listed: false,
            streaming: true,
            protobuf: true,
            paged: true,
            backoff: Backoff::new(pace.backoff),
            repeats: Repeats::default(),
            random: Random::default(),
        }
    }

    /// Works until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        let mut next = Next::List;
        loop {
            (self.answered, self.listed) = (false, false);
            let done = match next {
                Next::List if self.streaming => self.stream(Next::List).await,
                Next::List => self.pages().await,
                Next::Watch => self.stream(Next::Watch).await,
            };
            match done {
                Ok(closed) => {
                    next = Next::Watch;
                    if closed.at_once {
                        let pause = self.backoff.fail(Instant::now());
                        tracing::debug!("{}: the watch ended at once", self.resource.kind);
                        sleep(pause).await;
                    }
                }
                Err(failure) => {
                    if failure.is_silence() {
                        // Whatever is wrong with the connection.
                        self.client.renew().await;
                    }
                    // A streaming list is a watch in the end.
                    let tried = if self.listed { Next::Watch } else { next };
                    let pause;
                    (next, pause) = self.after(tried, &failure);
                    sleep(pause).await;
                }
            }
        }
    }

    /// What to do after a failure, and when.
    fn after(&mut self, tried: Next, failure: &Failure) -> (Next, Duration) {
        let kind = self.resource.kind;
        let listing_as_stream = tried == Next::List && self.streaming;
        if let Failure::Transfer(TransferError::Encoding(found)) = failure {
            tracing::warn!("{kind}: the server answers in {found:?}; asking for JSON");
        }
        let Some(refusal) = failure.refusal() else {
            if matches!(failure, Failure::Transfer(TransferError::Encoding(_))) && self.protobuf {
                self.protobuf = false;
                return (tried, Duration::ZERO);
            }
            let is_endless = failure.is_silence() || matches!(failure, Failure::Unfinished);
            if listing_as_stream && self.answered && is_endless {
                // It knows nothing of `sendInitialEvents`, and waits for what changes.
                self.endless += 1;
                self.streaming = self.endless < ENDLESS;
            }
            // What cannot be read in a watch may be jumped over by a list.
            let next = match failure {
                Failure::Transfer(TransferError::Decode(_)) => Next::List,
                _ => tried,
            };
            return (next, self.fail(failure));
        };
        match refusal.code {
            // Too old a version, or a page's token: all anew. Not a fault of the server.
            _ if refusal.is_gone() => {
                tracing::info!("{kind}: {refusal}; listing again");
                if tried == Next::List {
                    if self.streaming || !self.paged {
                        // It was no token that expired.
                        self.version.clear();
                    }
                    // In one piece, so that no token can expire.
                    self.paged = false;
                }
                (Next::List, self.backoff.fail(Instant::now()))
            }
            _ if refusal.is_too_large_version() => {
                // It was restored from a backup, or lags behind the one asked before: the database knows.
                self.behind = self.behind.saturating_add(1);
                if self.streaming || self.behind >= BEHIND {
                    self.version.clear();
                }
                (Next::List, self.fail(failure))
            }
            406 | 415 if self.protobuf => {
                tracing::info!("{kind}: {refusal}; asking for JSON");
                self.protobuf = false;
                (tried, Duration::ZERO)
            }
            404 if self.resource.optional => {
                tracing::info!("{kind}: the server does not have it");
                self.store.board().update(kind, |it| it.absent = true);
                // It may have had it before an upgrade was taken back.
                self.store.begin_list();
                self.store.end_list();
                let pause = self.pace.absent.mul_f64(1.0 + self.random.fraction());
                (Next::List, pause)
            }
            // Services could not be selected by their ClusterIP before 1.31.
            400 if self.resource.drop_fields(refusal) => (tried, Duration::ZERO),
            // client-go falls back at every status that is not worth a second try.
            400 | 403 | 404 | 405 | 422 | 501 if listing_as_stream => {
                tracing::info!("{kind}: no streaming list ({refusal}); listing in pages");
                self.streaming = false;
                (Next::List, Duration::ZERO)
            }
            _ => {
                if tried == Next::List && matches!(refusal.code, 401 | 403 | 404) {
                    // Nor are pages to be had: it is not streaming lists that are refused.
                    self.streaming = true;
                }
                let mut next = tried;
                if tried == Next::Watch && !refusal.is_of_the_moment() {
                    self.refused += 1;
                    if self.refused >= IN_VAIN {
                        self.refused = 0;
                        next = Next::List;
                        if matches!(refusal.code, 400 | 422) {
                            // It may be our version that it cannot make anything of.
                            self.version.clear();
                        }
                    }
                }
                let asked = refusal.retry_after.unwrap_or_default();
                let asked = asked.min(self.pace.longest_request);
                // Everybody was asked to come then: not all at once.
                let pause = self.fail(failure);
                (
                    next,
                    if asked.is_zero() {
                        pause
                    } else {
                        asked + pause
                    },
                )
            }
        }
    }

    /// Notes a failure; how long to wait.
    fn fail(&mut self, failure: &Failure) -> Duration {
        let pause = self.backoff.fail(Instant::now());
        let (kind, next) = (self.resource.kind, pause.as_secs_f64());
        let reason = failure.to_string();
        match self.repeats.failed(&reason) {
            Some(tries) => tracing::warn!("{kind}: {tries}{reason}; next try in {next:.1} s"),
            None => tracing::debug!("{kind}: {reason}; next try in {next:.1} s"),
        }
        self.store.board().update(self.resource.kind, |it| {
            it.errors += 1;
            it.last_error = Some(reason);
        });
        pause
    }

    /// A watch, with everything there is at its beginning if that is `what`.
    async fn stream(&mut self, what: Next) -> Result<Closed, Failure> {
        let time = self.pace.watch.mul_f64(1.0 + self.random.fraction());
        let seconds = time.as_secs().max(1).to_string();
        let from = self.from();
        let mut parameters = vec![
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", from.as_str()),
            ("timeoutSeconds", &seconds),
            ("watch", "true"),
        ];
        let mut listing = what == Next::List;
        if listing {
            parameters.push(("resourceVersionMatch", "NotOlderThan"));
            parameters.push(("sendInitialEvents", "true"));
            self.store.begin_list();
        }
        let uri = self.resource.uri(&parameters);
        self.store
            .board()
            .update(self.resource.kind, |it| it.watches += 1);
        let began = Instant::now();
        let deadline = began + time + self.pace.grace;
        let mut transfer = self.transfer(&uri, Form::Watch).await?;
        self.answered = true;
        let (mut events, mut expected) = (0_u64, Expectation::Unknown);
        loop {
            // A server that sends bookmarks never is silent for long, nor one that lists.
            let silence = match expected {
                Expectation::Unknown | Expectation::Bookmarks => self.pace.silence,
                Expectation::Nothing => time + self.pace.grace,
            };
            let mut refused = None;
            let (store, version, listed) = (&mut self.store, &mut self.version, &mut self.listed);
            let more = transfer.next(deadline, silence, |item| {
                events += 1;
                match item {
                    Item::Object(object) => store.changed(&object, listing, version),
                    Item::Deleted(object) => store.deleted(&object, listing, version),
                    Item::Unreadable(it) => store.unreadable(&it),
                    Item::Bookmark {
                        version: at,
                        initial_events_end,
                    } => {
                        if listing && initial_events_end {
                            listing = false;
                            *listed = true;
                            store.end_list();
                        } else {
                            expected = Expectation::Bookmarks;
                        }
                        if !listing && !at.is_empty() {
                            at.clone_into(version);
                        }
                    }
                    Item::Refused(refusal) => refused = Some(refusal),
                    Item::Other(kind) => tracing::debug!("an event of type {kind:?}"),
                }
            });
            let more = match more.await {
                Err(error)
                    if error.is_silence()
                        && !listing
                        && expected == Expectation::Unknown
                        && Instant::now() < deadline =>
                {
                    let newest = self.newest().await?;
                    expected = Expectation::of(&self.version, &newest);
                    continue;
                }
                more => more?,
            };
            if self.listed {
                (self.behind, self.endless) = (0, 0);
            }
            if events > 0 && refused.is_none() {
                self.refused = 0;
            }
            self.store.room().await;
            if let Some(refusal) = refused {
                return Err(Failure::Event(refusal));
            }
            if !more {
                break;
            }
        }
        transfer.finish().map_err(TransferError::from)?;
        if listing {
            return Err(Failure::Unfinished);
        }
        Ok(Closed {
            // client-go: `VeryShortWatchError`.
            at_once: events == 0 && began.elapsed() < Duration::from_secs(1),
        })
    }

    /// A list, page by page where the server cuts it.
    async fn pages(&mut self) -> Result<Closed, Failure> {
        self.store.begin_list();
        let mut token = String::new();
        let version = loop {
            let uri = self.page_uri(&token);
            let mut transfer = self.transfer(&uri, Form::List).await?;
            loop {
                let deadline = Instant::now() + self.pace.silence;
                let store = &mut self.store;
                let more = transfer.next(deadline, self.pace.silence, |item| match item {
                    Item::Object(object) => store.listed(&object),
                    Item::Unreadable(it) => store.unreadable(&it),
                    _ => {}
                });
                let more = more.await?;
                self.store.room().await;
                if !more {
                    break;
                }
            }
            let ListEnd {
                version,
                continuation,
            } = transfer.finish().map_err(TransferError::from)?;
            if continuation.is_empty() {
                break version;
            }
            token = encoded(&continuation);
        };
        self.version = version;
        self.behind = 0;
        self.store.end_list();
        Ok(Closed { at_once: false })
    }

    /// From which version on to list or watch; empty is a consistent list.
    fn from(&self) -> String {
        match self.version.as_str() {
            "" if self.behind > 0 => String::new(),
            "" => "0".to_owned(),
            version => encoded(version),
        }
    }

    /// The newest version of the kind that the server knows, if it knows ours.
    async fn newest(&mut self) -> Result<String, Failure> {
        let from = self.from();
        let uri = self.resource.nothing(&[
            ("resourceVersion", from.as_str()),
            ("resourceVersionMatch", "NotOlderThan"),
        ]);
        let mut transfer = self.transfer(&uri, Form::List).await?;
        let deadline = Instant::now() + self.pace.silence;
        while transfer.next(deadline, self.pace.silence, |_| ()).await? {}
        let end = transfer.finish().map_err(TransferError::from)?;
        Ok(end.version)
    }

    fn page_uri(&self, token: &str) -> String {
        if !token.is_empty() {
            return self.resource.uri(&[("limit", PAGE), ("continue", token)]);
        }
        if self.version.is_empty() {
            // The cache knows no pages; without one they keep this off the database at once.
            let limit = if self.paged { PAGE } else { "" };
            return self
                .resource
                .uri(&[("limit", limit), ("resourceVersion", "0")]);
        }
        let version = encoded(&self.version);
        self.resource.uri(&[
            ("resourceVersion", version.as_str()),
            ("resourceVersionMatch", "NotOlderThan"),
        ])
    }

    async fn transfer(&mut self, uri: &str, form: Form) -> Result<Transfer, TransferError> {
        let accept = if self.protobuf {
            self.client.accept()
        } else {
            super::JSON.to_owned()
        };
        let kind = self.resource.kind;
        let transfer =
            Transfer::begin(&self.client, kind, form, uri, &accept, self.pace.silence).await?;
        if let Some(over) = self.repeats.over() {
            tracing::info!("{kind}: the server answers again; {over}");
        }
        self.store.board().update(kind, |it| {
            it.last_error = None;
            it.absent = false;
        });
        Ok(transfer)
    }
}
