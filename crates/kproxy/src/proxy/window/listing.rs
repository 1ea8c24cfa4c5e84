//! A page of the list of Services, picked while all of them are looked at in no particular order.

use core::fmt::Write as _;
use core::net::IpAddr;
use std::collections::BTreeMap;
use std::time::SystemTime;

use svc_planner::ServiceSummary;
use svc_planner::object::TrafficPolicy;
use svc_planner::plan::Family;

/// Which Services are wanted, and which page of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// A part of namespace and name with a slash between, or an address that they are reached at.
    pub search: Box<str>,
    /// Of what kind.
    pub only: Only,
    /// Where the page begins.
    pub from: Place,
    /// Rows of a page.
    pub rows: usize,
}

/// Some kinds of Services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Only {
    /// All of them.
    #[default]
    All,
    /// None of its endpoints is ready.
    WithoutEndpoints,
    /// Some of its endpoints are not ready.
    NotAllReady,
    /// Of traffic policy Local.
    Local,
    /// With session affinity.
    Affinity,
}

/// A place in the order of Services: by namespace and name, then by family.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Place {
    /// Its beginning.
    #[default]
    Start,
    /// Behind this one, whether it is there or not.
    After(Box<str>, Family),
    /// As many as there is room for in front of this one.
    Before(Box<str>, Family),
}

/// A page of Services as they were within a short time, one row for each family.
#[derive(Debug)]
pub struct Listing {
    /// When the last Service was looked at.
    pub time: SystemTime,
    /// Rows, in order.
    pub rows: Vec<ServiceRow>,
    /// Rows that are wanted and come before these.
    pub before: usize,
    /// Rows that are wanted, these included.
    pub found: usize,
    /// All that there are.
    pub all: usize,
}

/// A Service of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRow {
    /// Namespace and name, with a slash between.
    pub name: Box<str>,
    /// Family.
    pub family: Family,
    /// First ClusterIP.
    pub cluster_ip: IpAddr,
    /// Addresses besides ClusterIPs.
    pub other_addresses: usize,
    /// Ports.
    pub ports: usize,
    /// Those with a node port.
    pub node_ports: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Those that are ready.
    pub ready: usize,
    /// Those on this node.
    pub local: usize,
    /// Internal traffic policy.
    pub internal: TrafficPolicy,
    /// External traffic policy.
    pub external: TrafficPolicy,
    /// ClientIP affinity timeout in seconds.
    pub affinity: Option<u32>,
}

impl Only {
    fn admits(self, service: &ServiceSummary<'_>) -> bool {
        match self {
            Self::All => true,
            Self::WithoutEndpoints => service.ready == 0,
            Self::NotAllReady => service.ready < service.endpoints,
            Self::Local => [service.internal, service.external].contains(&TrafficPolicy::Local),
            Self::Affinity => service.affinity.is_some(),
        }
    }
}

/// Picks what is wanted from what it sees; keeps no more than a page of it.
#[derive(Debug)]
pub(super) struct Collector {
    wanted: Wanted,
    /// What is searched for, if it is an address.
    address: Option<IpAddr>,
    page: BTreeMap<(Box<str>, Family), ServiceRow>,
    /// Rows on the other side of where the page begins.
    outside: usize,
    found: usize,
    all: usize,
    /// Name of the Service seen.
    name: String,
}

impl Collector {
    pub(super) fn new(wanted: Wanted) -> Self {
        let search = wanted.search.trim().to_lowercase().into_boxed_str();
        Self {
            address: search.parse().ok(),
            wanted: Wanted { search, ..wanted },
            page: BTreeMap::new(),
            outside: 0,
            found: 0,
            all: 0,
            name: String::new(),
        }
    }

    pub(super) fn see(&mut self, family: Family, service: &ServiceSummary<'_>) {
        self.all += 1;
        self.name.clear();
        // Writing to a string does not fail.
        let _ = write!(self.name, "{}/{}", service.namespace, service.name);
        let has_address = |address| service.has_address(address);
        if !self.wanted.only.admits(service)
            || !(self.name.contains(&*self.wanted.search) || self.address.is_some_and(has_address))
        {
            return;
        }
        self.found += 1;
        let key = (&*self.name, family);
        let (is_within, backwards) = match &self.wanted.from {
            Place::Start => (true, false),
            Place::After(name, family) => (key > (&**name, *family), false),
            Place::Before(name, family) => (key < (&**name, *family), true),
        };
        if !is_within {
            self.outside += 1;
            return;
        }
        if self.page.len() >= self.wanted.rows {
            // The one that is farthest from where the page begins has to go.
            let edge = if backwards {
                self.page.first_entry()
            } else {
                self.page.last_entry()
            };
            match edge {
                Some(edge) if backwards == (key > (&*edge.key().0, edge.key().1)) => edge.remove(),
                _ => return,
            };
        }
        let row = row(&self.name, family, service);
        self.page.insert((row.name.clone(), family), row);
    }

    pub(super) fn finish(self) -> Listing {
        let rows: Vec<_> = self.page.into_values().collect();
        let before = match self.wanted.from {
            Place::Start => 0,
            Place::After(..) => self.outside,
            Place::Before(..) => self.found - self.outside - rows.len(),
        };
        Listing {
            time: SystemTime::now(),
            rows,
            before,
            found: self.found,
            all: self.all,
        }
    }
}

fn row(name: &str, family: Family, service: &ServiceSummary<'_>) -> ServiceRow {
    ServiceRow {
        name: name.into(),
        family,
        cluster_ip: service.cluster_ip,
        other_addresses: service.other_addresses,
        ports: service.ports,
        node_ports: service.node_ports,
        endpoints: service.endpoints,
        ready: service.ready,
        local: service.local,
        internal: service.internal,
        external: service.external,
        affinity: service.affinity,
    }
}
