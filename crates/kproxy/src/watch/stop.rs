//! An order to stop that threads can poll for.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

/// Becomes readable when anybody gives the order, and stays so.
#[derive(Debug)]
pub struct Stop {
    waited: UnixStream,
    order: UnixStream,
}

impl Stop {
    /// Nobody has given the order yet.
    ///
    /// # Errors
    /// Of `socketpair(2)`.
    pub fn new() -> io::Result<Self> {
        let (waited, order) = UnixStream::pair()?;
        Ok(Self { waited, order })
    }

    /// Gives the order; may be repeated.
    pub fn order(&self) {
        // Fails only when it was given already.
        let _ = self.order.shutdown(Shutdown::Both);
    }
}

impl AsFd for Stop {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.waited.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;
    use crate::watch::wait;

    #[test]
    fn an_order_is_seen_by_everybody_who_waits() {
        let stop = Stop::new().unwrap();
        let now = Some(Duration::ZERO);
        assert_eq!(wait([stop.as_fd()], now).unwrap(), [false]);
        stop.order();
        stop.order();
        for _ in 0..2 {
            assert_eq!(wait([stop.as_fd(), stop.as_fd()], now).unwrap(), [true; 2]);
        }
    }
}
