//! Models of what threads share: every interleaving of two or three with a few steps each.
//!
//! `RUSTFLAGS='--cfg kproxy_loom' cargo test -p nft-batch --test loom --target-dir target/loom`.
#![cfg(kproxy_loom)]

use std::collections::VecDeque;

use loom::model::Builder;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use nft_batch::{Batch, Ear, Fence, SealedBatch, is_before};
use nl_codec::msg::Family;
use nl_codec::nft::Table;

/// Interleavings with more preemptions than this find nothing new in programs this small.
const PREEMPTIONS: usize = 3;

fn check(model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound.get_or_insert(PREEMPTIONS);
    builder.check(model);
}

/// The kernel, as far as it counts here.
struct Kernel {
    generation: u32,
    /// Events that were not read yet; `None` while nobody listens.
    events: Option<VecDeque<u32>>,
    /// There is no room for more events.
    room: usize,
    overrun: bool,
    /// Generations that somebody else made.
    foreign: Vec<u32>,
}

impl Kernel {
    fn commit(&mut self, foreign: bool) {
        self.generation += 1;
        if foreign {
            self.foreign.push(self.generation);
        }
        match &mut self.events {
            Some(events) if events.len() < self.room => events.push_back(self.generation),
            Some(_) => self.overrun = true,
            None => {}
        }
    }
}

/// The thread that listens, as one that may be run by an event or by the order to close.
struct Listener {
    kernel: Arc<Mutex<Kernel>>,
    ear: Ear,
    heard: Vec<u32>,
}

impl Listener {
    fn drain(&mut self) {
        loop {
            let mut kernel = self.kernel.lock().unwrap();
            if core::mem::take(&mut kernel.overrun) {
                drop(kernel);
                self.ear.miss();
                continue;
            }
            let event = kernel.events.as_mut().and_then(VecDeque::pop_front);
            drop(kernel);
            let Some(generation) = event else { return };
            self.ear.hear(generation, true);
            self.heard.push(generation);
        }
    }
}

/// Opens, commits, closes, commits, opens again, while the listener works and `foreign` commits.
fn work(foreign: usize, room: usize) {
    let kernel = Arc::new(Mutex::new(Kernel {
        generation: 1,
        events: None,
        room,
        overrun: false,
        foreign: Vec::new(),
    }));
    let (mut fence, ear) = Fence::new();
    let listener = Arc::new(Mutex::new(Listener {
        kernel: Arc::clone(&kernel),
        ear,
        heard: Vec::new(),
    }));
    let read = |kernel: &Mutex<Kernel>| kernel.lock().unwrap().generation;
    kernel.lock().unwrap().events = Some(VecDeque::new());
    let opened = read(&kernel);
    assert_eq!(fence.opened(opened), None);

    let others = {
        let kernel = Arc::clone(&kernel);
        thread::spawn(move || {
            for _ in 0..foreign {
                kernel.lock().unwrap().commit(true);
            }
        })
    };
    let listening = {
        let listener = Arc::clone(&listener);
        thread::spawn(move || listener.lock().unwrap().drain())
    };
    let mut missed = Vec::new();
    kernel.lock().unwrap().commit(false);
    fence.committed(1);
    // Nobody listens while much is loaded.
    listener.lock().unwrap().drain();
    kernel.lock().unwrap().events = None;
    let generation = read(&kernel);
    missed.extend(fence.closed(generation));
    kernel.lock().unwrap().commit(false);
    fence.committed(1);
    kernel.lock().unwrap().events = Some(VecDeque::new());
    let generation = read(&kernel);
    missed.extend(fence.opened(generation));

    others.join().unwrap();
    listening.join().unwrap();
    listener.lock().unwrap().drain();
    missed.extend(fence.take_missed());
    let (heard, foreign) = (
        &listener.lock().unwrap().heard,
        &kernel.lock().unwrap().foreign,
    );
    for generation in foreign {
        let is_known =
            heard.contains(generation) || missed.iter().any(|after| is_before(*after, *generation));
        assert!(
            is_known,
            "{generation} of {foreign:?}: {heard:?}, {missed:?}"
        );
    }
    if foreign.is_empty() && room > 1 {
        assert!(missed.is_empty(), "nobody else committed: {missed:?}");
    }
}

#[test]
fn no_commit_of_others_is_hidden() {
    check(|| work(2, 8));
}

#[test]
fn no_commit_of_others_is_hidden_by_lost_events() {
    check(|| work(2, 1));
}

#[test]
fn without_others_nothing_is_suspected() {
    check(|| work(0, 8));
}

/// A batch's pool of buffers goes with the batch: one thread fills while another sends, and hands back
/// what it has sent. What is sent is what was filled in, whatever the buffers held before.
#[test]
fn buffers_that_go_round_hold_what_was_put_in_last() {
    check(|| {
        let ring = Arc::new((Mutex::new(Ring::default()), Condvar::new()));
        ring.0.lock().unwrap().empty.extend([Batch::default()]);
        let sending = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mut sent = Vec::new();
                for _ in 0..3 {
                    let batch = take(&ring, |ring| ring.full.pop_front());
                    sent.push(batch.iter_messages().map(<[u8]>::to_vec).collect());
                    ring.0.lock().unwrap().empty.push(batch.reuse());
                    ring.1.notify_one();
                }
                sent
            })
        };
        for names in NAMES {
            let mut batch = take(&ring, |ring| ring.empty.pop());
            fill(&mut batch, names);
            ring.0.lock().unwrap().full.push_back(batch.seal());
            ring.1.notify_one();
        }
        let sent: Vec<Vec<Vec<u8>>> = sending.join().unwrap();
        let fresh: [Vec<Vec<u8>>; 3] = NAMES.map(|names| {
            let mut batch = Batch::default();
            fill(&mut batch, names);
            let messages = batch.seal();
            messages.iter_messages().map(<[u8]>::to_vec).collect()
        });
        assert_eq!(sent, fresh);
    });
}

/// Long ones before short ones: leftovers would show.
const NAMES: [&[&str]; 3] = [&["a-long-name", "another"], &["b"], &["c", "d"]];

#[derive(Default)]
struct Ring {
    empty: Vec<Batch>,
    full: VecDeque<SealedBatch>,
}

fn take<R>(ring: &(Mutex<Ring>, Condvar), from: impl Fn(&mut Ring) -> Option<R>) -> R {
    let mut held = ring.0.lock().unwrap();
    loop {
        match from(&mut held) {
            Some(batch) => return batch,
            None => held = ring.1.wait(held).unwrap(),
        }
    }
}

fn fill(batch: &mut Batch, names: &[&str]) {
    for name in names {
        batch.add_table(Family::IPV4, &Table::named(name)).unwrap();
    }
}
