//! What is wrong with a configuration, as kube-proxy words it.

use core::fmt;

use serde_json::Value;
use thiserror::Error;

use super::GoDuration;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldError {
    /// The field as kube-proxy calls it, without `KubeProxyConfiguration.`.
    pub upstream: String,
    /// The field as the file calls it.
    pub field: String,
    /// What it holds, and why not.
    problem: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "KubeProxyConfiguration.{}: {}",
            self.upstream, self.problem
        )
    }
}

/// Everything that is wrong, at least one thing.
#[derive(Debug, Clone, PartialEq, Error)]
#[error("{}", list(.0))]
pub struct Invalid(pub Vec<FieldError>);

/// As k8s.io/apimachinery prints aggregates: several in brackets, each text once.
fn list(errors: &[FieldError]) -> String {
    let mut texts: Vec<String> = Vec::new();
    for error in errors {
        let text = error.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match &*texts {
        [only] => only.clone(),
        texts => format!("[{}]", texts.join(", ")),
    }
}

/// Collects errors.
#[derive(Debug, Default)]
pub(super) struct Errors(Vec<FieldError>);

impl Errors {
    /// All that were found, if any were.
    pub(super) fn done(self) -> Result<(), Invalid> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(Invalid(self.0))
        }
    }

    pub(super) fn invalid(
        &mut self,
        upstream: impl Into<String>,
        field: impl Into<String>,
        value: impl Into<Value>,
        why: &str,
    ) {
        self.0.push(FieldError {
            upstream: upstream.into(),
            field: field.into(),
            problem: format!("Invalid value: {}: {why}", value.into()),
        });
    }

    pub(super) fn duplicate(&mut self, upstream: String, field: String, value: &str) {
        self.0.push(FieldError {
            upstream,
            field,
            problem: format!("Duplicate value: {value:?}"),
        });
    }

    pub(super) fn unsupported<'a>(
        &mut self,
        upstream: &str,
        field: &str,
        value: &str,
        supported: impl Iterator<Item = &'a str>,
    ) {
        let supported: Vec<_> = supported.map(|it| format!("{it:?}")).collect();
        self.0.push(FieldError {
            upstream: upstream.to_owned(),
            field: field.to_owned(),
            problem: format!(
                "Unsupported value: {value:?}: supported values: {}",
                supported.join(", ")
            ),
        });
    }

    pub(super) fn not_negative(
        &mut self,
        upstream: impl Into<String>,
        field: impl Into<String>,
        time: GoDuration,
    ) {
        if time.is_negative() {
            let why = "must be greater than or equal to 0";
            self.invalid(upstream, field, time.to_string(), why);
        }
    }
}
