//! Who says when the proxy ends.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};

use crate::watch::{Signals, wait};

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// End the process.
    End,
    /// Begin anew with other settings.
    Restart,
}

/// Gives orders, on a thread of its own.
pub trait Orders: Send {
    /// Waits for the next order, or until `stop` is readable: then there is none.
    ///
    /// # Errors
    /// Of waiting; the proxy then ends.
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<Order>>;
}

/// SIGTERM and SIGINT end it.
impl Orders for Signals {
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<Order>> {
        loop {
            let [asked, stopped] = wait([self.as_fd(), stop], None)?;
            if asked {
                return Ok(Some(Order::End));
            }
            if stopped {
                return Ok(None);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;
    use crate::watch::Stop;

    #[test]
    fn a_signal_is_an_order_to_end() {
        let mut signals = Signals::new().unwrap();
        let stop = Stop::new().unwrap();
        stop.order();
        assert_eq!(signals.next(stop.as_fd()).unwrap(), None);
        kill_process(getpid(), Signal::TERM).unwrap();
        let never = Stop::new().unwrap();
        assert_eq!(signals.next(never.as_fd()).unwrap(), Some(Order::End));
    }
}
