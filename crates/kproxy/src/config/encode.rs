//! The configuration as text: `--write-config-to` and `/configz`.

use serde_json::{Value, json};

use super::{API_VERSION, KIND, KubeProxyConfiguration};

impl KubeProxyConfiguration {
    /// As JSON of the API, with its kind.
    ///
    /// # Errors
    /// None for a configuration that was read.
    pub fn to_object(&self) -> Result<Value, serde_json::Error> {
        let mut config = self.clone();
        // As upstream's encoder: nothing is written as what it means when it is read.
        if config.healthz_bind_address.is_empty() || config.metrics_bind_address.is_empty() {
            config.set_defaults();
            config.settle();
        }
        let mut object = serde_json::to_value(config)?;
        if let Some(fields) = object.as_object_mut() {
            fields.insert("apiVersion".to_owned(), API_VERSION.into());
            fields.insert("kind".to_owned(), KIND.into());
        }
        Ok(object)
    }

    /// As YAML, fields ordered by name.
    ///
    /// # Errors
    /// As [`to_object`](Self::to_object).
    pub fn to_yaml(&self) -> Result<String, serde_json::Error> {
        let object = self.to_object()?;
        serde_saphyr::to_string(&object).map_err(serde::ser::Error::custom)
    }

    /// The answer to `/configz`.
    ///
    /// # Errors
    /// As [`to_object`](Self::to_object).
    pub fn configz(&self) -> Result<Value, serde_json::Error> {
        Ok(json!({ "kubeproxy.config.k8s.io": self.to_object()? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::decode;

    #[test]
    fn what_is_written_is_read_back() {
        let mut config = KubeProxyConfiguration::defaults();
        config.hostname_override = "  Foo: '\" ".to_owned();
        config.node_port_addresses = Some(vec!["primary".into(), "fd00::/8".into()]);
        config.client_connection.qps = 1.5;
        config.feature_gates.set("AllBeta", true);
        let yaml = config.to_yaml().unwrap();
        let decoded = decode(&yaml).unwrap();
        assert_eq!(decoded.strictness, None);
        let mut back = decoded.config;
        back.set_defaults();
        back.settle();
        assert_eq!(back, config, "{yaml}");
    }

    #[test]
    fn lines_are_as_people_know_them() {
        let yaml = KubeProxyConfiguration::defaults().to_yaml().unwrap();
        for line in [
            "apiVersion: kubeproxy.config.k8s.io/v1alpha1",
            "  qps: 5",
            "configSyncPeriod: 15m0s",
            "nodePortAddresses: null",
            "mode: iptables",
        ] {
            assert!(yaml.lines().any(|it| it == line), "{line}\n{yaml}");
        }
    }
}
