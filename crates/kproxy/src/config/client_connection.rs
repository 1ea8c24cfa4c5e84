//! `clientConnection`: how the API server is reached.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::field::{Field, Kind};
use super::invalid::Errors;

/// What kube-proxy asks for by default.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

pub(super) const FIELDS: &[Field] = &[
    Field::works("clientConnection.acceptContentTypes", Kind::Text, ""),
    Field::works("clientConnection.burst", Kind::Integer, "10"),
    Field::works("clientConnection.contentType", Kind::Text, PROTOBUF),
    Field::works("clientConnection.kubeconfig", Kind::Text, ""),
    Field::works("clientConnection.qps", Kind::Number, "5"),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// `Accept` of requests; empty: by `content_type`.
    pub accept_content_types: String,
    /// Requests that may be sent at once beyond the rate.
    pub burst: i32,
    /// What is asked for.
    pub content_type: String,
    /// Path of a kubeconfig; empty: the ServiceAccount of the pod.
    pub kubeconfig: String,
    /// Requests per second; less than none: no limit.
    #[serde(serialize_with = "shortest", deserialize_with = "finite")]
    pub qps: f32,
}

impl ClientConnection {
    pub(super) fn set_defaults(&mut self) {
        if self.content_type.is_empty() {
            PROTOBUF.clone_into(&mut self.content_type);
        }
        if self.qps == 0.0 {
            self.qps = 5.0;
        }
        if self.burst == 0 {
            self.burst = 10;
        }
    }

    pub(super) fn validate(&self, errors: &mut Errors) {
        if self.burst < 0 {
            errors.invalid(
                "ClientConnection.Burst",
                "clientConnection.burst",
                self.burst,
                "must be greater than or equal to 0",
            );
        }
    }
}

/// A number that fits; what does not is read as infinite.
fn finite<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f32, D::Error> {
    let number = f32::deserialize(deserializer)?;
    if number.is_finite() {
        Ok(number)
    } else {
        Err(D::Error::custom("a number of more than 32 bits"))
    }
}

/// The shortest number that is read back as the same one.
#[allow(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes fields by reference"
)]
fn shortest<S: Serializer>(number: &f32, serializer: S) -> Result<S::Ok, S::Error> {
    let text = number.to_string();
    match text.parse::<i64>() {
        Ok(whole) => serializer.serialize_i64(whole),
        Err(_) => serializer.serialize_f64(text.parse().unwrap_or_default()),
    }
}
