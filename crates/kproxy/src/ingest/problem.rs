//! What was wrong with an object, in one line that names the object and the field.

use core::fmt;

use thiserror::Error;

use super::ParseAddressError;
use crate::api::{Kind, Metadata};

/// Kind, namespace and name of an object.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectId {
    /// Kind.
    pub kind: Kind,
    /// Namespace, empty for cluster-wide kinds.
    pub namespace: Box<str>,
    /// Name.
    pub name: Box<str>,
}

impl ObjectId {
    /// The identity `metadata` gives an object; `None` without a name. Namespaced kinds without a
    /// namespace belong to `default`, as for kubectl.
    #[must_use]
    pub fn new(kind: Kind, metadata: &Metadata<'_>) -> Option<Self> {
        let name = metadata.name.as_deref().filter(|name| !name.is_empty())?;
        let namespace = match kind {
            Kind::Service | Kind::EndpointSlice => metadata
                .namespace
                .as_deref()
                .filter(|namespace| !namespace.is_empty())
                .unwrap_or("default"),
            Kind::Node | Kind::ServiceCidr => "",
        };
        Some(Self {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            write!(f, "{} {}", self.kind, self.name)
        } else {
            write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
        }
    }
}

/// How much a problem costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Severity {
    /// Understood, but worth correcting; nothing is left out.
    Warning,
    /// The field, or the whole object, is left out.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Why a field was left out or corrected.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Reason {
    /// A mandatory field is absent.
    #[error("missing")]
    Missing,
    /// Not an IP address or prefix.
    #[error("{value:?} is not {error}")]
    Address {
        /// What the object says.
        value: Box<str>,
        /// What it should have been.
        error: ParseAddressError,
    },
    /// An address with leading zeros, which some programs read as octal numbers.
    #[error("{value:?} has leading zeros; read as decimal: {used}")]
    LeadingZeros {
        /// What the object says.
        value: Box<str>,
        /// How it was read.
        used: Box<str>,
    },
    /// A port outside 1 to 65535.
    #[error("{0} is not a port (1 to 65535)")]
    PortOutOfRange(i64),
    /// A number outside its range.
    #[error("{0} is out of range")]
    OutOfRange(i64),
    /// A word that is none of the known ones.
    #[error("{0:?} is not known")]
    UnknownValue(Box<str>),
    /// An address of the other family than the slice declares.
    #[error("{value} is not an {declared} address")]
    OtherFamily {
        /// Address.
        value: Box<str>,
        /// `addressType` of the slice.
        declared: Box<str>,
    },
    /// Source ranges are given, but none that can be read.
    #[error("no range can be read, load-balancer addresses are not served")]
    NoSourceRange,
    /// A Service nobody has given an address yet.
    #[error("no ClusterIP is allocated, the Service is not served")]
    NoClusterIp,
    /// A time that is not RFC 3339.
    #[error("{0:?} is not an RFC 3339 time")]
    Time(Box<str>),
}

impl Reason {
    pub(super) fn unknown_value(value: &str) -> Self {
        Self::UnknownValue(value.into())
    }

    /// How much it costs.
    #[must_use]
    pub fn severity(&self) -> Severity {
        match self {
            Self::LeadingZeros { .. } | Self::NoClusterIp | Self::Time(_) => Severity::Warning,
            _ => Severity::Error,
        }
    }
}

/// One problem of one field of one object.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{object}: {field}: {reason}")]
pub struct Problem {
    /// Which object.
    pub object: ObjectId,
    /// Path of the field, e.g. `spec.ports[1].port`.
    pub field: Box<str>,
    /// What is wrong.
    pub reason: Reason,
}

/// Collects the problems of one object; costs nothing while there are none.
#[derive(Debug)]
pub struct Report<'r> {
    object: &'r ObjectId,
    problems: &'r mut Vec<Problem>,
}

impl<'r> Report<'r> {
    /// For the problems of `object`.
    pub fn new(object: &'r ObjectId, problems: &'r mut Vec<Problem>) -> Self {
        Self { object, problems }
    }

    /// Adds a problem.
    pub fn add(&mut self, field: impl fmt::Display, reason: Reason) {
        self.problems.push(Problem {
            object: self.object.clone(),
            field: field.to_string().into(),
            reason,
        });
    }

    /// The value, or `None` after the error was added.
    pub fn check<T>(&mut self, field: impl fmt::Display, result: Result<T, Reason>) -> Option<T> {
        result.map_err(|reason| self.add(field, reason)).ok()
    }
}
