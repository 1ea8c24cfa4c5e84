//! The configuration in effect, for whoever asks for `/configz`.

use std::sync::{Arc, PoisonError, RwLock};

use super::KubeProxyConfiguration;

/// A text that is shown to others and changes with the configuration.
#[derive(Debug, Clone, Default)]
pub struct Configz(Arc<RwLock<String>>);

impl Configz {
    /// Shows a configuration from now on.
    pub fn show(&self, config: &KubeProxyConfiguration) {
        match config.configz() {
            Ok(object) => {
                *self.0.write().unwrap_or_else(PoisonError::into_inner) = object.to_string();
            }
            Err(error) => tracing::error!(err = %error, "the configuration cannot be shown"),
        }
    }

    /// JSON of an object that has the configuration under the name of its API group.
    #[must_use]
    pub fn text(&self) -> String {
        let text = self.0.read().unwrap_or_else(PoisonError::into_inner);
        text.clone()
    }
}

/// The same text, whatever it says at the moment.
impl PartialEq for Configz {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Configz {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_follows_the_configuration() {
        let shown = Configz::default();
        let asked = shown.clone();
        let mut config = KubeProxyConfiguration::defaults();
        config.hostname_override = "node-a".to_owned();
        shown.show(&config);
        let object: serde_json::Value = serde_json::from_str(&asked.text()).unwrap();
        let config = &object["kubeproxy.config.k8s.io"];
        assert_eq!(config["kind"], "KubeProxyConfiguration");
        assert_eq!(config["hostnameOverride"], "node-a");
        assert_eq!(shown, asked);
        assert_ne!(shown, Configz::default());
    }
}
