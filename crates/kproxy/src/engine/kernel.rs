//! The running kernel's version, for what cannot be probed.

use core::fmt;

/// Major and minor version of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct KernelVersion {
    /// E.g. 6.
    pub major: u32,
    /// E.g. 18.
    pub minor: u32,
}

impl KernelVersion {
    /// On older kernels a lookup may find neither the old nor the new row of a replacement.
    pub const LOOKUPS_RESTART: Self = Self {
        major: 6,
        minor: 17,
    };

    /// Reads a release such as `6.1.0-57-cloud-amd64`.
    #[must_use]
    pub fn parse(release: &str) -> Option<Self> {
        let mut numbers = release.split(['.', '-', '+', '_']);
        let major = numbers.next()?.parse().ok()?;
        let minor = numbers.next()?.parse().ok()?;
        Some(Self { major, minor })
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The running kernel's version; `None` if its release says none.
#[must_use]
pub fn kernel_version() -> Option<KernelVersion> {
    let uname = rustix::system::uname();
    KernelVersion::parse(uname.release().to_str().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        let version = |major, minor| Some(KernelVersion { major, minor });
        assert_eq!(KernelVersion::parse("6.1.0-57-cloud-amd64"), version(6, 1));
        assert_eq!(KernelVersion::parse("7.3-rc1"), version(7, 3));
        assert_eq!(KernelVersion::parse("6.18.44"), version(6, 18));
        assert_eq!(KernelVersion::parse("next"), None);
        assert!(version(6, 12) < Some(KernelVersion::LOOKUPS_RESTART));
        assert!(kernel_version().is_some());
    }
}
