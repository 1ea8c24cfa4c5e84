//! What is watched, with kube-proxy's selectors (cmd/kube-proxy/app/server.go: `Run`,
//! pkg/proxy/node.go: `newNodeManager`).

use super::Refusal;
use crate::api::Kind;

/// Objects of one kind, as the API serves them.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    pub(super) kind: Kind,
    path: &'static str,
    /// `labelSelector`, percent-encoded; may be empty.
    labels: &'static str,
    /// `fieldSelector`, percent-encoded; may be empty.
    fields: String,
    /// Servers without it are fine.
    pub(super) optional: bool,
}

impl Resource {
    /// Services, but headless ones and those of other proxies.
    pub(super) fn services() -> Self {
        Self {
            kind: Kind::Service,
            path: "/api/v1/services",
            labels: "%21service.kubernetes.io%2Fservice-proxy-name",
            fields: "spec.clusterIP%21%3DNone".to_owned(),
            optional: false,
        }
    }

    /// EndpointSlices, but those of headless Services.
    pub(super) fn endpoint_slices() -> Self {
        Self {
            kind: Kind::EndpointSlice,
            path: "/apis/discovery.k8s.io/v1/endpointslices",
            labels: "%21service.kubernetes.io%2Fheadless",
            fields: String::new(),
            optional: false,
        }
    }

    /// ServiceCIDRs, which servers have from 1.33 on.
    pub(super) fn service_cidrs() -> Self {
        Self {
            kind: Kind::ServiceCidr,
            path: "/apis/networking.k8s.io/v1/servicecidrs",
            labels: "",
            fields: String::new(),
            optional: true,
        }
    }

    /// One Node.
    pub(super) fn node(name: &str) -> Self {
        Self {
            kind: Kind::Node,
            path: "/api/v1/nodes",
            labels: "",
            fields: format!("metadata.name%3D{}", encoded(name)),
            optional: false,
        }
    }

    /// Gives up to select by fields if that is what the server refuses; true if it does. What is not
    /// wanted is left out when it is read.
    pub(super) fn drop_fields(&mut self, refusal: &Refusal) -> bool {
        let is_it = self.kind == Kind::Service
            && !self.fields.is_empty()
            && refusal.message.contains("field label not supported");
        if is_it {
            self.fields.clear();
        }
        is_it
    }

    /// Path and query of a list that holds no object: none has this name.
    pub(super) fn nothing(&self, parameters: &[(&str, &str)]) -> String {
        let nobody = Self {
            labels: "",
            fields: "metadata.name%3D-".to_owned(),
            ..self.clone()
        };
        nobody.uri(parameters)
    }

    /// Path and query of a request with more parameters, each `name=value`, percent-encoded.
    pub(super) fn uri(&self, parameters: &[(&str, &str)]) -> String {
        let selectors = [
            ("labelSelector", self.labels),
            ("fieldSelector", self.fields.as_str()),
        ];
        let all = selectors.iter().chain(parameters);
        let query: Vec<_> = all
            .filter(|(_, value)| !value.is_empty())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        format!("{}?{}", self.path, query.join("&"))
    }
}

/// Percent-encodes what is no unreserved character (RFC 3986).
pub(super) fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_those_of_kube_proxy() {
        // As the real kube-proxy 1.37.2 asks, but for the order.
        assert_eq!(
            Resource::services().uri(&[("watch", "true")]),
            "/api/v1/services?labelSelector=%21service.kubernetes.io%2Fservice-proxy-name\
             &fieldSelector=spec.clusterIP%21%3DNone&watch=true"
        );
        assert_eq!(
            Resource::endpoint_slices().uri(&[("limit", "")]),
            "/apis/discovery.k8s.io/v1/endpointslices?labelSelector=%21service.kubernetes.io%2Fheadless"
        );
        assert_eq!(
            Resource::endpoint_slices().nothing(&[("limit", "1")]),
            "/apis/discovery.k8s.io/v1/endpointslices?fieldSelector=metadata.name%3D-&limit=1"
        );
        assert_eq!(
            Resource::node("a b/c").uri(&[]),
            "/api/v1/nodes?fieldSelector=metadata.name%3Da%20b%2Fc"
        );
    }
}
