//! inotify on one file by its path, wherever links lead.
//!
//! Watched are the entries that decide which file the path means (its name in its folder, and each symbolic
//! link on the way), the folders themselves, and the file: it may be mounted there alone, or have further
//! names, and is then written where no folder of the path shows it. What is missing is waited for where it
//! is to appear. After each change the path is followed anew.

use core::mem::MaybeUninit;
use std::collections::{HashMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// As the kernel (linux/namei.h: `MAXSYMLINKS`).
const MAX_LINKS: u32 = 40;

/// Watches a file.
#[derive(Debug)]
pub struct FileWatch {
    path: PathBuf,
    places: Places,
}

impl FileWatch {
    /// Starts to watch `path`, whether it exists or not. What changes from here on is not missed.
    ///
    /// # Errors
    /// ENOSPC and EMFILE when the user's watches are used up.
    pub fn new(path: &Path) -> io::Result<Self> {
        let path = std::path::absolute(path)?;
        let mut places = Places::new()?;
        places.follow(&path)?;
        Ok(Self { path, places })
    }

    /// Whether the path may mean another file, or its file has other content, than at the last call; does not
    /// wait. While a writer has it open it has not changed. Where the user's watches are used up by now, that
    /// is logged, and some changes may be missed: no reason to end for whoever is at work.
    ///
    /// # Errors
    /// Of `read(2)`.
    pub fn drain(&mut self) -> io::Result<bool> {
        let changed = self.places.read()?;
        if changed && let Err(error) = self.places.follow_anew(&self.path) {
            let path = self.path.display();
            tracing::warn!("{path}: not all that leads there can be watched any more: {error}");
        }
        Ok(changed)
    }
}

impl AsFd for FileWatch {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.places.inotify.as_fd()
    }
}

/// What is watched for a path as it is now.
#[derive(Debug)]
struct Places {
    /// One for good: a user has few (`fs.inotify.max_user_instances`).
    inotify: OwnedFd,
    watches: HashSet<i32>,
    /// Folders by their watches, and the entries that matter.
    entries: HashMap<i32, (PathBuf, HashSet<OsString>)>,
}

impl Places {
    fn new() -> io::Result<Self> {
        Ok(Self {
            inotify: inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?,
            watches: HashSet::new(),
            entries: HashMap::new(),
        })
    }

    /// After a change: what does not matter any more is watched no more.
    fn follow_anew(&mut self, path: &Path) -> io::Result<()> {
        let before = core::mem::take(&mut self.watches);
        self.entries.clear();
        let followed = self.follow(path);
        for watch in before.difference(&self.watches) {
            // It may have gone with what it watched.
            let _ = inotify::remove_watch(&self.inotify, *watch);
        }
        followed
    }

    /// Goes from the root along the path.
    fn follow(&mut self, path: &Path) -> io::Result<()> {
        let mut here = PathBuf::from("/");
        let mut rest = names(path);
        let mut links = 0;
        while let Some(name) = rest.pop() {
            if name == ".." {
                here.pop();
                continue;
            }
            let next = here.join(&name);
            match fs::symlink_metadata(&next) {
                Ok(found) if found.is_symlink() => {
                    self.entry(&here, &name)?;
                    links += 1;
                    let Ok(target) = fs::read_link(&next) else {
                        return Ok(());
                    };
                    if links > MAX_LINKS {
                        return Ok(());
                    }
                    if target.is_absolute() {
                        here = PathBuf::from("/");
                    }
                    rest.extend(names(&target));
                }
                Ok(_) if rest.is_empty() => {
                    self.entry(&here, &name)?;
                    // Permissions, too: it may become readable.
                    let written = WatchFlags::CLOSE_WRITE | WatchFlags::ATTRIB;
                    self.watch(&next, GONE | written)?;
                }
                Ok(_) => {
                    self.watch(&next, GONE)?;
                    here = next;
                }
                Err(_) => {
                    self.entry(&here, &name)?;
                    // It may have been made just before that.
                    if links > MAX_LINKS || fs::symlink_metadata(&next).is_err() {
                        return Ok(());
                    }
                    links += 1;
                    rest.push(name);
                }
            }
        }
        Ok(())
    }

