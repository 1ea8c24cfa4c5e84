//! Archives in the format that the kernel unpacks as its first file system (`newc`,
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::collections::BTreeSet;

use anyhow::{Context, Result};

const FOLDER: u32 = 0o040_755;
const FILE: u32 = 0o100_000;
const LINK: u32 = 0o120_777;

/// An archive that grows.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    folders: BTreeSet<String>,
    entries: u32,
}

impl Archive {
    /// Adds a folder and those above it, once.
    pub(super) fn folder(&mut self, path: &str) {
        let path = path.trim_matches('/');
        let mut end = 0;
        for part in path.split('/') {
            end += part.len();
            let so_far = path.get(..end).unwrap_or_default();
            if self.folders.insert(so_far.to_owned()) {
                // A folder is no longer than its name.
                self.entry(so_far, FOLDER, 0, &[]);
            }
            end += 1;
        }
    }

    /// Adds a file, and the folders above it.
    pub(super) fn file(&mut self, path: &str, mode: u32, data: &[u8]) -> Result<()> {
        let path = path.trim_matches('/');
        if let Some((folder, _)) = path.rsplit_once('/') {
            self.folder(folder);
        }
        let len = u32::try_from(data.len()).with_context(|| format!("{path} is too long"))?;
        self.entry(path, FILE | mode, len, data);
        Ok(())
    }

    /// Adds a symbolic link.
    pub(super) fn link(&mut self, path: &str, to: &str) -> Result<()> {
        let len = u32::try_from(to.len()).context("the link is too long")?;
        self.entry(path, LINK, len, to.as_bytes());
        Ok(())
    }

    /// Closes it. Archives may follow each other.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, len: u32, data: &[u8]) {
        self.entries += 1;
        let name_len = u32::try_from(name.len() + 1).unwrap_or(u32::MAX);
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes
                .extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(data);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_their_files_and_once() {
        let mut archive = Archive::default();
        archive.file("/a/b/c", 0o755, b"hello").unwrap();
        archive.file("a/b/d", 0o644, b"").unwrap();
        archive.link("a/l", "b/c").unwrap();
        let bytes = archive.finish();
        assert_eq!(bytes.len() % 4, 0);
        let text = String::from_utf8_lossy(&bytes);
        let names: Vec<_> = text
            .split("070701")
            .skip(1)
            .map(|entry| entry[104..].split('\0').next().unwrap())
            .collect();
        assert_eq!(names, ["a", "a/b", "a/b/c", "a/b/d", "a/l", "TRAILER!!!"]);
    }
}
