//! `winkernel`: for Windows.

use serde::{Deserialize, Serialize};

use super::field::{Field, Kind};

const WINDOWS: &str = "it is for Windows; kproxy is for Linux";

pub(super) const FIELDS: &[Field] = &[
    Field::accepted("windowsRunAsService", Kind::Bool, "false", WINDOWS),
    Field::accepted("winkernel.enableDSR", Kind::Bool, "false", WINDOWS),
    Field::accepted(
        "winkernel.forwardHealthCheckVip",
        Kind::Bool,
        "false",
        WINDOWS,
    ),
    Field::accepted("winkernel.networkName", Kind::Text, "", WINDOWS),
    Field::accepted("winkernel.rootHnsEndpointName", Kind::Text, "", WINDOWS),
    Field::accepted("winkernel.sourceVip", Kind::Text, "", WINDOWS),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Winkernel {
    /// Direct server return.
    #[serde(rename = "enableDSR")]
    pub enable_dsr: bool,
    /// Health checks of load balancers reach pods.
    pub forward_health_check_vip: bool,
    /// Name of the HNS network.
    pub network_name: String,
    /// Name of its endpoint.
    pub root_hns_endpoint_name: String,
    /// Source address of overlay traffic.
    pub source_vip: String,
}
