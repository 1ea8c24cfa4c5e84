//! `v1` Node.

use serde::Deserialize;

use super::{Metadata, Text, nullable};

/// A Node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Node<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: Metadata<'a>,
    /// Wanted state.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: NodeSpec<'a>,
    /// Seen state.
    #[serde(borrow, deserialize_with = "nullable")]
    pub status: NodeStatus<'a>,
}

/// `spec`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeSpec<'a> {
    /// First range of the Node's pods.
    #[serde(borrow, rename = "podCIDR")]
    pub pod_cidr: Option<Text<'a>>,
    /// All ranges of the Node's pods.
    #[serde(borrow, rename = "podCIDRs", deserialize_with = "nullable")]
    pub pod_cidrs: Vec<Text<'a>>,
    /// Taints.
    #[serde(borrow, deserialize_with = "nullable")]
    pub taints: Vec<Taint<'a>>,
}

/// One of `spec.taints`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Taint<'a> {
    /// Key.
    #[serde(borrow)]
    pub key: Option<Text<'a>>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeStatus<'a> {
    /// Addresses.
    #[serde(borrow, deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress<'a>>,
}

/// One of `status.addresses`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct NodeAddress<'a> {
    /// `InternalIP`, `ExternalIP`, `Hostname`, …
    #[serde(borrow, rename = "type")]
    pub kind: Option<Text<'a>>,
    /// Address or name.
    #[serde(borrow)]
    pub address: Option<Text<'a>>,
}
