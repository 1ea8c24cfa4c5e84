//! `--version`.

use std::io::Write as _;

use crate::cli::{CliError, Exit};
use crate::config::{FlagError, boolean};

/// The kube-proxy whose flags, file and behaviour these are.
const KUBE_PROXY: &str = "v1.37.2";

/// Prints the version: in one line, or in parts (`raw`); nothing if it is not asked for.
///
/// # Errors
/// [`CliError::Flag`], [`CliError::Output`].
pub(super) fn print(form: &str) -> Result<Option<Exit>, CliError> {
    let version = env!("CARGO_PKG_VERSION");
    let text = match (form, boolean(form)) {
        (_, Some(false)) => return Ok(None),
        (_, Some(true)) => format!("kproxy v{version}\n"),
        ("raw", _) => {
            let part = |index| version.split('.').nth(index).unwrap_or_default();
            format!(
                "version.Info{{Major:{:?}, Minor:{:?}, GitVersion:\"v{version}\", KubeProxy:{KUBE_PROXY:?}, \
                 Platform:\"linux/{}\"}}\n",
                part(0),
                part(1),
                architecture(),
            )
        }
        // kube-proxy takes a patch of its own version there, to be told.
        (other, _) => {
            let why = if other.starts_with('v') {
                format!(
                    "version {other:?} must match major/minor/patch of default version \"v{version}\""
                )
            } else {
                format!("strconv.ParseBool: parsing {other:?}: invalid syntax")
            };
            return Err(FlagError {
                flag: "version",
                text: other.to_owned(),
                why,
            }
            .into());
        }
    };
    std::io::stdout().lock().write_all(text.as_bytes())?;
    Ok(Some(Exit::Done))
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
