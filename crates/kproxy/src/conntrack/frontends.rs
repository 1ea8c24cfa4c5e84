//! What serves what, as was last told.

use core::net::{IpAddr, SocketAddr};

use foldhash::{HashMap, HashSet};
use svc_planner::flows::{FlowChanges, Frontend, Served};
use svc_planner::object::Protocol;

use super::news::News;
use super::scope::Scope;

/// The frontends of one family.
#[derive(Debug, Default)]
pub struct Frontends {
    serving: HashMap<Frontend, Served>,
    /// Addresses of this host that serve node ports.
    node_ports: HashSet<IpAddr>,
    recent: Recent,
    /// Passes begun.
    passes: u64,
}

/// What is remembered only until it was looked for. With each the number of passes begun before it
/// was told.
#[derive(Debug, Default)]
struct Recent {
    /// Protocols and ports of all that is recent.
    ports: HashMap<(Protocol, u16), u64>,
    /// Frontends that are none any more, with all who may still have their connections.
    gone: HashMap<Frontend, (HashSet<SocketAddr>, u64)>,
    /// TCP frontends that are new.
    appeared: HashMap<Frontend, u64>,
    /// Addresses that do not serve node ports any more.
    node_ports: HashMap<IpAddr, u64>,
}

/// Who may still have connections to a frontend that is gone.
#[derive(Debug)]
pub(super) struct Former<'a> {
    pub(super) endpoints: Endpoints<'a>,
    pub(super) is_node_port: bool,
}

/// Endpoints of a frontend that is gone.
#[derive(Debug)]
pub(super) enum Endpoints<'a> {
    Gone(&'a HashSet<SocketAddr>),
    /// It is there, but not at this address any more.
    Serving(&'a [SocketAddr]),
}

impl Endpoints<'_> {
    pub(super) fn contains(&self, endpoint: &SocketAddr) -> bool {
        match self {
            Self::Gone(endpoints) => endpoints.contains(endpoint),
            Self::Serving(endpoints) => endpoints.binary_search(endpoint).is_ok(),
        }
    }
}

impl Frontends {
    /// Takes in what is told; for tests and tools.
    pub fn add(&mut self, changes: FlowChanges) {
        let mut news = News::default();
        news.add(changes);
        self.take(news);
    }

    /// Takes in what is new.
    pub(super) fn take(&mut self, news: News) {
        let (recent, since) = (&mut self.recent, self.passes);
        if let Some(addresses) = news.node_ports {
            let now: HashSet<_> = addresses.into_iter().collect();
            let lost = self.node_ports.difference(&now);
            recent
                .node_ports
                .extend(lost.map(|address| (*address, since)));
            recent
                .node_ports
                .retain(|address, _| !now.contains(address));
            self.node_ports = now;
            for key in self.serving.keys().filter(|key| key.address.is_none()) {
                recent.ports.insert((key.protocol, key.port), since);
            }
        }
        for (frontend, note) in news.frontends {
            recent
                .ports
                .insert((frontend.protocol, frontend.port), since);
            if let Some(serving) = note.serving {
                self.serving.insert(frontend, serving);
                recent.gone.remove(&frontend);
                continue;
            }
            let before = self.serving.remove(&frontend);
            let (former, told) = recent.gone.entry(frontend).or_default();
            former.extend(before.iter().flat_map(|served| served.by.iter()));
            former.extend(note.former);
            *told = since;
        }
        for frontend in news.appeared {
            recent
                .ports
                .insert((frontend.protocol, frontend.port), since);
            recent.appeared.insert(frontend, since);
        }
    }

    /// A pass begins; its number.
    pub(super) fn begin_pass(&mut self) -> u64 {
        self.passes += 1;
        self.passes
    }

    /// Whether something was told since the last pass began.
    pub(super) fn has_news(&self) -> bool {
        self.recent.ports.values().any(|told| *told == self.passes)
    }

    /// Whether there is something to look for.
    pub(super) fn has_recent(&self) -> bool {
        !self.recent.ports.is_empty()
    }

    /// Forgets what was told before this pass began.
    pub(super) fn forget_before(&mut self, pass: u64) {
        let recent = &mut self.recent;
        recent.ports.retain(|_, told| *told >= pass);
        recent.gone.retain(|_, (_, told)| *told >= pass);
        recent.appeared.retain(|_, told| *told >= pass);
        recent.node_ports.retain(|_, told| *told >= pass);
    }

    /// What to look for: entries that something recent may concern.
    pub(super) fn recent_scope(&self) -> Scope {
        Scope::of(self.recent.ports.keys().copied())
    }

    /// All entries that may ever be concerned.
    pub(super) fn full_scope(&self) -> Scope {
        let all = self.serving.keys();
        Scope::of(all.map(|key| (key.protocol, key.port))).with(self.recent_scope())
    }

    /// Who serves a destination, sorted, if it is a frontend.
    pub(super) fn serving(&self, protocol: Protocol, to: SocketAddr) -> Option<&[SocketAddr]> {
        let serving = self.serving.get(&at_address(protocol, to)).or_else(|| {
            let served = self.node_ports.contains(&to.ip());
            served.then(|| self.serving.get(&node_port(protocol, to)))?
        });
        serving.map(|served| &*served.by)
    }

    /// Who served a destination that was a frontend until lately.
    pub(super) fn former(&self, protocol: Protocol, to: SocketAddr) -> Option<Former<'_>> {
        if let Some((endpoints, _)) = self.recent.gone.get(&at_address(protocol, to)) {
            return Some(Former {
                endpoints: Endpoints::Gone(endpoints),
                is_node_port: false,
            });
        }
        let left = self.recent.node_ports.contains_key(&to.ip());
        if !left && !self.node_ports.contains(&to.ip()) {
            return None;
        }
        let key = node_port(protocol, to);
        let gone = self.recent.gone.get(&key);
        let gone = gone.map(|(endpoints, _)| Endpoints::Gone(endpoints));
        let moved = || Some(Endpoints::Serving(&self.serving.get(&key)?.by));
        Some(Former {
            endpoints: gone.or_else(moved)?,
            is_node_port: true,
        })
    }

    /// Whether a destination is a frontend, or was one until lately.
    pub(super) fn is_or_was(&self, protocol: Protocol, to: SocketAddr) -> bool {
        self.serving(protocol, to).is_some() || self.former(protocol, to).is_some()
    }

    /// Whether this is a ClusterIP with a port that is served.
    pub(super) fn is_cluster_ip(&self, protocol: Protocol, address: SocketAddr) -> bool {
        let served = self.serving.get(&at_address(protocol, address));
        served.is_some_and(|served| served.at_cluster_ip)
    }

    /// Whether a TCP destination is a frontend since lately.
    pub(super) fn is_new(&self, to: SocketAddr) -> bool {
        let appeared = &self.recent.appeared;
        appeared.contains_key(&at_address(Protocol::Tcp, to))
            || (self.node_ports.contains(&to.ip())
                && appeared.contains_key(&node_port(Protocol::Tcp, to)))
    }
}

fn at_address(protocol: Protocol, to: SocketAddr) -> Frontend {
    Frontend {
        address: Some(to.ip()),
        protocol,
        port: to.port(),
    }
}

fn node_port(protocol: Protocol, to: SocketAddr) -> Frontend {
    Frontend {
        address: None,
        protocol,
        port: to.port(),
    }
}
