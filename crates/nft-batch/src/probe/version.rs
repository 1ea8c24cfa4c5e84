//! Release and type information of the running kernel.

use core::fmt;
use std::fs::File;
use std::io::Read;

/// Release of a kernel.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct KernelVersion {
    /// Major, minor and patch number; 0 where the release does not have one.
    pub numbers: [u32; 3],
    /// The release, as `uname -r` prints it.
    pub release: String,
}

impl KernelVersion {
    /// The oldest series that kube-proxy's nftables mode accepts (KEP-3866), and that Service proxies
    /// over this crate are made for.
    pub const OLDEST: (u32, u32) = (5, 13);

    /// Of the running kernel.
    #[must_use]
    pub fn running() -> Self {
        Self::parse(&rustix::system::uname().release().to_string_lossy())
    }

    /// From a release such as `6.18.44-cloud-amd64`.
    #[must_use]
    pub fn parse(release: &str) -> Self {
        let mut numbers = [0; 3];
        let mut rest = release;
        for number in &mut numbers {
            let end = rest
                .find(|c: char| !c.is_ascii_digit())
                .unwrap_or(rest.len());
            let (digits, tail) = rest.split_at(end);
            let Ok(value) = digits.parse() else { break };
            *number = value;
            let Some(tail) = tail.strip_prefix('.') else {
                break;
            };
            rest = tail;
        }
        Self {
            numbers,
            release: release.to_owned(),
        }
    }

    /// Whether it is this series or a later one.
    #[must_use]
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        let [own_major, own_minor, _] = self.numbers;
        (own_major, own_minor) >= (major, minor)
    }
}

impl fmt::Display for KernelVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.release)
    }
}

/// Whether the kernel, or its nf_tables module, knows a type or field of this name; `None` when it
/// carries no type information (BTF).
pub(super) fn type_information_has(name: &str) -> Option<bool> {
    let mut known = None;
    for path in ["/sys/kernel/btf/nf_tables", "/sys/kernel/btf/vmlinux"] {
        if let Some(found) = File::open(path).ok().and_then(|file| contains(file, name)) {
            if found {
                return Some(true);
            }
            known = Some(false);
        }
    }
    known
}

/// Whether the names in a BTF blob, which are NUL-terminated, hold this one.
fn contains(mut file: impl Read, name: &str) -> Option<bool> {
    let mut needle = Vec::with_capacity(name.len() + 2);
    needle.push(0);
    needle.extend_from_slice(name.as_bytes());
    needle.push(0);
    let mut window = Vec::new();
    let mut block = vec![0; 64 << 10];
    loop {
        let read = file.read(&mut block).ok()?;
        if read == 0 {
            return Some(false);
        }
        window.extend_from_slice(block.get(..read)?);
        if window.windows(needle.len()).any(|part| part == needle) {
            return Some(true);
        }
        let keep = window.len().saturating_sub(needle.len());
        window.drain(..keep);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_parsed_as_far_as_they_go() {
        for (release, numbers) in [
            ("6.18.44-cloud-amd64", [6, 18, 44]),
            ("5.10.0-46-cloud-amd64", [5, 10, 0]),
            ("7.1-rc3", [7, 1, 0]),
            ("7", [7, 0, 0]),
            ("odd", [0, 0, 0]),
            ("", [0, 0, 0]),
        ] {
            assert_eq!(KernelVersion::parse(release).numbers, numbers, "{release}");
        }
        assert!(KernelVersion::parse("7.0").at_least(6, 18));
        assert!(!KernelVersion::parse("6.9.1").at_least(6, 18));
    }

    #[test]
    fn names_are_found_whole_and_across_blocks() {
        let mut blob = vec![b'x'; (64 << 10) - 3];
        blob.extend_from_slice(b"\0name\0other\0");
        assert_eq!(contains(blob.as_slice(), "name"), Some(true));
        assert_eq!(contains(blob.as_slice(), "nam"), Some(false));
        assert_eq!(contains(blob.as_slice(), "ther"), Some(false));
        assert_eq!(contains(blob.as_slice(), "other"), Some(true));
    }
}
