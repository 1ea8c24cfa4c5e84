//! Why a request, or the client itself, failed.

use core::time::Duration;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Anything a library says.
pub(super) type BoxError = Box<dyn core::error::Error + Send + Sync>;

/// Why the server could not be asked, or did not answer as asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The kubeconfig cannot be read, or names something that does not exist.
    #[error("kubeconfig {}: {error}", path.display())]
    Kubeconfig {
        /// File.
        path: PathBuf,
        /// What is wrong with it.
        error: BoxError,
    },
    /// There is neither a kubeconfig nor the environment of a Pod.
    #[error("no kubeconfig, and not in a Pod: {0}")]
    NotInCluster(BoxError),
    /// `--master` is no URL.
    #[error("master {url:?}: {error}")]
    Master {
        /// What was given.
        url: String,
        /// What is wrong with it.
        error: BoxError,
    },
    /// Certificates, keys, tokens, plugins.
    #[error("credentials: {0}")]
    Credentials(BoxError),
    /// A proxy that is not supported.
    #[error("proxy {0}: only http://, https:// and socks5:// proxies are supported")]
    Proxy(String),
    /// No connection, or it broke.
    #[error("{host}: {error}")]
    Connection {
        /// Host and port.
        host: String,
        /// What happened.
        error: BoxError,
    },
    /// The server did not begin to answer, or stopped to.
    #[error("{host}: nothing for {} s", after.as_secs())]
    Silent {
        /// Host and port.
        host: String,
        /// For how long.
        after: Duration,
    },
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// An answer longer than anybody expects.
    #[error("{host}: an answer of more than {limit} bytes")]
    TooLong {
        /// Host and port.
        host: String,
        /// The most that is read.
        limit: usize,
    },
    /// A thread or runtime could not be had.
    #[error("runtime: {0}")]
    Runtime(#[from] io::Error),
}

/// A `Status` of the API, or an HTTP status alone.
#[derive(Debug, Clone, Default, PartialEq, Eq, Error)]
#[error("{code}{}{reason}{}{message}", space(reason), colon(message))]
pub struct Refusal {
    /// HTTP status.
    pub code: u16,
    /// `reason`, such as `Expired`; empty if the server gave none.
    pub reason: String,
    /// `message`.
    pub message: String,
    /// When to come again (`Retry-After`).
    pub retry_after: Option<Duration>,
}

fn space(text: &str) -> &'static str {
    if text.is_empty() { "" } else { " " }
}

fn colon(text: &str) -> &'static str {
    if text.is_empty() { "" } else { ": " }
}

impl Refusal {
    /// 410, by whatever way it is told: the resource version or the continue token is too old.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.code == 410 || matches!(self.reason.as_str(), "Expired" | "Gone")
    }

    /// The credentials do not count (any more).
    #[must_use]
    pub const fn is_unauthorized(&self) -> bool {
        self.code == 401
    }

    /// Whether it is about now, or about us, and not about what was asked.
    #[must_use]
    pub const fn is_of_the_moment(&self) -> bool {
        matches!(self.code, 401 | 403 | 429 | 502..=504)
    }

    /// A resource version that this server has not seen yet, or never will: etcd was restored from
    /// a backup.
    #[must_use]
    pub fn is_too_large_version(&self) -> bool {
        // apimachinery/pkg/api/errors: HasStatusCause(ResourceVersionTooLarge), by its message.
        self.code == 504 && self.message.contains("Too large resource version")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_well() {
        let bare = Refusal {
            code: 503,
            ..Refusal::default()
        };
        assert_eq!(bare.to_string(), "503");
        let told = Refusal {
            code: 410,
            reason: "Expired".to_owned(),
            message: "too old resource version: 1 (2)".to_owned(),
            retry_after: None,
        };
        assert_eq!(
            told.to_string(),
            "410 Expired: too old resource version: 1 (2)"
        );
        assert!(told.is_gone() && !bare.is_gone());
    }
}