    /// Watches an entry of a folder.
    fn entry(&mut self, folder: &Path, name: &OsStr) -> io::Result<()> {
        if let Some(watch) = self.watch(folder, GONE | ENTRIES)? {
            let (_, names) = self
                .entries
                .entry(watch)
                .or_insert_with(|| (folder.to_owned(), HashSet::new()));
            names.insert(name.to_owned());
        }
        Ok(())
    }

    /// Watches what is at a path now; nothing if that is gone, or not to be read.
    fn watch(&mut self, path: &Path, events: WatchFlags) -> io::Result<Option<i32>> {
        match inotify::add_watch(&self.inotify, path, events | WatchFlags::MASK_ADD) {
            Ok(watch) => {
                self.watches.insert(watch);
                Ok(Some(watch))
            }
            Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads all events; whether one matters.
    fn read(&self) -> io::Result<bool> {
        let mut changed = false;
        let mut buffer = [MaybeUninit::uninit(); 16 << 10];
        let mut reader = Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Ok(event) => event,
                Err(Errno::AGAIN) => return Ok(changed),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            changed |= match event.file_name() {
                // The end of a watch: what ended it says so itself.
                None if event.events().contains(ReadFlags::IGNORED) => false,
                None => true,
                Some(name) => {
                    let name = OsStr::from_bytes(name.to_bytes());
                    self.matters(event.wd(), name, event.events())
                }
            };
        }
    }

    fn matters(&self, watch: i32, name: &OsStr, events: ReadFlags) -> bool {
        let Some((folder, names)) = self.entries.get(&watch) else {
            return false;
        };
        // A new file that is still to be written says so itself when it is closed.
        names.contains(name)
            && (!events.contains(ReadFlags::CREATE) || !is_begun(&folder.join(name)))
    }
}

/// Whether a new entry is a file that somebody has just begun: no link, and no further name of another.
fn is_begun(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.nlink() == 1)
}

/// What was watched is not there any more.
const GONE: WatchFlags = WatchFlags::DELETE_SELF.union(WatchFlags::MOVE_SELF);
/// What may become of the entries of a folder.
const ENTRIES: WatchFlags = WatchFlags::CLOSE_WRITE
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::CREATE)
    .union(WatchFlags::DELETE);

