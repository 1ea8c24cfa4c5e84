//! Asking a traced program to end while the tracer waits for it.

use std::collections::HashSet;
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// The threads that are being traced.
#[derive(Debug, Clone, Default)]
pub(super) struct Traced(Arc<Mutex<HashSet<Pid>>>);

impl Traced {
    pub(super) fn insert(&self, pid: Pid) {
        self.with(|pids| pids.insert(pid));
    }

    pub(super) fn remove(&self, pid: Pid) {
        self.with(|pids| pids.remove(&pid));
    }

    /// Asks `program` to end or, once that has ended, all that it left running.
    fn terminate(&self, program: Pid) {
        self.with(|pids| {
            let all = if pids.contains(&program) {
                vec![program]
            } else {
                pids.iter().copied().collect()
            };
            for pid in all {
                // One that is gone by now need not be asked.
                let _ = kill(pid, Signal::SIGTERM);
            }
        });
    }

    fn with<T>(&self, f: impl FnOnce(&mut HashSet<Pid>) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Passes each byte of `stop` on as a SIGTERM, until its other end is closed. A thread does that: waiting
/// for a traced thread goes on after a signal.
pub(super) fn pass_on(mut stop: impl Read + Send + 'static, traced: Traced, program: Pid) {
    thread::spawn(move || {
        let mut byte = [0];
        while stop.read_exact(&mut byte).is_ok() {
            traced.terminate(program);
        }
    });
}
