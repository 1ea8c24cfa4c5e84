//! Whose a row is.

use super::Planner;
use crate::model::address::{Address, LocalTarget, Target};
use crate::model::frontend::FrontendKey;
use crate::plan::{Key, Route};
use crate::report::PortName;

impl Planner {
    /// The Service port for which a row exists, if it is for one alone.
    #[must_use]
    pub fn owner(&self, key: &Key) -> Option<PortName> {
        let family = self.model.family;
        let frontend = |address, protocol, port| {
            let id = self.model.frontends.find(&FrontendKey {
                address,
                protocol,
                port,
            })?;
            Some(self.model.frontends.arena.at(id)?.owner.port)
        };
        let port = match *key {
            Key::Frontend {
                address,
                protocol,
                port,
            } => frontend(Some(Address::new(family, address)?), protocol, port),
            Key::NodePort { protocol, port } => frontend(None, protocol, port),
            Key::Slot { group, .. } | Key::Group(group) => {
                let number = group & Route::GROUP_MASK;
                Some(self.kernel.groups.at(number)?.facts.owner)
            }
            Key::EndpointId(id) => {
                let mut groups = self.kernel.groups.iter().map(|(_, group)| group);
                let group = groups.find(|group| {
                    let sticky = group.sticky.as_ref();
                    sticky.is_some_and(|it| it.all().any(|member| member.id == id))
                });
                Some(group?.facts.owner)
            }
            _ => None,
        };
        self.model.port_name(port?)
    }

    /// The Service ports for which a row exists; none for rows that are not about Services. Looks at
    /// all Services for the rows they share.
    #[must_use]
    pub fn owners(&self, key: &Key) -> Vec<PortName> {
        let family = self.model.family;
        let names = |ports: &mut dyn Iterator<Item = u32>| {
            ports.filter_map(|id| self.model.port_name(id)).collect()
        };
        match *key {
            Key::Address(address) => {
                let Some(address) = Address::new(family, address) else {
                    return Vec::new();
                };
                let services = self.model.services.iter().filter(|(_, service)| {
                    let spec = service.spec.as_ref();
                    spec.is_some_and(|spec| spec.cluster_ips().any(|ip| ip == address))
                });
                names(&mut services.flat_map(|(_, service)| service.ports.iter().copied()))
            }
            Key::Hairpin {
                address,
                protocol,
                port,
            } => {
                let Some(address) = Address::new(family, address) else {
                    return Vec::new();
                };
                let target = Target { address, port };
                let local = LocalTarget { target, protocol };
                let ports = self.model.ports.iter();
                let mut ports = ports.filter(|(_, port)| port.hairpins.contains(&local));
                names(&mut ports.by_ref().map(|(id, _)| id))
            }
            _ => self.owner(key).into_iter().collect(),
        }
    }
}
