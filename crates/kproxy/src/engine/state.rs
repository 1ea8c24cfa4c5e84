//! What outlives the process: the planners' snapshots, one file per network namespace and family.
//!
//! A snapshot is believed only if the table still is what it describes: its state row is there (the
//! transaction it was taken after is our last), and chains, rules and sets have the handles and the
//! numbers of elements they had. Handles are never used twice in a table, so whatever was deleted,
//! flushed or added by somebody else shows. A file ends with a checksum: a number that is another one
//! could make rows of one Service those of another.

use core::hash::Hasher as _;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Seek as _, Write};
use std::os::fd::{AsFd as _, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::thread;

use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use svc_planner::plan::Family;
use svc_planner::{LiveSnapshot, Snapshot};

use super::EngineError;
use super::fnv::Fnv;
use crate::netns::Netns;
use crate::watch::wait;

/// Default folder for snapshots; gone after a reboot, as the tables are.
pub const STATE_DIR: &str = "/run/kproxy";

/// Of a checksum at the end of a file, in hexadecimal.
const SUM_DIGITS: usize = 16;

/// A folder with the state of one network namespace.
#[derive(Debug)]
pub struct StateDir {
    folder: PathBuf,
    /// Device and inode of the namespace.
    namespace: (u64, u64),
    /// Held against other processes; a mere reader has none.
    _lock: Option<File>,
}

/// A snapshot and what the table looked like when it was taken.
#[derive(Debug, Deserialize)]
pub(super) struct Saved {
    pub(super) digest: u64,
    pub(super) snapshot: Snapshot,
}

/// The same on its way into the file.
#[derive(Debug, Serialize)]
pub(super) struct Saving<'p> {
    pub(super) digest: u64,
    pub(super) snapshot: LiveSnapshot<'p>,
}

impl StateDir {
    /// The state of `netns` in `folder`, to be read only: takes no lock, makes nothing. The folder
    /// need not exist.
    ///
    /// # Errors
    /// [`EngineError::Start`], [`EngineError::State`].
    pub fn look(folder: &Path, netns: &Netns) -> Result<Self, EngineError> {
        let namespace = match netns.open()? {
            Some(file) => file.metadata(),
            None => fs::metadata("/proc/thread-self/ns/net"),
        };
        let namespace = namespace.map_err(|error| EngineError::State {
            path: folder.to_owned(),
            error,
        })?;
        Ok(Self {
            folder: folder.to_owned(),
            namespace: (namespace.dev(), namespace.ino()),
            _lock: None,
        })
    }

