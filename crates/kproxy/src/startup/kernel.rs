//! The oldest kernel.

use nft_batch::KernelVersion;

use super::StartupError;
use crate::check::OLDEST_KERNEL;

/// Environment variable, kube-proxy's: not empty, the version is not looked at.
pub(super) const SKIP: &str = "KUBE_PROXY_NFTABLES_SKIP_KERNEL_VERSION_CHECK";

/// Refuses kernels before 5.13, with which nothing would work as it should.
///
/// # Errors
/// [`StartupError::Kernel`].
pub fn require() -> Result<(), StartupError> {
    let skip = std::env::var_os(SKIP).is_some_and(|value| !value.is_empty());
    judge(KernelVersion::running(), skip)
}

fn judge(version: KernelVersion, skip: bool) -> Result<(), StartupError> {
    let (major, minor) = OLDEST_KERNEL;
    if skip || version.at_least(major, minor) {
        return Ok(());
    }
    Err(StartupError::Kernel {
        release: version.release,
        major,
        minor,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_refused_unless_one_insists() {
        let old = || KernelVersion::parse("5.10.0-46-cloud-amd64");
        let error = judge(old(), false).unwrap_err().to_string();
        assert!(
            error.contains("5.10.0-46-cloud-amd64") && error.contains("5.13"),
            "{error}"
        );
        assert!(error.contains(SKIP), "{error}");
        judge(old(), true).unwrap();
        judge(KernelVersion::parse("5.13.0"), false).unwrap();
        require().unwrap();
    }
}
