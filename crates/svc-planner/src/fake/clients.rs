//! Rows of dynamic maps: which endpoint a client sticks to, and until when. Rules change them, not
//! transactions alone, so they are of no generation.

use core::time::Duration;
use std::collections::BTreeMap;

use crate::plan::{EndpointId, Key, Name};

/// A row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Client {
    pub(super) endpoint: EndpointId,
    pub(super) until: Duration,
}

/// The rows of one map.
#[derive(Debug, Default)]
pub(super) struct Clients(BTreeMap<Key, Client>);

/// What a packet finds in dynamic maps.
#[derive(Debug, Clone, Copy)]
pub(super) enum Memory<'a> {
    /// What is there at this time.
    Rows(Duration),
    /// One row under any key, or none, whatever is there.
    Assumed(Option<&'a (Name, EndpointId)>),
}

/// What a rule did to a dynamic map.
#[derive(Debug)]
pub(super) struct Effect {
    pub(super) map: Name,
    pub(super) key: Key,
    /// The endpoint and the lifetime in seconds; `None` deletes.
    pub(super) stick: Option<(EndpointId, u32)>,
}

impl Clients {
    pub(super) fn at(&self, key: &Key, now: Duration) -> Option<Client> {
        self.0.get(key).copied().filter(|client| client.until > now)
    }

    pub(super) fn iter(&self, now: Duration) -> impl Iterator<Item = (Key, Client)> {
        let rows = self.0.iter().map(|(key, client)| (*key, *client));
        rows.filter(move |(_, client)| client.until > now)
    }

    pub(super) fn len(&self, now: Duration) -> usize {
        self.iter(now).count()
    }

    /// Replaces a row or takes it away; gives what was there.
    pub(super) fn put(&mut self, key: Key, client: Option<Client>) -> Option<Client> {
        match client {
            Some(client) => self.0.insert(key, client),
            None => self.0.remove(&key),
        }
    }

    /// An existing row keeps its endpoint (`nft_rhash_update`).
    pub(super) fn apply(&mut self, effect: &Effect, now: Duration) {
        let client = effect.stick.map(|(endpoint, seconds)| Client {
            endpoint: self
                .at(&effect.key, now)
                .map_or(endpoint, |old| old.endpoint),
            until: now.saturating_add(Duration::from_secs(seconds.into())),
        });
        self.put(effect.key, client);
    }
}
