//! The sets and maps of a table: a constant number.

use crate::model::Model;
use crate::model::service::Role;
use crate::plan::{DataType, KeyType, Name, Set};

/// One set, whatever generation of it the kernel holds. In the order they are created: hot first.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
pub(crate) enum SetId {
    /// Frontend → class and group.
    Services,
    /// Node port → class and group.
    NodePorts,
    /// Class → chain.
    Dispatch,
    /// Group and slot → endpoint.
    Endpoints,
    /// Group of this node's endpoints → class and group of the cluster's.
    Shortcuts,
    /// Class → chain, for what `Shortcuts` leads to: a map of its own, or the kernel would see a
    /// loop.
    ShortcutDispatch,
    /// Client of a frontend → endpoint it sticks to. Rules add rows, and they expire.
    ClientAffinity,
    /// Endpoint that clients stick to → address and port.
    StickyEndpoints,
    /// Group and slot → endpoint that clients stick to.
    StickySlots,
    /// The same as `StickyEndpoints`, for the connection that chooses; rows stay for a while.
    ChosenEndpoints,
    /// Frontends without endpoints.
    RejectServices,
    /// Node ports without endpoints.
    RejectNodePorts,
    /// All ClusterIPs.
    ClusterIps,
    /// Addresses on which node ports are served.
    NodePortIps,
    /// Prefixes from which ClusterIPs are taken.
    ServiceCidrs,
    /// Endpoints of this node, as both ends.
    Hairpins,
    /// Frontends that only some sources may reach → their list.
    Firewall,
    /// List and source.
    SourceRanges,
    /// Classes of frontends without an endpoint on this node that need one.
    DropClasses,
    /// One row that names the state the table is in.
    State,
}

/// Number of sets.
pub(crate) const SETS: usize = 20;

impl SetId {
    pub(crate) const ALL: [Self; SETS] = [
        Self::Services,
        Self::NodePorts,
        Self::Dispatch,
        Self::Endpoints,
        Self::Shortcuts,
        Self::ShortcutDispatch,
        Self::ClientAffinity,
        Self::StickyEndpoints,
        Self::StickySlots,
        Self::ChosenEndpoints,
        Self::RejectServices,
        Self::RejectNodePorts,
        Self::ClusterIps,
        Self::NodePortIps,
        Self::ServiceCidrs,
        Self::Hairpins,
        Self::Firewall,
        Self::SourceRanges,
        Self::DropClasses,
        Self::State,
    ];

    /// Those with a row for each endpoint that clients stick to.
    pub(crate) const STICKY: [Self; 3] = [
        Self::StickyEndpoints,
        Self::StickySlots,
        Self::ChosenEndpoints,
    ];

    /// Name of its first generation. kube-proxy takes a set of its own name for its own and must be
    /// able to: such a set has the same type, and no size, or kube-proxy could not fill it.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Services => "services",
            Self::NodePorts => "nodeports",
            Self::Dispatch => "dispatch",
            Self::Endpoints => "endpoints",
            Self::Shortcuts => "shortcuts",
            Self::ShortcutDispatch => "shortcut-dispatch",
            Self::ClientAffinity => "client-affinity",
            Self::StickyEndpoints => "sticky-endpoints",
            Self::StickySlots => "sticky-slots",
            Self::ChosenEndpoints => "chosen-endpoints",
            Self::RejectServices => "reject-services",
            Self::RejectNodePorts => "reject-nodeports",
            Self::ClusterIps => "cluster-addresses",
            Self::NodePortIps => "nodeport-ips",
            Self::ServiceCidrs => "service-cidrs",
            Self::Hairpins => "hairpin-connections",
            Self::Firewall => "firewall",
            Self::SourceRanges => "source-ranges",
            Self::DropClasses => "drop-classes",
            Self::State => "state",
        }
    }

    pub(crate) const fn key(self) -> KeyType {
        match self {
            Self::Services | Self::RejectServices | Self::Firewall => KeyType::Frontend,
            Self::NodePorts | Self::RejectNodePorts => KeyType::NodePort,
            Self::Dispatch | Self::ShortcutDispatch | Self::DropClasses => KeyType::Class,
            Self::Endpoints | Self::StickySlots => KeyType::Slot,
            Self::ClientAffinity => KeyType::Client,
            Self::StickyEndpoints | Self::ChosenEndpoints => KeyType::EndpointId,
            Self::Shortcuts => KeyType::Group,
            Self::ClusterIps | Self::NodePortIps | Self::ServiceCidrs => KeyType::Address,
            Self::Hairpins => KeyType::Hairpin,
            Self::SourceRanges => KeyType::Source,
            Self::State => KeyType::State,
        }
    }

    pub(crate) const fn data(self) -> DataType {
        match self {
            Self::Services | Self::NodePorts | Self::Shortcuts => DataType::Route,
            Self::Dispatch | Self::ShortcutDispatch => DataType::Verdict,
            Self::Endpoints | Self::StickyEndpoints | Self::ChosenEndpoints => DataType::Endpoint,
            Self::StickySlots | Self::ClientAffinity => DataType::EndpointId,
            Self::Firewall => DataType::List,
            _ => DataType::None,
        }
    }

    /// Do rules add its rows?
    pub(crate) const fn is_dynamic(self) -> bool {
        matches!(self, Self::ClientAffinity)
    }

    /// Are its rows prefixes?
    pub(crate) const fn is_interval(self) -> bool {
        matches!(self, Self::ServiceCidrs | Self::SourceRanges)
    }

    /// Is it created with a size, and replaced by a bigger one when full? Others are small.
    pub(crate) const fn is_sized(self) -> bool {
        matches!(
            self,
            Self::Services
                | Self::NodePorts
                | Self::Endpoints
                | Self::StickyEndpoints
                | Self::StickySlots
                | Self::ChosenEndpoints
                | Self::RejectServices
                | Self::RejectNodePorts
                | Self::ClusterIps
                | Self::Firewall
        )
    }
}

