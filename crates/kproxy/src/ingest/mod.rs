//! From the API's shapes ([`crate::api`]) to the planner's objects: defaults filled in, addresses
//! in canonical form, what cannot be used left out and reported. One bad field never costs more
//! than itself.

mod address;
mod endpoint_slice;
mod node;
mod problem;
mod service;
mod service_cidr;
mod time;

pub use address::{ParseAddressError, ParsedAddress, parse_address, parse_prefix};
pub use endpoint_slice::endpoint_slice;
pub use node::node;
pub use problem::{ObjectId, Problem, Reason, Report, Severity};
pub use service::service;
pub use service_cidr::service_cidr;
pub use time::{parse_rfc3339, parse_rfc3339_nanos};

use svc_planner::object::{Change, ObjectName, Protocol};

use crate::api::{Kind, Text};

/// The change that an object's disappearance is.
#[must_use]
pub fn gone(object: &ObjectId) -> Change {
    match object.kind {
        Kind::Service => Change::ServiceGone(object_name(object)),
        Kind::EndpointSlice => Change::EndpointSliceGone(object_name(object)),
        Kind::Node => Change::NodeGone,
        Kind::ServiceCidr => Change::ServiceCidrGone(object.name.clone()),
    }
}

/// `protocol` of a Service's or a slice's port; absent means TCP.
fn protocol(text: Option<&Text<'_>>) -> Result<Protocol, Reason> {
    match text.map_or("TCP", |text| text) {
        "TCP" => Ok(Protocol::Tcp),
        "UDP" => Ok(Protocol::Udp),
        "SCTP" => Ok(Protocol::Sctp),
        other => Err(Reason::unknown_value(other)),
    }
}

/// A port number; 0 and what does not fit 16 bits are errors.
fn port(number: i64) -> Result<u16, Reason> {
    match u16::try_from(number) {
        Ok(0) | Err(_) => Err(Reason::PortOutOfRange(number)),
        Ok(port) => Ok(port),
    }
}

fn object_name(id: &ObjectId) -> ObjectName {
    ObjectName {
        namespace: id.namespace.clone(),
        name: id.name.clone(),
    }
}
