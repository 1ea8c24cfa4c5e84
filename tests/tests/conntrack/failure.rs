//! A commit that fails.

use core::sync::atomic::{AtomicBool, Ordering};
use std::{io::IoSlice, sync::Arc};

use anyhow::{Result, ensure};
use e2e::engine;
use kproxy::{conntrack::Reconciler, engine::Engine, netns::Netns};
use nft_batch::{Connection, Datagram, Errno, Socket, Wait};
use svc_planner::Config;

use crate::bench::{Family, PORT, ends, on_each, until};

/// A socket on which one batch gets lost.
struct Lossy {
    socket: Socket,
    lose: Arc<AtomicBool>,
}

impl nft_batch::Transport for Lossy {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let len = parts.iter().map(|part| part.len()).sum();
        let rows = parts.len() > 2;
        if rows && self.lose.swap(false, Ordering::Relaxed) {
            return Err(Errno::ENOBUFS);
        }
        self.socket.send(parts).map(|sent| sent.min(len))
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        self.socket.recv(buf, wait)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

#[test]
fn what_a_failed_commit_leaves_behind_is_cut_with_the_next_one() -> Result<()> {
    on_each(|bench| {
        let Family { vip, a, b, .. } = *bench.family;
        let node = bench.topology.node();
        let lose = Arc::new(AtomicBool::new(false));
        let socket = node.run(Socket::open)??;
        let connection = Connection::new(Lossy {
            socket,
            lose: Arc::clone(&lose),
        })?;
        let mut engine = Engine::new(connection, |_| Config::default());
        engine.adopt(None)?;
        let reconciler = node.run(|| Reconciler::start(&Netns::Current))??;
        engine.tell_flows(reconciler.publisher());
        for change in [bench.dns(&[]), bench.slice(&[a])] {
            engine.apply(change);
        }
        engine::settle(&mut engine)?;
        let flow = bench.flow(vip, PORT)?;
        ends(&flow, "a")?;

        lose.store(true, Ordering::Relaxed);
        engine.apply(bench.slice(&[b]));
        ensure!(engine::settle(&mut engine).is_err(), "no commit failed");
        ensure!(!lose.load(Ordering::Relaxed));
        ends(&flow, "a")?;
        // Nothing else changes.
        engine::settle(&mut engine)?;
        until(&flow, "b")
    })
}
