//! SIGTERM and SIGINT as something to poll for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use signal_hook::SigId;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::{pipe, unregister};

/// Becomes readable when the process is asked to end.
#[derive(Debug)]
pub struct Signals {
    stream: UnixStream,
    ids: Vec<SigId>,
}

impl Signals {
    /// From now on SIGTERM and SIGINT do not end the process.
    ///
    /// # Errors
    /// Of the system calls.
    pub fn new() -> io::Result<Self> {
        let (stream, wake) = UnixStream::pair()?;
        let mut signals = Self {
            stream,
            ids: Vec::new(),
        };
        for signal in [SIGTERM, SIGINT] {
            let id = pipe::register(signal, wake.try_clone()?)?;
            signals.ids.push(id);
        }
        Ok(signals)
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        for id in self.ids.drain(..) {
            unregister(id);
        }
    }
}
