//! Keeps up with the objects of one kind: lists them, watches them, and begins anew when it must.
//!
//! ```text
//!   ┌─> List: a streaming list, or pages where that is refused ──> Watch, from there on ─┐
//!   │                                                                │  ^                │
//!   └── 410 Gone (in the status or in an event)  <───────────────────┘  └── any other end┘
//! ```
//! Lists never ask for more than the server's cache holds: `resourceVersion=0` at first, then the
//! last version seen or a later one. What a list does not hold any more is gone at its end, never
//! before, and never because the server cannot be reached.

use core::convert::Infallible;
use core::time::Duration;

use svc_planner::object::Change;
use tokio::time::{Instant, sleep};

use super::backoff::{Backoff, Random};
use super::board::ApiBoard;
use super::decode::{DecodeError, Form, Item, ListEnd, Unreadable};
use super::known::{Known, Version};
use super::outbox::Outbox;
use super::pace::Pace;
use super::resource::{Resource, encoded};
use super::transfer::{Transfer, TransferError};
use super::{Client, ClientError, Refusal};
use crate::ingest::{self, ObjectId, Severity};
use crate::manifest::Object;

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
    /// The list is complete that the last streaming list began with.
    listed: bool,
    /// The server may be asked for a streaming list.
    streaming: bool,
    /// It may be asked for protobuf.
    protobuf: bool,
    /// It may cut a list into pages.
    paged: bool,
    backoff: Backoff,
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

/// Why a list or watch failed.
#[derive(Debug)]
enum Failure {
    Transfer(TransferError),
    /// An `ERROR` event.
    Event(Refusal),
    /// The stream ended before all objects were sent.
    Unfinished,
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        Self::Transfer(error)
    }
}

impl core::fmt::Display for Failure {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Transfer(error) => error.fmt(f),
            Self::Event(refusal) => refusal.fmt(f),
            Self::Unfinished => f.write_str("the list ended before all objects were sent"),
        }
    }
}

impl Failure {
    const fn is_silence(&self) -> bool {
        matches!(
            self,
            Self::Transfer(TransferError::Client(ClientError::Silent { .. }))
        )
    }

    fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Transfer(TransferError::Client(ClientError::Refused(refusal)))
            | Self::Event(refusal) => Some(refusal),
            _ => None,
        }
    }
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
            store: Store {
                known: Known::default(),
                resource: resource.clone(),
                outbox,
                board,
                nameless: false,
            },
            resource,
            version: String::new(),
            listed: false,
            streaming: true,
            protobuf: true,
            paged: true,
            backoff: Backoff::new(pace.backoff),
            random: Random::default(),
        }
    }

    /// Works until it is dropped.
    pub(super) async fn run(mut self) -> Infallible {
        let mut next = Next::List;
        loop {
            self.listed = false;
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
                    // In one piece, so that no token can expire.
                    self.paged = false;
                }
                (Next::List, self.backoff.fail(Instant::now()))
            }
            _ if refusal.is_too_large_version() => {
                // It was restored from a backup, or lags behind the one asked before.
                self.version.clear();
                (Next::List, self.fail(failure))
            }
            406 | 415 if self.protobuf => {
                tracing::info!("{kind}: {refusal}; asking for JSON");
                self.protobuf = false;
                (tried, Duration::ZERO)
            }
            404 if self.resource.optional => {
                tracing::info!("{kind}: the server does not have it");
                self.store.board.update(kind, |it| it.absent = true);
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
                let asked = refusal.retry_after.unwrap_or_default();
                let asked = asked.min(self.pace.longest_request);
                // Everybody was asked to come then: not all at once.
                let pause = self.fail(failure);
                (
                    tried,
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
        tracing::warn!(
            "{}: {failure}; next try in {:.1} s",
            self.resource.kind,
            pause.as_secs_f64()
        );
        self.store.board.update(self.resource.kind, |it| {
            it.errors += 1;
            it.last_error = Some(failure.to_string());
        });
        pause
    }

    /// A watch, with everything there is at its beginning if that is `what`.
    async fn stream(&mut self, what: Next) -> Result<Closed, Failure> {
        let time = self.pace.watch.mul_f64(1.0 + self.random.fraction());
        let seconds = time.as_secs().max(1).to_string();
        let from = encoded(if self.version.is_empty() {
            "0"
        } else {
            &self.version
        });
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
            .board
            .update(self.resource.kind, |it| it.watches += 1);
        let began = Instant::now();
        let deadline = began + time + self.pace.grace;
        let mut transfer = self.transfer(&uri, Form::Watch).await?;
        let (mut events, mut bookmarks) = (0_u64, listing);
        loop {
            // A server that sends bookmarks never is silent for long.
            let silence = if bookmarks {
                self.pace.silence
            } else {
                time + self.pace.grace
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
                        bookmarks = true;
                        if listing && initial_events_end {
                            listing = false;
                            *listed = true;
                            store.end_list();
                        }
                        if !listing && !at.is_empty() {
                            at.clone_into(version);
                        }
                    }
                    Item::Refused(refusal) => refused = Some(refusal),
                    Item::Other(kind) => tracing::debug!("an event of type {kind:?}"),
                }
            });
            let more = more.await?;
            self.store.outbox.room().await;
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
                self.store.outbox.room().await;
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
        self.store.end_list();
        Ok(Closed { at_once: false })
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

    async fn transfer(&self, uri: &str, form: Form) -> Result<Transfer, TransferError> {
        let accept = if self.protobuf {
            self.client.accept()
        } else {
            super::JSON.to_owned()
        };
        let kind = self.resource.kind;
        let transfer =
            Transfer::begin(&self.client, kind, form, uri, &accept, self.pace.silence).await?;
        self.store.board.update(kind, |it| {
            it.last_error = None;
            it.absent = false;
        });
        Ok(transfer)
    }
}

