//! Carries TCP connections from one network namespace to another.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, Ordering},
};
use std::{
    io,
    net::{Shutdown, TcpListener, TcpStream},
    sync::Arc,
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use netns_lab::{Namespace, NamespaceRef};

/// A listener in one namespace whose connections lead to an address in another.
#[derive(Debug)]
pub(super) struct Relay {
    at: SocketAddr,
    from: NamespaceRef,
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Listens on `at` in `from`, connects to `server` in `to`.
    pub(super) fn start(
        (from, at): (&Namespace, SocketAddr),
        (to, server): (&Namespace, SocketAddr),
    ) -> Result<Self> {
        let listener = from
            .run(move || TcpListener::bind(at))?
            .with_context(|| format!("listen on {at}"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, target) = (Arc::clone(&ended), to.handle());
        let thread = thread::Builder::new()
            .name("relay".into())
            .spawn(move || {
                // Connections are made in the target's namespace.
                if target.enter().is_err() {
                    return;
                }
                for accepted in listener.incoming() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    // A connection that fails is the client's to try again.
                    let _ = accepted.and_then(|near| carry(near, TcpStream::connect(server)?));
                }
            })
            .context("start a thread")?;
        Ok(Self {
            at,
            from: from.handle(),
            ended,
            thread: Some(thread),
        })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
        let (from, at) = (self.from.clone(), self.at);
        // Wakes the thread, which waits for a connection.
        let woken = thread::spawn(move || from.enter().is_ok() && TcpStream::connect(at).is_ok());
        if woken.join().unwrap_or(false)
            && let Some(thread) = self.thread.take()
        {
            drop(thread.join());
        }
    }
}

/// Copies both ways, on two threads that end with the connection.
fn carry(near: TcpStream, far: TcpStream) -> io::Result<()> {
    let ways = [(near.try_clone()?, far.try_clone()?), (far, near)];
    for (mut from, mut to) in ways {
        thread::Builder::new().spawn(move || {
            // Either end may break the connection at any time.
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    Ok(())
}
