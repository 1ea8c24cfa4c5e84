//! inotify on one folder, for manifests.
//!
//! A file counts as changed when its writer closes it, or when it is moved in or out, linked or
//! deleted; never while it is being written. Mounted ConfigMaps replace the hidden link `..data`,
//! through which all their files go: then all files may have changed. A folder that is deleted or
//! moved away is waited for, by watching its parent.

use core::mem::MaybeUninit;
use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// What happened in a folder since the last look.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FolderChanges {
    /// Entries that changed.
    pub names: HashSet<PathBuf>,
    /// Any entry may have changed.
    pub all: bool,
    /// The folder itself is gone, and waited for.
    pub gone: bool,
}

impl FolderChanges {
    /// What to read again, in the words of [`crate::manifest::Source::refresh`].
    #[must_use]
    pub fn names(&self) -> Option<&HashSet<PathBuf>> {
        (!self.all).then_some(&self.names)
    }

    /// Whether nothing happened that matters.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && !self.all && !self.gone
    }
}

/// Watches a folder.
#[derive(Debug)]
pub struct FolderWatch {
    inotify: OwnedFd,
    folder: PathBuf,
    /// The folder is gone; its parent is what is watched.
    waiting: bool,
}

impl FolderWatch {
    /// Starts to watch `folder`. What changes from here on is not missed.
    ///
    /// # Errors
    /// ENOTDIR and ENOENT for what is no folder; ENOSPC when the user's watches are used up.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let events = WatchFlags::CLOSE_WRITE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::DELETE_SELF
            | WatchFlags::MOVE_SELF;
        Ok(Self {
            inotify: watch(folder, events)?,
            folder: folder.to_owned(),
            waiting: false,
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Everything that happened until now, as one change; does not wait.
    ///
    /// # Errors
    /// Of `read(2)`; of watching the parent of a folder that is gone.
    pub fn drain(&mut self) -> io::Result<FolderChanges> {
        let changes = self.read()?;
        if changes.gone || self.waiting {
            return self.reopen();
        }
        Ok(changes)
    }

    /// Watches the folder again if it is back, else its parent.
    fn reopen(&mut self) -> io::Result<FolderChanges> {
        if !self.waiting {
            let parent = match self.folder.parent() {
                Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
                Some(parent) => parent,
                None => return Err(io::ErrorKind::NotFound.into()),
            };
            self.inotify = watch(parent, WatchFlags::CREATE | WatchFlags::MOVED_TO)?;
            self.waiting = true;
        }
        // After the parent is watched: what is made in between is not missed.
        match Self::new(&self.folder) {
            Ok(back) => {
                *self = back;
                Ok(FolderChanges {
                    all: true,
                    ..FolderChanges::default()
                })
            }
            Err(_) => Ok(FolderChanges {
                gone: true,
                ..FolderChanges::default()
            }),
        }
    }

    fn read(&self) -> io::Result<FolderChanges> {
        let mut changes = FolderChanges::default();
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(changes),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            let events = event.events();
            let gone = ReadFlags::DELETE_SELF
                | ReadFlags::MOVE_SELF
                | ReadFlags::UNMOUNT
                | ReadFlags::IGNORED;
            changes.gone |= events.intersects(gone);
            changes.all |= events.contains(ReadFlags::QUEUE_OVERFLOW);
            let Some(name) = event.file_name() else {
                continue;
            };
            let name = Path::new(std::ffi::OsStr::from_bytes(name.to_bytes()));
            if name.as_os_str().as_bytes().starts_with(b"..") {
                let moved = ReadFlags::MOVED_TO | ReadFlags::DELETE;
                changes.all |= events.intersects(moved);
                continue;
            }
            // A new file that is still to be written says so itself when it is closed.
            if events.contains(ReadFlags::CREATE) && !is_complete(&self.folder.join(name)) {
                continue;
            }
            changes.names.insert(name.to_owned());
        }
    }
}

/// An inotify instance for a folder.
fn watch(folder: &Path, events: WatchFlags) -> io::Result<OwnedFd> {
    let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
    inotify::add_watch(&inotify, folder, events | WatchFlags::ONLYDIR)?;
    Ok(inotify)
}

/// Whether a new entry has its content already: a symbolic link, or a further name of a file.
fn is_complete(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_ok_and(|metadata| metadata.file_type().is_symlink() || metadata.nlink() > 1)
}

impl AsFd for FolderWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn names(changes: &FolderChanges) -> Vec<&str> {
        let mut names: Vec<_> = changes
            .names
            .iter()
            .filter_map(|name| name.to_str())
            .collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn finished_files_count_unfinished_ones_do_not() {
        let folder = tempfile::tempdir().unwrap();
        let mut watch = FolderWatch::new(folder.path()).unwrap();
        assert!(watch.drain().unwrap().is_empty());

        let open = fs::File::create(folder.path().join("a.yaml")).unwrap();
        assert!(watch.drain().unwrap().is_empty());
        drop(open);
        assert_eq!(names(&watch.drain().unwrap()), ["a.yaml"]);

        fs::rename(folder.path().join("a.yaml"), folder.path().join("b.yaml")).unwrap();
        symlink("b.yaml", folder.path().join("c.yaml")).unwrap();
        fs::hard_link(folder.path().join("b.yaml"), folder.path().join("d.yaml")).unwrap();
        let changes = watch.drain().unwrap();
        assert_eq!(names(&changes), ["a.yaml", "b.yaml", "c.yaml", "d.yaml"]);
        assert!(!changes.all);
    }

    #[test]
    fn a_swapped_data_link_means_everything() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        fs::create_dir(path.join("..1")).unwrap();
        symlink("..1", path.join("..data")).unwrap();
        let mut watch = FolderWatch::new(path).unwrap();
        fs::create_dir(path.join("..2")).unwrap();
        symlink("..2", path.join("..data_tmp")).unwrap();
        fs::rename(path.join("..data_tmp"), path.join("..data")).unwrap();
        let changes = watch.drain().unwrap();
        assert!(changes.all);
        assert_eq!(changes.names(), None);
    }

    #[test]
    fn the_folder_can_go_and_come_back() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("manifests");
        fs::create_dir(&folder).unwrap();
        let mut watch = FolderWatch::new(&folder).unwrap();
        fs::rename(&folder, parent.path().join("away")).unwrap();
        assert!(watch.drain().unwrap().gone);
        fs::create_dir(parent.path().join("another")).unwrap();
        assert!(watch.drain().unwrap().gone);
        fs::rename(parent.path().join("away"), &folder).unwrap();
        let back = watch.drain().unwrap();
        assert!(back.all && !back.gone, "{back:?}");
        fs::write(folder.join("a.yaml"), "").unwrap();
        assert_eq!(names(&watch.drain().unwrap()), ["a.yaml"]);
        fs::remove_dir_all(&folder).unwrap();
        assert!(watch.drain().unwrap().gone);
        assert!(FolderWatch::new(Path::new("/no/such/folder")).is_err());
    }
}
