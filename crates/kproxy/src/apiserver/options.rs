//! How to reach the API server: kube-proxy's `clientConnection` and `--master`.

use std::path::PathBuf;

use serde_json::Value;

/// The API's own encoding, asked for by default as kube-proxy does.
pub const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
/// What every API server speaks.
pub const JSON: &str = "application/json";

/// `clientConnection` of KubeProxyConfiguration, and `--master`.
#[derive(Debug, Clone, PartialEq)]
pub struct ConnectionOptions {
    /// `kubeconfig`; none and no `master` is the Pod's service account (in-cluster).
    pub kubeconfig: Option<PathBuf>,
    /// `--master`: the server's URL, instead of the kubeconfig's.
    pub master: Option<String>,
    /// `acceptContentTypes`; empty is what `content_type` implies.
    pub accept_content_types: String,
    /// `contentType`; empty is JSON, as in client-go.
    pub content_type: String,
    /// `qps`: requests a second, in the long run. 0 is client-go's default (5), negative is no limit.
    pub qps: f32,
    /// `burst`: requests at once. 0 is client-go's default (10).
    pub burst: i32,
}

impl Default for ConnectionOptions {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            master: None,
            accept_content_types: String::new(),
            content_type: PROTOBUF.to_owned(),
            qps: DEFAULT_QPS,
            burst: DEFAULT_BURST,
        }
    }
}

/// client-go/rest: `DefaultQPS`.
const DEFAULT_QPS: f32 = 5.0;
/// client-go/rest: `DefaultBurst`.
const DEFAULT_BURST: i32 = 10;

impl ConnectionOptions {
    /// Whether credentials come from a program that is yet to be started (`exec` in the kubeconfig).
    #[must_use]
    pub fn starts_programs(&self) -> bool {
        let read = |path: &PathBuf| std::fs::read_to_string(path).ok();
        let Some(text) = self.kubeconfig.as_ref().and_then(read) else {
            return false;
        };
        let kubeconfig: Value = serde_saphyr::from_str(&text).unwrap_or_default();
        let mut users = kubeconfig["users"].as_array().into_iter().flatten();
        users.any(|entry| entry["user"]["exec"].is_object())
    }

    /// Requests a second and at once; `None` is no limit.
    pub(super) fn rate(&self) -> Option<(f32, u32)> {
        if self.qps < 0.0 {
            return None;
        }
        // Not a number counts as not given, too.
        let qps = if self.qps > 0.0 {
            self.qps
        } else {
            DEFAULT_QPS
        };
        let burst = if self.burst > 0 {
            self.burst
        } else {
            DEFAULT_BURST
        };
        Some((qps, u32::try_from(burst).unwrap_or(1)))
    }

    /// What to ask for in `Accept`.
    pub(super) fn accept(&self) -> String {
        if !self.accept_content_types.is_empty() {
            return self.accept_content_types.clone();
        }
        match self.content_type.as_str() {
            "" | JSON => JSON.to_owned(),
            // A server that does not have it answers in the other.
            other => format!("{other},{JSON}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_types_are_asked_for_as_configured() {
        let asked = |content_type: &str, accept: &str| {
            let options = ConnectionOptions {
                content_type: content_type.to_owned(),
                accept_content_types: accept.to_owned(),
                ..ConnectionOptions::default()
            };
            options.accept()
        };
        let default = ConnectionOptions::default().accept();
        assert_eq!(
            default,
            "application/vnd.kubernetes.protobuf,application/json"
        );
        assert_eq!(asked("", ""), JSON);
        assert_eq!(asked(JSON, ""), JSON);
        assert_eq!(asked(PROTOBUF, JSON), JSON);
    }

    #[test]
    fn no_rate_is_the_default_and_a_negative_one_no_limit() {
        let rate = |qps: f32, burst: i32| {
            let options = ConnectionOptions {
                qps,
                burst,
                ..ConnectionOptions::default()
            };
            options.rate()
        };
        assert_eq!(rate(0.0, 0), Some((5.0, 10)));
        assert_eq!(rate(f32::NAN, -1), Some((5.0, 10)));
        assert_eq!(rate(50.0, 100), Some((50.0, 100)));
        assert_eq!(rate(-1.0, 10), None);
    }
}
