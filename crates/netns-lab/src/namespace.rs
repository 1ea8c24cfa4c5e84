use std::{
    fs::{self, File},
    io,
    os::fd::{AsFd as _, BorrowedFd},
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread::{self, JoinHandle},
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns, unshare},
};

use crate::{
    error::{Doing as _, LabError},
    netlink::Netlink,
    sysctl,
};

type Job = Box<dyn FnOnce() + Send>;

/// A private network namespace with loopback up, gone when dropped.
#[derive(Debug)]
pub struct Namespace {
    inner: NamespaceRef,
    jobs: Option<mpsc::Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Refers to a network namespace and keeps it alive; cheap to clone, usable from any thread.
#[derive(Debug, Clone)]
pub struct NamespaceRef {
    name: Arc<str>,
    file: Arc<File>,
}

impl Namespace {
    /// Makes a namespace. The name is for messages only.
    ///
    /// # Errors
    /// When the kernel refuses (no privilege, too many namespaces).
    pub fn new(name: &str) -> Result<Self, LabError> {
        let name: Arc<str> = name.into();
        let (jobs, todo) = mpsc::channel::<Job>();
        let (opened, result) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("netns {name}").chars().take(15).collect())
            .spawn(move || {
                // A failed send means the maker is gone, and so is the need for this thread.
                let entered = enter_new();
                let failed = entered.is_err();
                if opened.send(entered).is_err() || failed {
                    return;
                }
                for job in todo {
                    job();
                }
            })
            .doing("start a thread")?;
        let file = result.recv().map_err(|_| LabError::ThreadGone {
            namespace: (*name).into(),
        })??;
        let inner = NamespaceRef {
            name,
            file: Arc::new(file),
        };
        Ok(Self {
            inner,
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Name given at creation.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// A reference that can be handed to other threads.
    #[must_use]
    pub fn handle(&self) -> NamespaceRef {
        self.inner.clone()
    }

    /// Runs `job` on the thread inside the namespace and returns its result. Sockets it opens
    /// belong to the namespace and may be used from anywhere afterwards.
    ///
    /// # Errors
    /// [`LabError::ThreadGone`] if this or an earlier job panicked.
    pub fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, LabError> {
        let gone = || LabError::ThreadGone {
            namespace: self.name().into(),
        };
        let (done, result) = mpsc::sync_channel(1);
        let job: Job = Box::new(move || drop(done.send(job())));
        self.jobs
            .as_ref()
            .ok_or_else(gone)?
            .send(job)
            .map_err(|_| gone())?;
        result.recv().map_err(|_| gone())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take() {
            drop(thread.join());
        }
    }
}

impl NamespaceRef {
    /// Moves the calling thread into the namespace.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn enter(&self) -> Result<(), LabError> {
        setns(self.file.as_fd(), CloneFlags::CLONE_NEWNET)
            .doing(format!("enter network namespace {}", self.name))
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

fn enter_new() -> Result<File, LabError> {
    unshare(CloneFlags::CLONE_NEWNET).doing("make a network namespace")?;
    let file = File::open("/proc/thread-self/ns/net").doing("open the own network namespace")?;
    sysctl::apply_everywhere()?;
    let mut netlink = Netlink::open()?;
    let loopback = netlink.index("lo")?;
    netlink.set_up(loopback)?;
    Ok(file)
}

/// A namespace bound to `/run/netns/NAME`, where `ip netns` and `kproxy --netns` find it. Unbound
/// when dropped.
#[derive(Debug)]
pub struct NamedNamespace {
    path: PathBuf,
}

impl NamedNamespace {
    /// Binds `namespace` to a name.
    ///
    /// # Errors
    /// When the name is taken or the mount is refused (needs root).
    pub fn bind(namespace: &NamespaceRef, name: &str) -> Result<Self, LabError> {
        let folder = Path::new("/run/netns");
        fs::create_dir_all(folder).doing("make /run/netns")?;
        let path = folder.join(name);
        File::create_new(&path).doing(format!("make {}", path.display()))?;
        let bound = Self { path };
        let source = namespace.clone();
        let target = bound.path.clone();
        // A namespace file can only be bound from a thread inside, through its own link.
        thread::spawn(move || -> Result<(), LabError> {
            source.enter()?;
            mount(
                Some("/proc/thread-self/ns/net"),
                &target,
                None::<&str>,
                MsFlags::MS_BIND,
                None::<&str>,
            )
            .doing(format!("bind {}", target.display()))
        })
        .join()
        .map_err(|_| LabError::Os {
            what: "bind a namespace".into(),
            source: io::Error::other("thread panicked"),
        })??;
        Ok(bound)
    }

    /// Where it is bound.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NamedNamespace {
    fn drop(&mut self) {
        // Best effort: what fails here (say, the mount never happened) leaves at most an empty file.
        let _ = umount2(&self.path, MntFlags::MNT_DETACH);
        let _ = fs::remove_file(&self.path);
    }
}
