//! Where the kernel shows its settings.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// The roots of procfs and sysfs; tests have their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct System {
    /// `/proc`.
    pub proc: PathBuf,
    /// `/sys`.
    pub sys: PathBuf,
}

impl Default for System {
    fn default() -> Self {
        Self {
            proc: "/proc".into(),
            sys: "/sys".into(),
        }
    }
}

impl System {
    /// A setting of the calling thread's network namespace, such as `netfilter/nf_conntrack_max`.
    pub(super) fn net(&self, name: &str) -> PathBuf {
        self.proc.join("sys/net").join(name)
    }
}

/// A file with a number in it. `None` if it cannot be read as one.
pub(super) fn number(path: &Path) -> Option<u64> {
    text(path)?.parse().ok()
}

/// A file's line.
pub(super) fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.trim().to_owned())
}

/// Writes a number. The file must be there: procfs and sysfs make none.
pub(super) fn write(path: &Path, value: impl ToString) -> io::Result<()> {
    use std::io::Write as _;
    let mut file = fs::OpenOptions::new().write(true).open(path)?;
    file.write_all(value.to_string().as_bytes())
}
