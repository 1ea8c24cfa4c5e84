//! `--version`.

use std::io::Write as _;

use crate::cli::{CliError, Exit};

/// The kube-proxy whose flags, file and behaviour these are.
const KUBE_PROXY: &str = "v1.37.2";

/// Prints the version: in one line, or in parts (`raw`).
///
/// # Errors
/// [`CliError::Version`], [`CliError::Output`].
pub(super) fn print(form: &str) -> Result<Exit, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let text = match form {
        "true" => format!("kproxy v{version}\n"),
        "raw" => {
            let part = |index| version.split('.').nth(index).unwrap_or_default();
            format!(
                "version.Info{{Major:{:?}, Minor:{:?}, GitVersion:\"v{version}\", KubeProxy:{KUBE_PROXY:?}, \
                 Platform:\"linux/{}\"}}\n",
                part(0),
                part(1),
                architecture(),
            )
        }
        other => return Err(CliError::Version(other.to_owned())),
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Exit::Done)
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
