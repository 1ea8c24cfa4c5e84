//! A folder of manifests that is gone afterwards.

use core::sync::atomic::{AtomicU32, Ordering};
use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result};

/// See the module.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// Makes an empty one.
    ///
    /// # Errors
    /// When the system's folder for temporary files cannot be written.
    pub fn new() -> Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("kproxy-test-{}-{number}", process::id()));
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes a file the way a careful tool does: beside, then renamed.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) -> io::Result<()> {
        let beside = self.path.join(format!(".{name}.new"));
        fs::write(&beside, text)?;
        fs::rename(beside, self.path.join(name))
    }

    /// Removes a file.
    ///
    /// # Errors
    /// When it is not there.
    pub fn remove(&self, name: &str) -> Result<()> {
        fs::remove_file(self.path.join(name)).with_context(|| format!("remove {name}"))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is in the system's folder for temporary files.
        let _ = fs::remove_dir_all(&self.path);
    }
}
