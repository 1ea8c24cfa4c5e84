//! From captured packets to datagrams: the cooked header is taken off, long datagrams are put
//! together, what is not nfnetlink's is counted.

use core::time::Duration;

use nft_batch::record::{ARPHRD_NETLINK, COOKED_LEN, Direction, PACKET_KERNEL, PACKET_USER};
use nl_codec::msg::{Flags, Header};

use super::note::Note;
use super::{Capture, Fault, Packet};

/// `NETLINK_NETFILTER`.
const NETFILTER: u16 = 12;
/// `PACKET_OUTGOING`: what some versions of libpcap make of a request.
const PACKET_OUTGOING: u16 = 4;

/// A packet as captured.
#[derive(Debug, Clone, Copy)]
pub(super) struct Raw<'a> {
    bytes: &'a [u8],
    len: usize,
    pub(super) when: Duration,
    pub(super) direction: Option<Direction>,
    pub(super) process: u32,
    pub(super) thread: u32,
    pub(super) note: Note,
}

impl<'a> Raw<'a> {
    pub(super) fn new(bytes: &'a [u8], len: usize) -> Self {
        Self {
            bytes,
            len,
            when: Duration::ZERO,
            direction: None,
            process: 0,
            thread: 0,
            note: Note::default(),
        }
    }
}

/// Holds the datagram that is being put together.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    pending: Option<(Packet, usize)>,
}

impl Assembler {
    pub(super) fn push(&mut self, raw: Raw<'_>, capture: &mut Capture) -> Result<(), Fault> {
        let Some((kind, bytes)) = cooked(raw.bytes) else {
            capture.ignored += 1;
            return Ok(());
        };
        if let Some(offset) = raw.note.offset.filter(|offset| *offset > 0) {
            let Some((packet, of)) = &mut self.pending else {
                return Err(Fault::Part);
            };
            if packet.bytes.len() != offset || raw.note.of != Some(*of) {
                return Err(Fault::Part);
            }
            packet.bytes.extend_from_slice(bytes);
        } else {
            self.finish(capture)?;
            let direction = match kind {
                PACKET_KERNEL | PACKET_OUTGOING => Some(Direction::ToKernel),
                PACKET_USER => Some(Direction::ToUser),
                _ => raw.direction,
            };
            let len = raw.len.saturating_sub(COOKED_LEN).max(bytes.len());
            let of = raw.note.of.unwrap_or(bytes.len());
            let packet = Packet {
                direction: direction.unwrap_or_else(|| guess(bytes)),
                when: raw.when,
                bytes: bytes.to_vec(),
                len: len.max(of),
                port: raw.note.port,
                process: raw.process,
                thread: raw.thread,
                took: raw.note.took,
                send_error: raw.note.send_error,
            };
            self.pending = Some((packet, of));
        }
        match &self.pending {
            Some((packet, of)) if packet.bytes.len() >= *of => self.finish(capture),
            _ => Ok(()),
        }
    }

    /// Hands out what there is of the last datagram.
    pub(super) fn finish(&mut self, capture: &mut Capture) -> Result<(), Fault> {
        let Some((packet, of)) = self.pending.take() else {
            return Ok(());
        };
        let whole = packet.bytes.len() >= of;
        capture.packets.push(packet);
        if whole { Ok(()) } else { Err(Fault::Part) }
    }
}

/// Packet type and messages of a packet of nfnetlink's.
fn cooked(bytes: &[u8]) -> Option<(u16, &[u8])> {
    let (header, messages) = bytes.split_at_checked(COOKED_LEN)?;
    let field = |at: usize| Some(u16::from_be_bytes(*header.get(at..)?.first_chunk()?));
    let netfilter = field(2)? == ARPHRD_NETLINK && field(14)? == NETFILTER;
    netfilter.then_some((field(0)?, messages))
}

/// Where a datagram went that does not say so.
fn guess(bytes: &[u8]) -> Direction {
    let request = Header::decode(bytes)
        .is_ok_and(|header| header.flags.contains(Flags::REQUEST) && !header.kind.is_control());
    if request {
        Direction::ToKernel
    } else {
        Direction::ToUser
    }
}