/// What the kernel holds of a set.
#[derive(Debug, Clone)]
pub(crate) struct SetState {
    pub(crate) name: Name,
    /// Number of the generation; its name ends in it unless it is 0.
    pub(crate) generation: u32,
    /// Room for this many rows.
    pub(crate) size: Option<u32>,
    /// Rows in it.
    pub(crate) rows: u32,
}

impl SetState {
    pub(crate) fn new(id: SetId, generation: u32, size: Option<u32>) -> Self {
        let name = match generation {
            0 => id.name().into(),
            generation => format!("{}-{generation}", id.name()).into(),
        };
        Self {
            name,
            generation,
            size,
            rows: 0,
        }
    }

    /// The declaration.
    pub(crate) fn declare(&self, id: SetId) -> Set {
        Set {
            name: self.name.clone(),
            key: id.key(),
            data: id.data(),
            interval: id.is_interval(),
            dynamic: id.is_dynamic(),
            size: self.size,
        }
    }

    /// Rows that still fit.
    pub(crate) fn room(&self) -> u32 {
        self.size
            .map_or(u32::MAX, |size| size.saturating_sub(self.rows))
    }
}

/// Sizes are 3 · 2^k: the kernel allocates 2^(k+2) buckets for that many rows, without rounding up.
const SIZE_UNIT: u32 = 3;

/// Smallest size.
const MIN_SIZE: u32 = SIZE_UNIT << 9;

/// A size for so many rows, with half as much again of headroom, at most `max`.
pub(crate) fn size_for(rows: u32, max: u32) -> u32 {
    let wanted = rows.saturating_add(rows / 2);
    let mut size = MIN_SIZE;
    while size < wanted {
        size = size.saturating_mul(2);
    }
    size.min(max)
}

/// About how many rows the sets will have once everything known is planned.
pub(crate) fn expected_rows(model: &Model) -> [u32; SETS] {
    let mut rows = [0_usize; SETS];
    let is_restricted = |port: u32| {
        let service = model.ports.at(port).map(|port| port.service);
        let service = service.and_then(|service| model.services.at(service));
        let spec = service.and_then(|service| service.spec.as_ref());
        spec.is_some_and(|spec| spec.is_restricted())
    };
    for (_, frontend) in model.frontends.arena.iter() {
        if frontend.owner.role == Role::LoadBalancer && is_restricted(frontend.owner.port) {
            rows[SetId::Firewall as usize] += 1;
        }
        rows[match frontend.key.address {
            Some(_) => SetId::Services,
            None => SetId::NodePorts,
        } as usize] += 1;
    }
    rows[SetId::ClusterIps as usize] = model.cluster_ips.arena.len();
    for (_, slice) in model.slices.iter() {
        let service = model.services.at(slice.service);
        let Some(spec) = service.and_then(|service| service.spec.as_ref()) else {
            continue;
        };
        let sets: &[SetId] = match spec.affinity {
            None => &[SetId::Endpoints],
            Some(_) => &SetId::STICKY,
        };
        for set in sets {
            rows[*set as usize] += slice.ports.len() * slice.endpoints.len();
        }
    }
    rows.map(|rows| u32::try_from(rows).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_set_is_listed_once_in_order() {
        assert!(SetId::ALL.is_sorted());
        for (position, id) in SetId::ALL.into_iter().enumerate() {
            assert_eq!(id as usize, position);
        }
    }

    #[test]
    fn sizes_leave_headroom_and_fill_the_buckets() {
        assert_eq!(size_for(0, u32::MAX), 1536);
        assert_eq!(size_for(45_000, u32::MAX), 98_304);
        assert_eq!(size_for(45_000, 50_000), 50_000);
        assert_eq!(size_for(u32::MAX, u32::MAX), u32::MAX);
    }

    #[test]
    fn generations_have_names_of_their_own() {
        assert_eq!(&*SetState::new(SetId::Services, 0, None).name, "services");
        assert_eq!(&*SetState::new(SetId::Services, 2, None).name, "services-2");
    }
}
