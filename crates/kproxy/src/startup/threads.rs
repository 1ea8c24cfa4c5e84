//! How many threads the process has.

use core::time::Duration;
use std::time::Instant;
use std::{fs, thread};

use super::StartupError;

/// A thread that was joined is listed for some microseconds more.
const PATIENCE: Duration = Duration::from_secs(2);

/// Makes sure that this is the only thread.
///
/// # Errors
/// [`StartupError::Threads`].
pub(super) fn only_one() -> Result<(), StartupError> {
    let start = Instant::now();
    loop {
        let others = others();
        if others == 0 {
            return Ok(());
        }
        if start.elapsed() > PATIENCE {
            return Err(StartupError::Threads(others));
        }
        // The kernel tells nobody when the last trace of a thread is gone.
        thread::yield_now();
    }
}

fn others() -> usize {
    let threads = fs::read_dir("/proc/self/task");
    threads.map_or(0, |threads| threads.count().saturating_sub(1))
}