/// The names of a path, the last one first.
fn names(path: &Path) -> Vec<OsString> {
    let names = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some("..".into()),
        _ => None,
    });
    let mut names: Vec<_> = names.collect();
    names.reverse();
    names
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::io::Write as _;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// Does things in a folder, and expects of each whether it is noticed.
    struct Tried {
        folder: tempfile::TempDir,
        watch: FileWatch,
    }

    impl Tried {
        /// Watches a path in a folder that is prepared first.
        fn new(path: &str, prepare: impl FnOnce(&Path)) -> Self {
            let folder = tempfile::tempdir().unwrap();
            prepare(folder.path());
            let mut watch = FileWatch::new(&folder.path().join(path)).unwrap();
            assert!(!watch.drain().unwrap(), "nothing happened yet");
            Self { folder, watch }
        }

        #[track_caller]
        fn notices(&mut self, expected: bool, what: impl FnOnce(&Path)) {
            what(self.folder.path());
            assert_eq!(self.watch.drain().unwrap(), expected);
            assert!(!self.watch.drain().unwrap(), "told once");
        }
    }

    fn put(path: PathBuf) {
        fs::write(path, "text").unwrap();
    }

    fn swap(link: &Path, target: &str) {
        let new = link.with_file_name(".new");
        symlink(target, &new).unwrap();
        fs::rename(new, link).unwrap();
    }

    #[test]
    fn a_file_is_followed_by_its_name() {
        let mut tried = Tried::new("f", |it| put(it.join("f")));
        tried.notices(true, |it| put(it.join("f")));
        tried.notices(false, |it| put(it.join("other")));
        tried.notices(true, |it| {
            fs::rename(it.join("other"), it.join("f")).unwrap()
        });
        tried.notices(true, |it| fs::rename(it.join("f"), it.join("g")).unwrap());
        tried.notices(false, |it| put(it.join("g")));
        tried.notices(true, |it| {
            fs::hard_link(it.join("g"), it.join("f")).unwrap()
        });
        // By its other name.
        tried.notices(true, |it| put(it.join("g")));
        tried.notices(true, |it| fs::remove_file(it.join("f")).unwrap());
        let mut open = None;
        tried.notices(false, |it| {
            let mut file = File::create(it.join("f")).unwrap();
            file.write_all(b"half").unwrap();
            open = Some(file);
        });
        tried.notices(true, |_| drop(open));
        let unreadable = Permissions::from_mode(0o0);
        tried.notices(true, |it| {
            fs::set_permissions(it.join("f"), unreadable).unwrap()
        });
    }

    #[test]
    fn links_are_followed_each_of_them() {
        let mut tried = Tried::new("etc/f", |it| {
            for folder in ["etc", "one", "two"] {
                fs::create_dir(it.join(folder)).unwrap();
                put(it.join(folder).join("real"));
            }
            symlink("one", it.join("current")).unwrap();
            symlink("../current/real", it.join("etc/f")).unwrap();
        });
        tried.notices(true, |it| put(it.join("one/real")));
        tried.notices(false, |it| put(it.join("two/real")));
        tried.notices(true, |it| swap(&it.join("current"), "two"));
        tried.notices(false, |it| put(it.join("one/real")));
        tried.notices(true, |it| put(it.join("two/real")));
        tried.notices(true, |it| swap(&it.join("etc/f"), "../two/other"));
        tried.notices(false, |it| put(it.join("two/real")));
        tried.notices(true, |it| put(it.join("two/other")));
        tried.notices(true, |it| swap(&it.join("etc/f"), "f"));
        tried.notices(true, |it| fs::remove_file(it.join("etc/f")).unwrap());
    }

    #[test]
    fn folders_may_go_and_come_back() {
        let mut tried = Tried::new("a/b/f", |_| ());
        tried.notices(false, |it| put(it.join("x")));
        tried.notices(true, |it| fs::create_dir(it.join("a")).unwrap());
        tried.notices(true, |it| fs::create_dir(it.join("a/b")).unwrap());
        tried.notices(true, |it| put(it.join("a/b/f")));
        tried.notices(true, |it| {
            fs::rename(it.join("a"), it.join("away")).unwrap()
        });
        tried.notices(false, |it| put(it.join("away/b/f")));
        tried.notices(true, |it| {
            fs::rename(it.join("away"), it.join("a")).unwrap()
        });
        tried.notices(true, |it| put(it.join("a/b/f")));
        tried.notices(true, |it| fs::remove_dir_all(it.join("a")).unwrap());
        tried.notices(true, |it| {
            fs::create_dir_all(it.join("a/b")).unwrap();
            put(it.join("a/b/f"));
        });
        tried.notices(true, |it| put(it.join("a/b/f")));
    }

    /// Instances and watches are few, and others on the node need them too.
    #[test]
    fn no_more_is_watched_after_many_changes() {
        let mut tried = Tried::new("link/f", |it| {
            for folder in ["one", "two"] {
                fs::create_dir(it.join(folder)).unwrap();
                put(it.join(folder).join("f"));
            }
            symlink("one", it.join("link")).unwrap();
        });
        let watched = |tried: &Tried| {
            let instance = tried.watch.as_fd().as_raw_fd();
            let shown = fs::read_to_string(format!("/proc/self/fdinfo/{instance}")).unwrap();
            let watches = shown.lines().filter(|line| line.starts_with("inotify"));
            (instance, watches.count())
        };
        let before = watched(&tried);
        for target in ["two", "one"].repeat(20) {
            tried.notices(true, |it| swap(&it.join("link"), target));
        }
        assert_eq!(watched(&tried), before);
    }

    /// As the kubelet mounts a ConfigMap.
    #[test]
    fn a_config_map_is_swapped() {
        let version = |it: &Path, name: &str| {
            fs::create_dir(it.join(name)).unwrap();
            put(it.join(name).join("f"));
        };
        let mut tried = Tried::new("f", |it| {
            version(it, "..1");
            symlink("..1", it.join("..data")).unwrap();
            symlink("..data/f", it.join("f")).unwrap();
        });
        tried.notices(false, |it| version(it, "..2"));
        tried.notices(true, |it| swap(&it.join("..data"), "..2"));
        tried.notices(false, |it| fs::remove_dir_all(it.join("..1")).unwrap());
    }
}
