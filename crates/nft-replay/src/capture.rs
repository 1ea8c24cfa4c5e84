//! Reading captures: pcapng and pcap files of link type `LINKTYPE_NETLINK`, from `nft-replay record`,
//! from kproxy, or from an nlmon interface by tcpdump, dumpcap and the like.
//!
//! A file that is damaged or cut off gives what could be read, and says where it ends and why. No
//! file, however odd, makes the reader panic or use memory beyond the file's own size.

mod note;
mod packets;
mod pcap;
mod pcapng;
mod source;

use core::time::Duration;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use nft_batch::Errno;
use nft_batch::record::{Direction, Section};
use thiserror::Error;

/// The datagrams of a capture, in the order in which they were captured.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Capture {
    /// What the file says about the machine and the program that made it; several if captures were
    /// put together.
    pub sections: Vec<Section>,
    /// nfnetlink's datagrams.
    pub packets: Vec<Packet>,
    /// Packets that are none of nfnetlink's.
    pub ignored: u64,
    /// Why the reading ended early.
    pub damage: Option<Damage>,
}

/// A datagram.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Packet {
    /// Where it went.
    pub direction: Direction,
    /// When, since the epoch.
    pub when: Duration,
    /// Its messages.
    pub bytes: Vec<u8>,
    /// Its length, more than there are bytes if it was cut off.
    pub len: usize,
    /// Port id of the socket in user space, if known.
    pub port: Option<u32>,
    /// Process; 0 if not known.
    pub process: u32,
    /// Thread; 0 if not known.
    pub thread: u32,
    /// Time spent in `sendmsg`, if known.
    pub took: Option<Duration>,
    /// Why it was not sent.
    pub send_error: Option<Errno>,
}

impl Packet {
    /// A datagram of which nothing else is known.
    #[must_use]
    pub fn new(direction: Direction, bytes: Vec<u8>) -> Self {
        Self {
            direction,
            when: Duration::ZERO,
            len: bytes.len(),
            bytes,
            port: None,
            process: 0,
            thread: 0,
            took: None,
            send_error: None,
        }
    }

    /// Whether bytes are missing at its end.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.len > self.bytes.len()
    }
}

/// Where and why a file could not be read on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("damaged at byte {offset}: {what}")]
#[non_exhaustive]
pub struct Damage {
    /// Where in the file the block or record begins that could not be read.
    pub offset: u64,
    /// What is wrong.
    pub what: Fault,
}

/// What is wrong with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Fault {
    /// The file ends in it.
    #[error("the file ends in the middle of a block")]
    Truncated,
    /// Its length is no multiple of 4, too short or too long.
    #[error("a block of an impossible length")]
    Length,
    /// Its two lengths differ.
    #[error("the length at a block's end is not the one at its beginning")]
    Trailer,
    /// A section begins with another magic number.
    #[error("no byte order mark in a section header")]
    ByteOrder,
    /// Its version is not 1.
    #[error("an unknown version of the format")]
    Version,
    /// It is about an interface that was not described.
    #[error("a packet of an interface that is not described")]
    Interface,
    /// Part of a long datagram is missing.
    #[error("a part of a long datagram is missing")]
    Part,
    /// Reading failed.
    #[error("read error {0:?}")]
    Io(io::ErrorKind),
}

/// Why nothing can be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be opened or read.
    #[error("{}: {error}", path.display())]
    Open {
        /// File.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("neither pcapng nor pcap")]
    NotACapture,
    /// It has packets of other link types only.
    #[error(
        "a capture of link type {0}, not of netlink (253): captures are made on nlmon interfaces or by `nft-replay record`"
    )]
    LinkType(u32),
    /// Netlink is in the byte order of the machine it was captured on.
    #[error("captured on a machine of the other byte order")]
    ForeignByteOrder,
    /// Damaged before the first packet.
    #[error(transparent)]
    Damaged(#[from] Damage),
}

impl Capture {
    /// Reads a file.
    ///
    /// # Errors
    /// See [`ReadError`]; what is damaged further on is in [`Capture::damage`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let open = |error| ReadError::Open {
            path: path.to_owned(),
            error,
        };
        let file = File::open(path).map_err(open)?;
        match Self::read(BufReader::with_capacity(1 << 20, file)) {
            Err(ReadError::Io(error)) => Err(open(error)),
            other => other,
        }
    }

    /// Reads a capture.
    ///
    /// # Errors
    /// See [`ReadError`]; what is damaged further on is in [`Capture::damage`].
    pub fn read(input: impl Read) -> Result<Self, ReadError> {
        let mut capture = Self::default();
        let mut source = source::Source::new(input);
        let magic: [u8; 4] = match source.array() {
            Ok(magic) => magic,
            Err(Fault::Io(kind)) => return Err(io::Error::from(kind).into()),
            Err(_) => return Err(ReadError::NotACapture),
        };
        let result = if magic == nft_batch::record::block::SECTION.to_ne_bytes() {
            pcapng::read(&mut source, &mut capture)
        } else {
            pcap::read(magic, &mut source, &mut capture)
        };
        match result {
            Ok(()) => Ok(capture),
            Err(ReadError::Damaged(damage)) if !capture.sections.is_empty() => {
                capture.damage = Some(damage);
                Ok(capture)
            }
            Err(error) => Err(error),
        }
    }

    /// Appends another capture: what follows the first one, as the parts of a ring do.
    pub fn append(&mut self, other: Self) {
        self.sections.extend(other.sections);
        self.packets.extend(other.packets);
        self.ignored += other.ignored;
        self.damage = self.damage.take().or(other.damage);
    }

    /// Writes it as pcapng.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: impl io::Write) -> io::Result<()> {
        let section = self.sections.first().cloned().unwrap_or_default();
        let mut writer = nft_batch::record::PcapngWriter::new(out, &section)?;
        for packet in &self.packets {
            packet.write(&mut writer)?;
        }
        Ok(())
    }
}

impl Packet {
    /// Writes it as one packet, or several if it is long.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write<W: io::Write>(
        &self,
        writer: &mut nft_batch::record::PcapngWriter<W>,
    ) -> io::Result<()> {
        let parts = [io::IoSlice::new(&self.bytes)];
        let mut recorded = nft_batch::record::Recorded::new(self.direction, &parts);
        recorded.len = self.len;
        let when = std::time::UNIX_EPOCH.checked_add(self.when);
        recorded.when = when.unwrap_or(std::time::UNIX_EPOCH);
        recorded.port = self.port;
        recorded.process = self.process;
        recorded.thread = self.thread;
        recorded.took = self.took;
        recorded.send_error = self.send_error;
        writer.write(&recorded)
    }
}
