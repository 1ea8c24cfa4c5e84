//! Object metadata.

use serde::Deserialize;

use super::{Text, nullable};

/// `metadata`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// Namespace; absent means `default` in manifests and "none" for cluster-wide objects.
    #[serde(borrow)]
    pub namespace: Option<Text<'a>>,
    /// When the API server accepted the object, RFC 3339.
    #[serde(borrow)]
    pub creation_timestamp: Option<Text<'a>>,
    /// Since when it is being deleted, RFC 3339.
    #[serde(borrow)]
    pub deletion_timestamp: Option<Text<'a>>,
    /// Labels.
    #[serde(borrow, deserialize_with = "nullable")]
    pub labels: Labels<'a>,
    /// Annotations.
    #[serde(borrow, deserialize_with = "nullable")]
    pub annotations: Annotations<'a>,
    /// Tells an object from a later one of the same name.
    #[serde(borrow)]
    pub uid: Option<Text<'a>>,
    /// Changes with each change of the object.
    #[serde(borrow)]
    pub resource_version: Option<Text<'a>>,
}

/// The annotations this proxy looks at.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Annotations<'a> {
    /// On an EndpointSlice: when what it says came about, RFC 3339 with fractions.
    #[serde(borrow, rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub last_change_trigger_time: Option<Text<'a>>,
    /// On a bookmark: `true` behind the objects that a streaming list begins with.
    #[serde(borrow, rename = "k8s.io/initial-events-end")]
    pub initial_events_end: Option<Text<'a>>,
}

/// The labels this proxy looks at.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Labels<'a> {
    /// On an EndpointSlice: the Service it belongs to.
    #[serde(borrow, rename = "kubernetes.io/service-name")]
    pub service_name: Option<Text<'a>>,
    /// On a Service: another proxy handles it, whatever the value.
    #[serde(borrow, rename = "service.kubernetes.io/service-proxy-name")]
    pub service_proxy_name: Option<Text<'a>>,
    /// On an EndpointSlice: its Service is headless, whatever the value.
    #[serde(borrow, rename = "service.kubernetes.io/headless")]
    pub headless: Option<Text<'a>>,
    /// On a Node: its zone.
    #[serde(borrow, rename = "topology.kubernetes.io/zone")]
    pub zone: Option<Text<'a>>,
}
