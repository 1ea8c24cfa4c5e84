//! Carries TCP connections from one network namespace to another, and counts what it carries.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};
use std::{
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    thread::{self, JoinHandle},
};

use anyhow::{Context as _, Result};
use netns_lab::{Namespace, NamespaceRef};

/// Bytes carried so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Carried {
    /// From clients.
    pub sent: u64,
    /// To clients.
    pub received: u64,
    /// Connections made.
    pub connections: u64,
}

/// A listener in one namespace whose connections lead to an address in another.
#[derive(Debug)]
pub struct Relay {
    at: SocketAddr,
    from: NamespaceRef,
    ended: Arc<AtomicBool>,
    carrying: Arc<Carrying>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Carrying {
    sent: AtomicU64,
    received: AtomicU64,
    connections: AtomicU64,
    /// Connections asked for, also in vain.
    attempts: AtomicU64,
    /// The clients' ends, to break them.
    open: Mutex<Vec<TcpStream>>,
    /// Held: new connections wait.
    gate: Mutex<()>,
}

impl Relay {
    /// Listens on `at` in `from`, connects to `server` in `to`.
    ///
    /// # Errors
    /// When it cannot listen.
    pub fn start(
        (from, at): (&Namespace, SocketAddr),
        (to, server): (&Namespace, SocketAddr),
    ) -> Result<Self> {
        let listener = from
            .run(move || TcpListener::bind(at))?
            .with_context(|| format!("listen on {at}"))?;
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, target) = (Arc::clone(&ended), to.handle());
        let carrying = Arc::<Carrying>::default();
        let counted = Arc::clone(&carrying);
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
                    counted.attempts.fetch_add(1, Ordering::Relaxed);
                    let gate = counted.gate.lock();
                    // A connection that fails is the client's to try again.
                    let _ = accepted
                        .and_then(|near| carry(near, TcpStream::connect(server)?, &counted));
                    drop(gate);
                }
            })
            .context("start a thread")?;
        Ok(Self {
            at,
            from: from.handle(),
            ended,
            carrying,
            thread: Some(thread),
        })
    }

    /// What was carried so far.
    #[must_use]
    pub fn carried(&self) -> Carried {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Carried {
            sent: count(&self.carrying.sent),
            received: count(&self.carrying.received),
            connections: count(&self.carrying.connections),
        }
    }

    /// How many connections were asked for so far, also while nobody listened.
    #[must_use]
    pub fn attempts(&self) -> u64 {
        self.carrying.attempts.load(Ordering::Relaxed)
    }

    /// Breaks all connections; new ones wait until what is returned is dropped.
    #[must_use]
    pub fn cut(&self) -> Held<'_> {
        let held = self.carrying.gate.lock();
        let held = held.unwrap_or_else(PoisonError::into_inner);
        let open = self.carrying.open.lock();
        for connection in open.unwrap_or_else(PoisonError::into_inner).drain(..) {
            // It may be closed already.
            let _ = connection.shutdown(Shutdown::Both);
        }
        Held(held)
    }
}

/// Connections wait while it is there.
#[derive(Debug)]
pub struct Held<'r>(#[allow(dead_code, reason = "dropped")] MutexGuard<'r, ()>);

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
fn carry(near: TcpStream, far: TcpStream, carrying: &Arc<Carrying>) -> io::Result<()> {
    carrying.connections.fetch_add(1, Ordering::Relaxed);
    let open = carrying.open.lock();
    open.unwrap_or_else(PoisonError::into_inner)
        .push(near.try_clone()?);
    let sent: fn(&Carrying) -> &AtomicU64 = |carrying| &carrying.sent;
    let received: fn(&Carrying) -> &AtomicU64 = |carrying| &carrying.received;
    let there = (near.try_clone()?, far.try_clone()?, sent);
    for (mut from, mut to, count) in [there, (far, near, received)] {
        let carrying = Arc::clone(carrying);
        thread::Builder::new().spawn(move || {
            let mut buffer = vec![0; 64 << 10];
            // Either end may break the connection at any time.
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let length64 = u64::try_from(length).unwrap_or_default();
                count(&carrying).fetch_add(length64, Ordering::Relaxed);
                if to
                    .write_all(buffer.get(..length).unwrap_or_default())
                    .is_err()
                {
                    break;
                }
            }
            let _ = to.shutdown(Shutdown::Write);
        })?;
    }
    Ok(())
}
