//! Writing pcapng (draft-ietf-opsawg-pcapng) with `LINKTYPE_NETLINK` packets.
//!
//! ```text
//! block   = type u32 | length u32 | body, padded to 4 | length u32      all in host order
//! options = code u16 | length u16 | value, padded to 4 … | 0 u16 | 0 u16
//! packet  = cooked header (16) | netlink messages
//! cooked  = packet type u16 | ARPHRD_NETLINK u16 | unused (10) | netlink protocol u16     big endian
//! ```
//! The cooked header is the one of an nlmon interface captured by libpcap
//! (<https://www.tcpdump.org/linktypes/LINKTYPE_NETLINK.html>). Wireshark refuses packets longer
//! than 262,144 bytes, so longer datagrams are several packets, cut between messages. What pcapng has
//! no option for is in a comment that begins with [`NOTE`].

use core::fmt::Write as _;
use core::time::Duration;
use std::io::{self, IoSlice, Write};
use std::time::{SystemTime, UNIX_EPOCH};

use super::datagram::{Facts, Source};
use crate::Errno;

/// The link type of pcap files with netlink messages.
pub const LINKTYPE_NETLINK: u16 = 253;
/// Type of an nlmon interface (`include/uapi/linux/if_arp.h`).
pub const ARPHRD_NETLINK: u16 = 824;
/// Packet type of what goes to user space (`include/uapi/linux/if_packet.h`).
pub const PACKET_USER: u16 = 6;
/// Packet type of what goes to the kernel.
pub const PACKET_KERNEL: u16 = 7;
/// Bytes before the messages of a packet.
pub const COOKED_LEN: usize = 16;
/// The longest packet that is written, cooked header included; wireshark's limit is 262,144.
pub const MAX_PACKET: usize = 256 << 10;
/// How the comment of a packet begins: `nft-replay: key=value key=value …`. Keys: `port` (port id of
/// the socket), `took_ns` (nanoseconds in `sendmsg`), `send_error`, `generation`, `acks` (number),
/// `errors` (`sequence number:errno`, comma-separated), `offset` and `of` (place in a datagram that
/// is several packets, and its length).
pub const NOTE: &str = "nft-replay:";
/// `NETLINK_NETFILTER`.
const PROTOCOL: u16 = 12;

/// Block types.
pub mod block {
    /// Section header.
    pub const SECTION: u32 = 0x0a0d_0d0a;
    /// Interface description.
    pub const INTERFACE: u32 = 1;
    /// Simple packet.
    pub const SIMPLE: u32 = 3;
    /// Enhanced packet.
    pub const PACKET: u32 = 6;
    /// Tells the byte order of a section.
    pub const BYTE_ORDER: u32 = 0x1a2b_3c4d;
}

/// Option codes.
pub mod option {
    /// End of options.
    pub const END: u16 = 0;
    /// Comment, in any block.
    pub const COMMENT: u16 = 1;
    /// Hardware, in a section header.
    pub const HARDWARE: u16 = 2;
    /// Operating system, in a section header.
    pub const OS: u16 = 3;
    /// Program, in a section header.
    pub const APPLICATION: u16 = 4;
    /// Name, in an interface description.
    pub const NAME: u16 = 2;
    /// Resolution of time stamps, in an interface description.
    pub const RESOLUTION: u16 = 9;
    /// Direction and more, in a packet.
    pub const FLAGS: u16 = 2;
    /// Process and thread, in a packet.
    pub const PROCESS: u16 = 8;
}

/// Where a datagram went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// A request.
    ToKernel,
    /// A reply or an event.
    ToUser,
}

/// What a section of a file says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Section {
    /// Machine, such as `x86_64`.
    pub hardware: String,
    /// Kernel, such as `Linux 6.18.44`.
    pub os: String,
    /// Program that records, with its version.
    pub application: String,
    /// Anything else.
    pub comment: String,
}

impl Section {
    /// Of the running machine, recorded by `application`.
    #[must_use]
    pub fn here(application: &str) -> Self {
        let uname = rustix::system::uname();
        let text = |part: &core::ffi::CStr| part.to_string_lossy().into_owned();
        Self {
            hardware: text(uname.machine()),
            os: format!("{} {}", text(uname.sysname()), text(uname.release())),
            application: application.to_owned(),
            comment: String::new(),
        }
    }

    /// With a comment.
    #[must_use]
    pub fn with_comment(mut self, comment: &str) -> Self {
        comment.clone_into(&mut self.comment);
        self
    }
}

