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

impl Reading {
    /// Receives everything there is, then follows.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn start(namespace: &Namespace, kubeconfig: PathBuf, content_type: &str) -> Result<Self> {
        let options = ConnectionOptions {
            kubeconfig: Some(kubeconfig),
            content_type: content_type.to_owned(),
            ..ConnectionOptions::default()
        };
        let handle = namespace.handle();
        let (publisher, receiver) = mailbox::open();
        let (stop, stopped) = UnixStream::pair()?;
        let (send, receive) = mpsc::channel();
        let thread = thread::spawn(move || {
            let loading = || -> Result<_> {
                handle.enter()?;
                let mut reader = ApiReader::new(options, Some("node-a"))?;
                let mut first = Vec::new();
                let loaded = reader.load(&Stop::new()?, |change| first.push(change))?;
                ensure!(loaded == Loaded::Synced, "not all was read");
                Ok((reader, first))
            };
            match loading() {
                Ok((reader, first)) => {
                    let told = (first, reader.board(), reader.client().facts());
                    let _ = send.send(Ok(told));
                    let ended = reader.run(&publisher, &stopped);
                    assert!(ended.is_ok(), "{ended:?}");
                }
                Err(error) => _ = send.send(Err(error)),
            }
        });
        let (first, board, facts) = receive
            .recv_timeout(PATIENCE)
            .context("the first reading")??;
        Ok(Self {
            first,
            receiver,
            board,
            facts,
            stop: Some(stop),
            thread: Some(thread),
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
