//! What a file asks for and does not get.

use serde_json::Value;

use super::field::Kind;
use super::{Field, GoDuration, KubeProxyConfiguration, Mode, Standing, fields};

/// Warnings about what a file says, which is `said` with names as in the file, and `config`.
pub(super) fn of(said: &Value, config: &KubeProxyConfiguration) -> Vec<String> {
    let mode = config.effective_mode();
    let mut found = Vec::new();
    for field in fields() {
        if at(said, field.path).is_none_or(|value| is_default(field, value)) {
            continue;
        }
        match field.standing {
            // Said below, as it is the default that cannot be kept.
            _ if field.path == LOCALHOST => {}
            Standing::Accepted(instead) => {
                found.push(format!("{} changes nothing: {instead}", field.path));
            }
            Standing::WorksIn(modes) if !modes.contains(&mode) => {
                found.push(format!("{} is not read in mode {mode}", field.path));
            }
            Standing::Works | Standing::WorksIn(_) => {}
        }
    }
    found
}

/// Node ports at loopback addresses, in mode iptables.
const LOCALHOST: &str = "iptables.localhostNodePorts";

impl KubeProxyConfiguration {
    /// What of a checked configuration is done in another way than kube-proxy would.
    #[must_use]
    pub fn differences(&self) -> Vec<String> {
        let mut found = Vec::new();
        let mode = self.effective_mode();
        if mode != Mode::Nftables {
            found.push(format!(
                "mode {mode}: rules are programmed as in mode nftables; of the settings, those of \
                 mode {mode} are read"
            ));
        }
        if mode == Mode::Iptables && self.iptables.localhost_node_ports != Some(false) {
            let field = fields().into_iter().find(|field| field.path == LOCALHOST);
            if let Some(Standing::Accepted(instead)) = field.map(|field| field.standing) {
                found.push(format!("{LOCALHOST}: {instead}"));
            }
        }
        for name in self.feature_gates.without_effect() {
            found.push(format!("feature gate {name} changes nothing"));
        }
        found
    }
}

/// The value at a path; of list items the first.
fn at<'v>(said: &'v Value, path: &str) -> Option<&'v Value> {
    path.split('.').try_fold(said, |value, name| match value {
        Value::Array(items) => items.first()?.get(name),
        value => value.get(name),
    })
}

fn is_default(field: &Field, value: &Value) -> bool {
    if says_nothing(value) {
        return true;
    }
    match value {
        Value::String(text) => match field.kind {
            Kind::Duration | Kind::OptionalDuration | Kind::DurationOrNanoseconds => {
                let time = text.parse::<GoDuration>();
                time.is_ok() && time == field.default.parse()
            }
            _ => text == field.default,
        },
        other => {
            let text = other.to_string();
            text == field.default
        }
    }
}

/// Is it what stands for nothing in Go?
pub(super) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            text.is_empty() || text == "0" || text.parse() == Ok(GoDuration::ZERO)
        }
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
    }
}
