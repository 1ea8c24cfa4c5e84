//! Which files of a folder are manifests, and whether a file is still the one that was read.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The manifests of `folder`, sorted by name: files ending in `.yaml`, `.yml` or `.json`, not
/// hidden, symbolic links followed (one that leads nowhere is listed, too, so that somebody
/// notices), folders inside not entered (as `kubectl apply -f`). A mounted
/// ConfigMap fits: its files are links through the hidden link `..data`.
///
/// # Errors
/// Of reading the folder.
pub fn manifests_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if is_manifest(&path) && fs::metadata(&path).map_or(true, |it| it.is_file()) {
            files.push(path);
        }
    }
    files.sort_unstable();
    Ok(files)
}

/// Whether a path is named like a manifest.
pub(crate) fn is_manifest(path: &Path) -> bool {
    let hidden = path
        .file_name()
        .is_none_or(|name| name.as_encoded_bytes().starts_with(b"."));
    let extension = path.extension().and_then(|extension| extension.to_str());
    !hidden && matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Tells a file's content from another's without reading it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FileKey {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl FileKey {
    /// Of an open or named file, links followed.
    #[must_use]
    pub fn new(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for (name, manifest) in [
            ("a.yaml", true),
            ("a.yml", true),
            ("a.json", true),
            ("a.txt", false),
            ("yaml", false),
            (".a.yaml", false),
            ("..data", false),
            ("a.yaml~", false),
            ("a.yaml.swp", false),
        ] {
            assert_eq!(is_manifest(Path::new(name)), manifest, "{name}");
        }
    }
}
