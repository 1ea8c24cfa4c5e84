//! Which endpoints serve a Service port at all: connections to them may go on, whatever traffic
//! policy, topology hints or termination say about new ones.

use crate::model::Model;
use crate::model::address::Target;
use crate::model::service::Port;
use crate::model::slice::Flags;

/// The endpoints of a port that are ready or serve, sorted, each once; `serving` is overwritten.
pub(crate) fn list(model: &Model, port: &Port, serving: &mut Vec<Target>) {
    serving.clear();
    let slices = model
        .services
        .at(port.service)
        .map_or(&[][..], |service| &service.slices);
    for slice in slices.iter().filter_map(|id| model.slices.at(*id)) {
        let own = slice
            .ports
            .iter()
            .filter(|other| other.name == port.name && other.protocol == port.protocol);
        for slice_port in own {
            let endpoints = slice.endpoints.iter();
            let serves = endpoints.filter(|endpoint| {
                endpoint.flags.has(Flags::READY) || endpoint.flags.has(Flags::SERVING)
            });
            serving.extend(serves.map(|endpoint| Target {
                address: endpoint.address,
                port: slice_port.port,
            }));
        }
    }
    serving.sort_unstable();
    serving.dedup();
}
