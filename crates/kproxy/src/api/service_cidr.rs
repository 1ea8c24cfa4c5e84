//! `networking.k8s.io/v1` ServiceCIDR.

use serde::Deserialize;

use super::{Metadata, Text, nullable};

/// A ServiceCIDR.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceCidr<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: Metadata<'a>,
    /// Wanted state.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: ServiceCidrSpec<'a>,
}

/// `spec`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct ServiceCidrSpec<'a> {
    /// Ranges, one per family.
    #[serde(borrow, deserialize_with = "nullable")]
    pub cidrs: Vec<Text<'a>>,
}
