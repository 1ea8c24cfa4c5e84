//! `v1` Service.

use serde::Deserialize;

use super::{Metadata, Text, nullable};

/// A Service.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Service<'a> {
    /// Metadata.
    #[serde(borrow, deserialize_with = "nullable")]
    pub metadata: Metadata<'a>,
    /// Wanted state.
    #[serde(borrow, deserialize_with = "nullable")]
    pub spec: ServiceSpec<'a>,
    /// Seen state.
    #[serde(borrow, deserialize_with = "nullable")]
    pub status: ServiceStatus<'a>,
}

/// `spec`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec<'a> {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(borrow, rename = "type")]
    pub kind: Option<Text<'a>>,
    /// First ClusterIP, `None` for headless.
    #[serde(borrow, rename = "clusterIP")]
    pub cluster_ip: Option<Text<'a>>,
    /// All ClusterIPs.
    #[serde(borrow, rename = "clusterIPs", deserialize_with = "nullable")]
    pub cluster_ips: Vec<Text<'a>>,
    /// External IPs.
    #[serde(borrow, rename = "externalIPs", deserialize_with = "nullable")]
    pub external_ips: Vec<Text<'a>>,
    /// Who may use the load balancer's addresses.
    #[serde(borrow, deserialize_with = "nullable")]
    pub load_balancer_source_ranges: Vec<Text<'a>>,
    /// `Cluster` or `Local`.
    #[serde(borrow)]
    pub internal_traffic_policy: Option<Text<'a>>,
    /// `Cluster` or `Local`.
    #[serde(borrow)]
    pub external_traffic_policy: Option<Text<'a>>,
    /// `None` or `ClientIP`.
    #[serde(borrow)]
    pub session_affinity: Option<Text<'a>>,
    /// Details of the affinity.
    #[serde(deserialize_with = "nullable")]
    pub session_affinity_config: SessionAffinityConfig,
    /// Where the load balancer asks for health.
    pub health_check_node_port: Option<i64>,
    /// Ports.
    #[serde(borrow, deserialize_with = "nullable")]
    pub ports: Vec<ServicePort<'a>>,
}

/// `spec.sessionAffinityConfig`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct SessionAffinityConfig {
    /// For `ClientIP`.
    #[serde(rename = "clientIP", deserialize_with = "nullable")]
    pub client_ip: ClientIpConfig,
}

/// `spec.sessionAffinityConfig.clientIP`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIpConfig {
    /// How long a client sticks, in seconds.
    pub timeout_seconds: Option<i64>,
}

/// One of `spec.ports`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort<'a> {
    /// Name.
    #[serde(borrow)]
    pub name: Option<Text<'a>>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(borrow)]
    pub protocol: Option<Text<'a>>,
    /// Port of the Service's addresses.
    pub port: Option<i64>,
    /// Node port.
    pub node_port: Option<i64>,
}

/// `status`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus<'a> {
    /// What the load balancer reported.
    #[serde(borrow, deserialize_with = "nullable")]
    pub load_balancer: LoadBalancerStatus<'a>,
}

/// `status.loadBalancer`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus<'a> {
    /// Its addresses.
    #[serde(borrow, deserialize_with = "nullable")]
    pub ingress: Vec<Ingress<'a>>,
}

/// One of `status.loadBalancer.ingress`; one with a host name only has no `ip`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress<'a> {
    /// Address.
    #[serde(borrow)]
    pub ip: Option<Text<'a>>,
    /// `VIP` (also when absent): packets arrive with this destination; `Proxy`: they do not.
    #[serde(borrow)]
    pub ip_mode: Option<Text<'a>>,
}