    /// The state of `netns` in `folder`, which is made if need be, locked against other processes.
    ///
    /// # Errors
    /// [`EngineError::State`]; [`EngineError::Busy`] while another process works there.
    pub fn open(folder: &Path, netns: &Netns) -> Result<Self, EngineError> {
        let mut state = Self::look(folder, netns)?;
        let fail = |error| EngineError::State {
            path: folder.to_owned(),
            error,
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)
            .map_err(fail)?;
        let path = state.lock_path();
        let lock = private_file(&path).map_err(fail)?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(EngineError::Busy { lock: path }),
            Err(error) => return Err(fail(error.into())),
        }
        state._lock = Some(lock);
        Ok(state)
    }

    /// As [`open`](Self::open), but waits for another process to end, as a standby; `None` if `stop`
    /// becomes readable before.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn open_in_turn(
        folder: &Path,
        netns: &Netns,
        stop: BorrowedFd<'_>,
    ) -> Result<Option<Self>, EngineError> {
        let lock = match Self::open(folder, netns) {
            Err(EngineError::Busy { lock }) => lock,
            opened => return opened.map(Some),
        };
        tracing::warn!(
            "another kproxy is at work in this network namespace ({} is locked); \
             taking over when it ends",
            lock.display()
        );
        let fail = |error| EngineError::State {
            path: lock.clone(),
            error,
        };
        let file = private_file(&lock).map_err(fail)?;
        let (ended, end) = UnixStream::pair().map_err(fail)?;
        // It waits for as long as it takes; if that is too long, it ends with the process.
        let waiting = thread::Builder::new()
            .name("standby".to_owned())
            .spawn(move || {
                let locked = flock(&file, FlockOperation::LockExclusive);
                drop(end);
                locked.map(|()| file)
            })
            .map_err(fail)?;
        // A signal ends the wait before its pipe is seen to be readable.
        loop {
            match wait([stop, ended.as_fd()], None).map_err(fail)? {
                [true, _] => return Ok(None),
                [false, true] => break,
                [false, false] => {}
            }
        }
        let locked = waiting
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut state = Self::look(folder, netns)?;
        state._lock = Some(locked.map_err(|error| fail(error.into()))?);
        tracing::warn!("the other kproxy has ended; taking over");
        Ok(Some(state))
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Whether a process has it locked, and so is at work in the network namespace.
    ///
    /// # Errors
    /// [`EngineError::State`].
    pub fn in_use(&self) -> Result<bool, EngineError> {
        let path = self.lock_path();
        let lock = match File::open(&path) {
            Ok(lock) => lock,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(EngineError::State { path, error }),
        };
        // Shared, so that readers do not take each other for a writer; let go of at once.
        match flock(&lock, FlockOperation::NonBlockingLockShared) {
            Ok(()) => Ok(false),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(true),
            Err(error) => Err(EngineError::State {
                path,
                error: error.into(),
            }),
        }
    }

    /// The saved state of a family; `None` without one, or with one that cannot be read.
    pub(super) fn load(&self, family: Family) -> Option<Saved> {
        let path = self.path(family);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
            Err(error) => {
                tracing::warn!("{}: {error}", path.display());
                return None;
            }
        };
        let warn = |error: io::Error| tracing::warn!("{}: {error}", path.display());
        let json = intact(file).map_err(warn).ok()?;
        let read = serde_json::from_reader(BufReader::new(json));
        read.map_err(|error| warn(error.into())).ok()
    }

    /// Replaces the saved state of a family.
    pub(super) fn save(&self, family: Family, saving: &Saving<'_>) -> Result<(), EngineError> {
        let path = self.path(family);
        let new = path.with_extension("new");
        let write = || -> io::Result<()> {
            let file = BufWriter::with_capacity(1 << 18, private_file(&new)?);
            let mut summed = Summed {
                inner: file,
                sum: Fnv::default(),
            };
            serde_json::to_writer(&mut summed, saving)?;
            let (mut file, sum) = (summed.inner, summed.sum.finish());
            write!(file, "\n{sum:0SUM_DIGITS$x}\n")?;
            file.flush()?;
            fs::rename(&new, &path)
        };
        write().map_err(|error| EngineError::State { path, error })
    }

    /// Forgets the saved state of a family.
    pub(super) fn remove(&self, family: Family) {
        let path = self.path(family);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!("{}: {error}", path.display());
            }
            _ => {}
        }
    }

    fn lock_path(&self) -> PathBuf {
        let (device, inode) = self.namespace;
        self.folder.join(format!("{device}-{inode}.lock"))
    }

    fn path(&self, family: Family) -> PathBuf {
        let (device, inode) = self.namespace;
        self.folder.join(format!("{device}-{inode}-{family}.json"))
    }
}

/// What is before the checksum of a file, if that is right.
fn intact(mut file: File) -> io::Result<impl Read> {
    let damaged = || {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "damaged, or not of this release",
        )
    };
    let trailer = SUM_DIGITS as u64 + 2;
    let json = file.metadata()?.len().checked_sub(trailer);
    let json = json.ok_or_else(damaged)?;
    let mut summed = Summed {
        inner: io::sink(),
        sum: Fnv::default(),
    };
    io::copy(&mut (&mut file).take(json), &mut summed)?;
    let mut last = String::new();
    file.read_to_string(&mut last)?;
    let sum = last.strip_prefix('\n').and_then(|it| it.strip_suffix('\n'));
    let sum = sum.and_then(|sum| u64::from_str_radix(sum, 16).ok());
    if sum != Some(summed.sum.finish()) {
        return Err(damaged());
    }
    file.rewind()?;
    Ok(file.take(json))
}

/// A writer that sums up what it writes.
struct Summed<W> {
    inner: W,
    sum: Fnv,
}

impl<W: Write> Write for Summed<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.sum.write(bytes.get(..written).unwrap_or_default());
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

fn private_file(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
}