/// What is known, and where news of it goes.
#[derive(Debug)]
struct Store {
    known: Known,
    resource: Resource,
    outbox: Outbox,
    board: ApiBoard,
    /// The list holds an object that cannot be read and does not say which: none can be missed.
    nameless: bool,
}

impl Store {
    fn begin_list(&mut self) {
        self.known.begin_list();
        self.nameless = false;
    }

    fn end_list(&mut self) {
        let kind = self.resource.kind;
        if self.nameless {
            tracing::warn!(
                "{kind}: nothing is taken for gone, as an object without a name may be it"
            );
        } else {
            let outbox = &self.outbox;
            self.known.end_list(|namespace, name| {
                outbox.put(ingest::gone(&ObjectId {
                    kind,
                    namespace: namespace.into(),
                    name: name.into(),
                }));
            });
        }
        let objects = self.known.len();
        self.board.update(kind, |it| {
            if !it.synced {
                tracing::info!("{kind}: {objects} objects received, watching");
            }
            it.lists += 1;
            it.synced = true;
            it.objects = objects;
        });
    }

    fn listed(&mut self, object: &Object<'_>) {
        let Some((id, version)) = self.identity(object) else {
            return;
        };
        if self.known.listed(&id, Version::of(version)) {
            self.publish(&id, object);
        }
        self.count();
    }

    fn changed(&mut self, object: &Object<'_>, listing: bool, at: &mut String) {
        if listing {
            // In no order; a list counts as a whole.
            return self.listed(object);
        }
        let Some((id, version)) = self.identity(object) else {
            return;
        };
        if self.known.changed(&id, Version::of(version)) {
            self.publish(&id, object);
        }
        version.unwrap_or_default().clone_into(at);
        self.count();
    }

    fn deleted(&mut self, object: &Object<'_>, listing: bool, at: &mut String) {
        let Some((id, version)) = self.identity(object) else {
            return;
        };
        if self.known.deleted(&id, Version::of(version)) {
            self.outbox.put(ingest::gone(&id));
        }
        if !listing {
            version.unwrap_or_default().clone_into(at);
        }
        self.count();
    }

    fn unreadable(&mut self, it: &Unreadable) {
        tracing::error!(
            "{it}; {}",
            if it.deleted {
                "deleted"
            } else {
                "left as it was"
            }
        );
        self.board
            .update(self.resource.kind, |it| it.unreadable += 1);
        match &it.object {
            Some(id) if it.deleted => {
                // Its version cannot be told; this is the latest news there is.
                if self.known.deleted(id, Version::UNKNOWN) {
                    self.outbox.put(ingest::gone(id));
                }
            }
            Some(id) => self.known.kept(id),
            None => self.nameless = true,
        }
    }

    /// Which object it is, if it is one that matters.
    fn identity<'o>(&mut self, object: &'o Object<'_>) -> Option<(ObjectId, Option<&'o str>)> {
        let metadata = object.metadata()?;
        let id = ObjectId::new(self.resource.kind, metadata);
        if id.is_none() {
            self.unreadable(&Unreadable {
                object: None,
                reason: "metadata.name is missing".to_owned(),
                deleted: false,
            });
        }
        Some((id?, metadata.resource_version.as_deref()))
    }

    fn publish(&self, id: &ObjectId, object: &Object<'_>) {
        let mut problems = Vec::new();
        let change: Change = match object {
            Object::Service(api) => ingest::service(id, api, &mut problems),
            Object::EndpointSlice(api) => ingest::endpoint_slice(id, api, &mut problems),
            Object::Node(api) => ingest::node(id, api, &mut problems),
            Object::ServiceCidr(api) => ingest::service_cidr(id, api, &mut problems),
            _ => return,
        };
        for problem in problems {
            match problem.reason.severity() {
                Severity::Warning => tracing::warn!("{problem}"),
                Severity::Error => {
                    self.board.skipped().count(Some(self.resource.kind));
                    tracing::error!("{problem}");
                }
            }
        }
        self.outbox.put(change);
    }

    fn count(&self) {
        let objects = self.known.len();
        self.board.update(self.resource.kind, |it| {
            it.received += 1;
            it.objects = objects;
            it.last_event = Some(std::time::Instant::now());
        });
    }
}

impl From<DecodeError> for TransferError {
    fn from(error: DecodeError) -> Self {
        Self::Decode(error)
    }
}
