//! Folders whose files all change at once, as kubelet keeps ConfigMaps and tokens.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// The link that is swapped (Kubernetes, `pkg/volume/util/atomic_writer.go`).
const DATA: &str = "..data";

/// `file -> ..data/file`, and `..data -> ..1`: one rename of `..data` changes all files.
#[derive(Debug)]
pub struct SwappedFolder {
    path: PathBuf,
    generation: u32,
}

impl SwappedFolder {
    /// Makes it, with files and their text.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn new(path: &Path, files: &BTreeMap<String, String>) -> Result<Self> {
        fs::create_dir_all(path).with_context(|| path.display().to_string())?;
        let mut folder = Self {
            path: path.to_owned(),
            generation: 0,
        };
        folder.swap(files)?;
        Ok(folder)
    }

    /// Replaces all files at once.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn swap(&mut self, files: &BTreeMap<String, String>) -> Result<()> {
        let last = self.path.join(format!("..{}", self.generation));
        self.generation += 1;
        let name = format!("..{}", self.generation);
        fs::create_dir(self.path.join(&name))?;
        for (file, text) in files {
            fs::write(self.path.join(&name).join(file), text)?;
        }
        let beside = self.path.join("..data_tmp");
        symlink(&name, &beside)?;
        fs::rename(&beside, self.path.join(DATA))?;
        for file in files.keys() {
            let link = self.path.join(file);
            if !link.is_symlink() {
                symlink(Path::new(DATA).join(file), &link)?;
            }
        }
        if last.is_dir() {
            fs::remove_dir_all(last)?;
        }
        Ok(())
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}
