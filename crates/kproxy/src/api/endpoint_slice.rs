//! `discovery.k8s.io/v1` EndpointSlice.

use serde::Deserialize;

use super::{Metadata, Text, nullable};

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: Metadata<'a>,
    /// `IPv4`, `IPv6` or `FQDN`.
    #[serde(borrow)]
    pub address_type: Option<Text<'a>>,
    /// Endpoints.
    #[serde(borrow, deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint<'a>>,
    /// Ports; each endpoint serves each.
    #[serde(borrow, deserialize_with = "nullable")]
    pub ports: Vec<EndpointPort<'a>>,
}

/// One of `endpoints`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint<'a> {
    /// Addresses, interchangeable by the API's definition.
    #[serde(borrow, deserialize_with = "nullable")]
    pub addresses: Vec<Text<'a>>,
    /// State.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Conditions,
    /// Node it runs on.
    #[serde(borrow)]
    pub node_name: Option<Text<'a>>,
    /// Who should use it.
    #[serde(borrow, deserialize_with = "nullable")]
    pub hints: Hints<'a>,
}

/// `conditions` of an endpoint.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Absent means true.
    pub ready: Option<bool>,
    /// Absent means true.
    pub serving: Option<bool>,
    /// Absent means false.
    pub terminating: Option<bool>,
}

/// `hints` of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints<'a> {
    /// Zones.
    #[serde(borrow, deserialize_with = "nullable")]
    pub for_zones: Vec<TopologyHint<'a>>,
    /// Nodes.
    #[serde(borrow, deserialize_with = "nullable")]
    pub for_nodes: Vec<TopologyHint<'a>>,
}

/// A zone or node of a hint.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct TopologyHint<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
}

/// One of `ports`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct EndpointPort<'a> {
    /// Name; absent means "".
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// `TCP` (also when absent), `UDP` or `SCTP`.
    #[serde(borrow)]
    pub protocol: Option<Text<'a>>,
    /// Number; absent means "all ports", which a proxy cannot use.
    pub port: Option<i64>,
}
