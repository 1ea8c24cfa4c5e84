//! `logging`, as k8s.io/component-base has it (logs/api/v1).

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::duration::text_or_nanoseconds;
use super::field::{Field, Kind};
use super::{GoDuration, Quantity};

/// Feature gate of what is alpha in it.
const ALPHA_GATE: &str = "LoggingAlphaOptions";
/// Feature gate of the format `json`.
const BETA_GATE: &str = "LoggingBetaOptions";
/// kube-proxy 1.37 puts its flags' defaults over these fields.
const FLAG_ALONE: &str = "only the flag counts, as with kube-proxy";
const UNBUFFERED: &str = "each line is written at once";

pub(super) const FIELDS: &[Field] = &[
    Field::accepted(
        "logging.flushFrequency",
        Kind::DurationOrNanoseconds,
        "5s",
        UNBUFFERED,
    ),
    Field::works("logging.format", Kind::Text, "text"),
    Field::accepted(
        "logging.options.json.infoBufferSize",
        Kind::Quantity,
        "0",
        UNBUFFERED,
    ),
    Field::accepted(
        "logging.options.json.splitStream",
        Kind::Bool,
        "false",
        FLAG_ALONE,
    ),
    Field::accepted(
        "logging.options.text.infoBufferSize",
        Kind::Quantity,
        "0",
        UNBUFFERED,
    ),
    Field::accepted(
        "logging.options.text.splitStream",
        Kind::Bool,
        "false",
        FLAG_ALONE,
    ),
    Field::works("logging.verbosity", Kind::Integer, "0"),
    Field::works("logging.vmodule.filePattern", Kind::Text, ""),
    Field::works("logging.vmodule.verbosity", Kind::Integer, "0"),
];

/// See the module.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Logging {
    /// How long lines may wait.
    #[serde(deserialize_with = "text_or_nanoseconds")]
    pub flush_frequency: GoDuration,
    /// `text` or `json`.
    pub format: String,
    /// Of each format.
    pub options: FormatOptions,
    /// How much is logged.
    pub verbosity: u32,
    /// How much is logged by some source files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vmodule: Vec<VmoduleItem>,
}

/// Options of each format.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FormatOptions {
    /// Of `json`.
    pub json: StreamOptions,
    /// Of `text`.
    pub text: StreamOptions,
}

/// Where lines go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StreamOptions {
    /// How many bytes of lines may wait.
    pub info_buffer_size: Quantity,
    /// Errors go to standard error, the rest to standard output.
    #[serde(skip_serializing_if = "core::ops::Not::not")]
    pub split_stream: bool,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            info_buffer_size: Quantity::ZERO,
            split_stream: false,
        }
    }
}

/// How much some source files log.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VmoduleItem {
    /// Name of a file without its extension; `*` and `?` stand for other letters.
    pub file_pattern: String,
    /// How much they log.
    pub verbosity: u32,
}

/// What is wrong with it, in component-base's words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{}", list(.0))]
pub struct LoggingError(Vec<String>);

fn list(errors: &[String]) -> String {
    match errors {
        [only] => only.clone(),
        errors => format!("[{}]", errors.join(", ")),
    }
}

impl Logging {
    pub(super) fn set_defaults(&mut self) {
        if self.format.is_empty() {
            "text".clone_into(&mut self.format);
        }
        if self.flush_frequency.is_zero() {
            self.flush_frequency = GoDuration::from_secs(5);
        }
    }

    /// Checks it; `gate` says whether a feature gate is on, `never` that a flag wants lines to be flushed never (in
    /// a file 0 is the default).
    ///
    /// # Errors
    /// [`LoggingError`].
    pub fn validate(&self, never: bool, gate: impl Fn(&str) -> bool) -> Result<(), LoggingError> {
        let mut errors = Vec::new();
        if self.format == "json" && !gate(BETA_GATE) {
            errors.push(format!(
                "logging.format: Forbidden: Log format json is disabled, see {BETA_GATE} feature"
            ));
        }
        if !matches!(&*self.format, "text" | "json") {
            errors.push(format!(
                "logging.format: Invalid value: {:?}: Unsupported log format",
                self.format
            ));
        }
        if never || self.flush_frequency.is_negative() {
            let given = if never {
                "0s".to_owned()
            } else {
                self.flush_frequency.to_string()
            };
            errors.push(format!(
                "logging.flushFrequency: Invalid value: {given:?}: Must be greater than zero"
            ));
        }
        if i32::try_from(self.verbosity).is_err() {
            errors.push(format!(
                "logging.verbosity: Invalid value: {}: Must be <= 2147483647",
                self.verbosity
            ));
        }
        if !self.vmodule.is_empty() && self.format != "text" {
            errors.push("logging.vmodule: Forbidden: Only supported for text log format".into());
        }
        for (index, item) in self.vmodule.iter().enumerate() {
            if item.file_pattern.is_empty() {
                errors.push(format!(
                    "logging.vmodule[{index}]: Required value: File pattern must not be empty"
                ));
            }
            if item.file_pattern.contains(['=', ',']) {
                errors.push(format!(
                    "logging.vmodule[{index}]: Invalid value: {:?}: File pattern must not contain \
                     equal sign or comma",
                    item.file_pattern
                ));
            }
            if i32::try_from(item.verbosity).is_err() {
                errors.push(format!(
                    "logging.vmodule[{index}]: Invalid value: {}: Must be <= 2147483647",
                    item.verbosity
                ));
            }
        }
        let formats = [("text", &self.options.text), ("json", &self.options.json)];
        for (name, options) in formats {
            let alpha = [
                ("splitStream", options.split_stream),
                ("infoBufferSize", !options.info_buffer_size.is_zero()),
            ];
            for (option, used) in alpha {
                if used && !gate(ALPHA_GATE) {
                    errors.push(format!(
                        "logging.options.{name}.{option}: Forbidden: Feature {ALPHA_GATE} is disabled"
                    ));
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(LoggingError(errors))
        }
    }
}
