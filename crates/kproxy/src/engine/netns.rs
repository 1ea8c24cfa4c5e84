//! Which network namespace to work in.

use std::fs::File;
use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Where `ip netns` keeps namespaces.
const NETNS_FOLDER: &str = "/run/netns";

/// A network namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Netns {
    /// The calling thread's.
    #[default]
    Current,
    /// One that `ip netns` names.
    Named(String),
    /// One behind a file, e.g. `/proc/PID/ns/net`.
    Path(PathBuf),
}

/// A namespace that cannot be opened.
#[derive(Debug, Error)]
#[error("network namespace {name}: {error}")]
pub struct NetnsError {
    /// Name or path.
    pub name: String,
    /// Why.
    #[source]
    pub error: io::Error,
}

impl From<&str> for Netns {
    /// A word with a slash in it is a path.
    fn from(name: &str) -> Self {
        if name.contains('/') {
            Self::Path(name.into())
        } else {
            Self::Named(name.to_owned())
        }
    }
}

impl Netns {
    /// Opens it; `None` for the current one.
    ///
    /// # Errors
    /// See [`NetnsError`].
    pub fn open(&self) -> Result<Option<File>, NetnsError> {
        let path = match self {
            Self::Current => return Ok(None),
            Self::Named(name) => PathBuf::from(NETNS_FOLDER).join(name),
            Self::Path(path) => path.clone(),
        };
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) => Err(NetnsError {
                name: match self {
                    Self::Named(name) => name.clone(),
                    _ => path.display().to_string(),
                },
                error,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_paths() {
        assert_eq!(Netns::from("blue"), Netns::Named("blue".to_owned()));
        let path = "/proc/self/ns/net";
        assert_eq!(Netns::from(path), Netns::Path(path.into()));
        assert!(Netns::from(path).open().unwrap().is_some());
        assert!(Netns::Current.open().unwrap().is_none());
        let error = Netns::from("no-such-namespace").open().unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("network namespace no-such-namespace: ")
        );
    }
}
