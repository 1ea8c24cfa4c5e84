//! The reader of the API server, on a thread of its own in a network namespace.

use core::time::Duration;
use std::{os::unix::net::UnixStream, path::PathBuf, sync::mpsc, thread};

use anyhow::{Context as _, Result, ensure};
use kproxy::{
    apiserver::{ApiBoard, ApiReader, ConnectionOptions, Loaded, RequestFacts},
    watch::Stop,
};
use netns_lab::Namespace;
use svc_planner::{
    mailbox::{self, Receiver, Wake},
    object::Change,
};

/// What must come comes within this time.
const PATIENCE: Duration = Duration::from_secs(120);

/// See the module; it ends when dropped.
#[derive(Debug)]
pub struct Reading {
    /// What was received first.
    pub first: Vec<Change>,
    receiver: Receiver,
    /// How it is doing.
    pub board: ApiBoard,
    /// Its requests.
    pub facts: RequestFacts,
    stop: Option<UnixStream>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A first reading that may take its time. Dropped, it goes on until the process ends.
#[derive(Debug)]
pub struct Loading {
    first: mpsc::Receiver<Result<Vec<Change>>>,
    receiver: Receiver,
    /// How it is doing.
    pub board: ApiBoard,
    facts: RequestFacts,
    stop: UnixStream,
    thread: thread::JoinHandle<()>,
}

impl Loading {
    /// Waits until everything was received.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn finished(self) -> Result<Reading> {
        let first = self.first.recv_timeout(PATIENCE);
        Ok(Reading {
            first: first.context("the first reading")??,
            receiver: self.receiver,
            board: self.board,
            facts: self.facts,
            stop: Some(self.stop),
            thread: Some(self.thread),
        })
    }
}

impl Reading {
    /// Receives everything there is, then follows.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn start(namespace: &Namespace, kubeconfig: PathBuf, content_type: &str) -> Result<Self> {
        Self::begin(namespace, kubeconfig, content_type)?.finished()
    }

    /// Begins to receive everything there is.
    ///
    /// # Errors
    /// Of the kubeconfig.
    pub fn begin(
        namespace: &Namespace,
        kubeconfig: PathBuf,
        content_type: &str,
    ) -> Result<Loading> {
        let options = ConnectionOptions {
            kubeconfig: Some(kubeconfig),
            content_type: content_type.to_owned(),
            ..ConnectionOptions::default()
        };
        let handle = namespace.handle();
        let (publisher, receiver) = mailbox::open();
        let (stop, stopped) = UnixStream::pair()?;
        let (opened, open) = mpsc::channel();
        let (loaded, first) = mpsc::channel();
        let thread = thread::spawn(move || {
            let opening = || -> Result<_> {
                handle.enter()?;
                Ok(ApiReader::new(options, Some("node-a"))?)
            };
            let mut reader = match opening() {
                Ok(reader) => reader,
                Err(error) => {
                    let _ = opened.send(Err(error));
                    return;
                }
            };
            let _ = opened.send(Ok((reader.board(), reader.client().facts())));
            let mut loading = || -> Result<_> {
                let mut first = Vec::new();
                let done = reader.load(&Stop::new()?, |change| first.push(change))?;
                ensure!(done == Loaded::Synced, "not all was read");
                Ok(first)
            };
            let done = loading();
            let failed = done.is_err();
            let _ = loaded.send(done);
            if !failed {
                let ended = reader.run(&publisher, &stopped);
                assert!(ended.is_ok(), "{ended:?}");
            }
        });
        let (board, facts) = open.recv_timeout(PATIENCE).context("the reader")??;
        Ok(Loading {
            first,
            receiver,
            board,
            facts,
            stop,
            thread,
        })
    }

    /// Changes until one of them is as said.
    ///
    /// # Errors
    /// When none comes.
    pub fn until(&mut self, is: impl Fn(&Change) -> bool) -> Result<Vec<Change>> {
        let mut seen = Vec::new();
        loop {
            let woken = self.receiver.wait(Some(PATIENCE));
            ensure!(woken == Wake::Changes, "{woken:?} after {seen:?}");
            seen.extend(self.receiver.drain());
            if seen.iter().any(&is) {
                return Ok(seen);
            }
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let ended = thread.join();
            assert!(ended.is_ok() || thread::panicking());
        }
    }
}