/// A datagram to be written.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Recorded<'a> {
    /// Where it went.
    pub direction: Direction,
    /// Its bytes.
    pub parts: &'a [IoSlice<'a>],
    /// Its length, more than there are bytes if it was cut off.
    pub len: usize,
    /// When it was sent or received.
    pub when: SystemTime,
    /// Port id of the socket in user space, if known.
    pub port: Option<u32>,
    /// Process; 0 if not known.
    pub process: u32,
    /// Thread; 0 if not known.
    pub thread: u32,
    /// Time spent in `sendmsg`, that is in the kernel's handling of it.
    pub took: Option<Duration>,
    /// Why it was not sent.
    pub send_error: Option<Errno>,
}

impl<'a> Recorded<'a> {
    /// A datagram of now, of which nothing else is known.
    #[must_use]
    pub fn new(direction: Direction, parts: &'a [IoSlice<'a>]) -> Self {
        Self {
            direction,
            parts,
            len: parts.iter().map(|part| part.len()).sum(),
            when: SystemTime::now(),
            port: None,
            process: 0,
            thread: 0,
            took: None,
            send_error: None,
        }
    }
}

/// Writes a file, one system call a packet.
#[derive(Debug)]
pub struct PcapngWriter<W> {
    out: W,
    bytes: u64,
    /// One block.
    scratch: Vec<u8>,
    note: String,
}

