//! What is known of the objects of a kind, and where news of it goes.

use svc_planner::object::Change;

use super::board::ApiBoard;
use super::decode::Unreadable;
use super::known::{Known, Version};
use super::outbox::Outbox;
use super::resource::Resource;
use crate::ingest::{self, ObjectId, Severity};
use crate::manifest::Object;

/// See the module.
#[derive(Debug)]
pub(super) struct Store {
    known: Known,
    resource: Resource,
    outbox: Outbox,
    board: ApiBoard,
    /// The list holds an object that cannot be read and does not say which: none can be missed.
    nameless: bool,
}

impl Store {
    pub(super) fn new(resource: Resource, outbox: Outbox, board: ApiBoard) -> Self {
        Self {
            known: Known::default(),
            resource,
            outbox,
            board,
            nameless: false,
        }
    }

    pub(super) const fn board(&self) -> &ApiBoard {
        &self.board
    }

    /// Gives way until what was told is taken.
    pub(super) async fn room(&self) {
        self.outbox.room().await;
    }

    pub(super) fn begin_list(&mut self) {
        self.known.begin_list();
        self.nameless = false;
    }

    pub(super) fn end_list(&mut self) {
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

    pub(super) fn listed(&mut self, object: &Object<'_>) {
        let Some((id, version)) = self.identity(object) else {
            return;
        };
        if self.known.listed(&id, Version::of(version)) {
            self.publish(&id, object);
        }
        self.count();
    }

    pub(super) fn changed(&mut self, object: &Object<'_>, listing: bool, at: &mut String) {
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

    pub(super) fn deleted(&mut self, object: &Object<'_>, listing: bool, at: &mut String) {
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

    pub(super) fn unreadable(&mut self, it: &Unreadable) {
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
