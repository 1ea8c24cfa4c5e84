//! Recording what goes over a socket: every datagram to the kernel and from it, as a pcapng file of
//! link type `LINKTYPE_NETLINK`, which wireshark and tshark open and `nft-replay` shows and replays.
//!
//! A [`Recorder`] is handed to [`crate::Socket::record`]; without one a socket does nothing more
//! than compare a pointer. The file is whole after every datagram, so that nothing is lost when the
//! process is killed.

mod datagram;
mod pcapng;

use core::fmt;
use core::time::Duration;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

pub use pcapng::{
    ARPHRD_NETLINK, COOKED_LEN, Direction, LINKTYPE_NETLINK, MAX_PACKET, NOTE, PACKET_KERNEL,
    PACKET_USER, PcapngWriter, Recorded, Section, block, option,
};

use crate::Errno;

/// A recording of the datagrams of one or several sockets. Clones write to the same file.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<Inner>>);

struct Inner {
    path: PathBuf,
    section: Section,
    /// Longest file; half of it for each of the two files of a ring.
    limit: Option<u64>,
    /// `None` after a failure: what is on disk stays as it is.
    writer: Option<PcapngWriter<File>>,
    on_failure: Box<dyn FnMut(&io::Error) + Send>,
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recorder {
    /// Begins a recording in the file `path`; what is in it is gone.
    ///
    /// With a `limit` in bytes it is a ring: when half of that is reached, and at the beginning, the file
    /// is renamed to `path` with `.1` appended, over the one before, and a new one begins. A recorder that cannot
    /// write any more stops, and says so once to `on_failure`; what is sent is never kept back.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub fn create(
        path: &Path,
        limit: Option<u64>,
        section: Section,
        on_failure: impl FnMut(&io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        if limit.is_some() && path.exists() {
            std::fs::rename(path, older(path))?;
        }
        let writer = PcapngWriter::new(File::create(path)?, &section)?;
        Ok(Self(Arc::new(Mutex::new(Inner {
            path: path.to_owned(),
            section,
            limit,
            writer: Some(writer),
            on_failure: Box::new(on_failure),
        }))))
    }

    /// Takes a datagram down.
    pub fn record(&self, datagram: &Recorded<'_>) {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = inner.record(datagram) {
            inner.writer = None;
            (inner.on_failure)(&error);
        }
    }

    /// Takes a datagram to the kernel down, and what `sendmsg` said.
    pub(crate) fn sent(
        &self,
        port: u32,
        parts: &[IoSlice<'_>],
        when: SystemTime,
        took: Duration,
        result: Result<usize, Errno>,
    ) {
        let mut datagram = Recorded::new(Direction::ToKernel, parts);
        datagram.when = when;
        datagram.port = Some(port);
        datagram.process = std::process::id();
        datagram.took = Some(took);
        datagram.send_error = result.err();
        self.record(&datagram);
    }

    /// Takes a datagram from the kernel down.
    pub(crate) fn received(&self, port: u32, bytes: &[u8], len: usize) {
        let parts = [IoSlice::new(bytes)];
        let mut datagram = Recorded::new(Direction::ToUser, &parts);
        datagram.port = Some(port);
        datagram.process = std::process::id();
        datagram.len = len;
        self.record(&datagram);
    }
}

impl Inner {
    fn record(&mut self, datagram: &Recorded<'_>) -> io::Result<()> {
        let Some(writer) = &mut self.writer else {
            return Ok(());
        };
        writer.write(datagram)?;
        let full = self.limit.is_some_and(|limit| writer.bytes() >= limit / 2);
        if full {
            std::fs::rename(&self.path, older(&self.path))?;
            *writer = PcapngWriter::new(File::create(&self.path)?, &self.section)?;
        }
        Ok(())
    }
}

/// The file before in a ring.
fn older(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}
