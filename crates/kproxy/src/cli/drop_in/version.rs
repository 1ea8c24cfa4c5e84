//! `--version`.

use std::io::{self, Write as _};

use crate::config::{FlagError, boolean};

/// The kube-proxy whose flags, file and behaviour these are.
const KUBE_PROXY: &str = "v1.37.2";

/// How the version is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// In one line.
    Line,
    /// In parts.
    Raw,
}

impl Form {
    /// What the flag's value asks for, if for anything.
    ///
    /// # Errors
    /// [`FlagError`].
    pub(super) fn of(text: &str) -> Result<Option<Self>, FlagError> {
        if text == "raw" {
            return Ok(Some(Self::Raw));
        }
        if let Some(asked) = boolean(text) {
            return Ok(asked.then_some(Self::Line));
        }
        // kube-proxy takes a patch of its own version there, to be told.
        let why = if text.starts_with('v') {
            let version = env!("CARGO_PKG_VERSION");
            format!(
                "version {text:?} must match major/minor/patch of default version \"v{version}\""
            )
        } else {
            format!("strconv.ParseBool: parsing {text:?}: invalid syntax")
        };
        Err(FlagError {
            flag: "version".to_owned(),
            text: text.to_owned(),
            why,
        })
    }

    /// Prints it.
    ///
    /// # Errors
    /// Of standard output.
    pub(super) fn print(self) -> io::Result<()> {
        let version = env!("CARGO_PKG_VERSION");
        let part = |index| version.split('.').nth(index).unwrap_or_default();
        let text = match self {
            Self::Line => format!("kproxy v{version}\n"),
            Self::Raw => format!(
                "version.Info{{Major:{:?}, Minor:{:?}, GitVersion:\"v{version}\", KubeProxy:{KUBE_PROXY:?}, \
                 Platform:\"linux/{}\"}}\n",
                part(0),
                part(1),
                architecture(),
            ),
        };
        io::stdout().lock().write_all(text.as_bytes())
    }
}

/// As Go names it.
const fn architecture() -> &'static str {
    if cfg!(target_arch = "x86_64") {
        "amd64"
    } else if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        std::env::consts::ARCH
    }
}