impl<W: Write> PcapngWriter<W> {
    /// Begins a section.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn new(out: W, section: &Section) -> io::Result<Self> {
        let mut writer = Self {
            out,
            bytes: 0,
            scratch: Vec::with_capacity(4 << 10),
            note: String::with_capacity(256),
        };
        writer.begin(block::SECTION);
        writer.put(&block::BYTE_ORDER.to_ne_bytes());
        writer.put(&1_u16.to_ne_bytes());
        writer.put(&0_u16.to_ne_bytes());
        // The section's length is not known.
        writer.put(&u64::MAX.to_ne_bytes());
        for (code, text) in [
            (option::COMMENT, &section.comment),
            (option::HARDWARE, &section.hardware),
            (option::OS, &section.os),
            (option::APPLICATION, &section.application),
        ] {
            if !text.is_empty() {
                writer.option(code, text.as_bytes());
            }
        }
        writer.end()?;
        writer.begin(block::INTERFACE);
        writer.put(&LINKTYPE_NETLINK.to_ne_bytes());
        writer.put(&0_u16.to_ne_bytes());
        // No limit on the length of packets.
        writer.put(&0_u32.to_ne_bytes());
        writer.option(option::NAME, b"netlink");
        // Nanoseconds.
        writer.option(option::RESOLUTION, &[9]);
        writer.end()?;
        Ok(writer)
    }

    /// Bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes a datagram, as several packets if it is long.
    ///
    /// # Errors
    /// Those of the file; of the block that failed a part may have been written.
    pub fn write(&mut self, datagram: &Recorded<'_>) -> io::Result<()> {
        let total: usize = datagram.parts.iter().map(|part| part.len()).sum();
        let mut source = Source::new(datagram.parts);
        let mut offset = 0;
        loop {
            self.begin_packet(datagram);
            let start = self.scratch.len();
            let room = MAX_PACKET - COOKED_LEN;
            while let Some(len) = source.next_message() {
                let taken = self.scratch.len() - start;
                if taken + len > room && taken > 0 {
                    break;
                }
                source.take(len.min(room), &mut self.scratch);
            }
            let taken = self.scratch.len() - start;
            let of = (taken < total).then_some((offset, total));
            self.end_packet(datagram, start, of)?;
            offset += taken;
            if offset >= total {
                return Ok(());
            }
        }
    }

    /// Ends the writing.
    pub fn into_inner(self) -> W {
        self.out
    }

    fn begin_packet(&mut self, datagram: &Recorded<'_>) {
        self.begin(block::PACKET);
        let since = datagram.when.duration_since(UNIX_EPOCH).unwrap_or_default();
        let nanos = u64::try_from(since.as_nanos()).unwrap_or(u64::MAX);
        self.put(&0_u32.to_ne_bytes());
        let [high, low] = halves(nanos);
        self.put(&high.to_ne_bytes());
        self.put(&low.to_ne_bytes());
        // The lengths follow.
        self.put(&[0; 8]);
        let kind = match datagram.direction {
            Direction::ToKernel => PACKET_KERNEL,
            Direction::ToUser => PACKET_USER,
        };
        self.put(&kind.to_be_bytes());
        self.put(&ARPHRD_NETLINK.to_be_bytes());
        self.put(&[0; 10]);
        self.put(&PROTOCOL.to_be_bytes());
    }

    fn end_packet(
        &mut self,
        datagram: &Recorded<'_>,
        start: usize,
        part: Option<(usize, usize)>,
    ) -> io::Result<()> {
        self.note(datagram, start, part);
        let captured = self.scratch.len() - start + COOKED_LEN;
        let original = match part {
            Some(_) => captured,
            None => captured.max(datagram.len.saturating_add(COOKED_LEN)),
        };
        for (at, len) in [(20, captured), (24, original)] {
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            if let Some(field) = self.scratch.get_mut(at..at + 4) {
                field.copy_from_slice(&len.to_ne_bytes());
            }
        }
        self.pad();
        // Inbound is what comes to the user.
        let flags: u32 = match datagram.direction {
            Direction::ToKernel => 2,
            Direction::ToUser => 1,
        };
        self.option(option::FLAGS, &flags.to_ne_bytes());
        if datagram.process != 0 {
            let mut ids = [0; 8];
            ids[..4].copy_from_slice(&datagram.process.to_ne_bytes());
            ids[4..].copy_from_slice(&datagram.thread.to_ne_bytes());
            self.option(option::PROCESS, &ids);
        }
        let note = core::mem::take(&mut self.note);
        self.option(option::COMMENT, note.as_bytes());
        self.note = note;
        self.end()
    }

    /// Makes the comment. Writing to a string cannot fail.
    fn note(&mut self, datagram: &Recorded<'_>, start: usize, part: Option<(usize, usize)>) {
        let note = &mut self.note;
        note.clear();
        note.push_str(NOTE);
        if let Some(port) = datagram.port {
            let _ = write!(note, " port={port}");
        }
        if let Some(took) = datagram.took {
            let _ = write!(note, " took_ns={}", took.as_nanos());
        }
        if let Some(errno) = datagram.send_error {
            let _ = write!(note, " send_error={errno}");
        }
        let bytes = self.scratch.get(start..).unwrap_or_default();
        let facts = Facts::of(bytes, datagram.direction);
        if let Some(generation) = facts.generation {
            let _ = write!(note, " generation={generation}");
        }
        if facts.acks > 0 {
            let _ = write!(note, " acks={}", facts.acks);
        }
        for (at, (seq, errno)) in facts.errors.iter().flatten().enumerate() {
            let _ = write!(
                note,
                "{}{seq}:{errno}",
                if at == 0 { " errors=" } else { "," }
            );
        }
        if let Some((offset, total)) = part {
            let _ = write!(note, " offset={offset} of={total}");
        }
    }

    fn begin(&mut self, kind: u32) {
        self.scratch.clear();
        self.put(&kind.to_ne_bytes());
        self.put(&[0; 4]);
    }

    fn put(&mut self, bytes: &[u8]) {
        self.scratch.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        let len = self.scratch.len().next_multiple_of(4);
        self.scratch.resize(len, 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = value.get(..usize::from(u16::MAX)).unwrap_or(value);
        let len = u16::try_from(value.len()).unwrap_or(u16::MAX);
        self.put(&code.to_ne_bytes());
        self.put(&len.to_ne_bytes());
        self.put(value);
        self.pad();
    }

    /// Closes the options and the block, and writes it.
    fn end(&mut self) -> io::Result<()> {
        self.put(&[0; 4]);
        let len = self.scratch.len() + 4;
        let wire = u32::try_from(len).unwrap_or(u32::MAX).to_ne_bytes();
        self.put(&wire);
        if let Some(field) = self.scratch.get_mut(4..8) {
            field.copy_from_slice(&wire);
        }
        self.out.write_all(&self.scratch)?;
        self.bytes = self
            .bytes
            .saturating_add(u64::try_from(len).unwrap_or(u64::MAX));
        Ok(())
    }
}

/// High and low half.
fn halves(value: u64) -> [u32; 2] {
    let bytes = value.to_be_bytes();
    let half = |at: usize| {
        let mut half = [0; 4];
        half.copy_from_slice(bytes.get(at..at + 4).unwrap_or(&[0; 4]));
        u32::from_be_bytes(half)
    };
    [half(0), half(4)]
}
