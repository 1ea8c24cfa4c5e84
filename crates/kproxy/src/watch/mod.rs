//! Waiting: for changes of a folder or a file, for signals, for a point in time. No polling.

mod addresses;
mod file;
mod folder;
mod reader;
mod signals;
mod stop;

pub use addresses::{AddressWatch, addresses_in};
pub use file::FileWatch;
pub use folder::{FolderChanges, FolderWatch};
pub use reader::Reader;
pub use signals::Signals;
pub use stop::Stop;

use core::time::Duration;
use std::io;
use std::os::fd::BorrowedFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

/// Waits until one of `fds` is readable or `timeout` is over. Returns which are.
///
/// # Errors
/// Of `poll(2)`, but EINTR.
pub fn wait<const N: usize>(
    fds: [BorrowedFd<'_>; N],
    timeout: Option<Duration>,
) -> io::Result<[bool; N]> {
    let timeout = timeout.map(|timeout| Timespec {
        tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let mut polled = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    match poll(&mut polled, timeout.as_ref()) {
        // What is left of the time is for the caller to know.
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(polled.map(|fd| !fd.revents().is_empty()))
}
