//! The older format: a header, then packets.
//!
//! ```text
//! file   = magic u32 | version u16 u16 | reserved u32 u32 | snap length u32 | link type u32
//! packet = seconds u32 | micro- or nanoseconds u32 | captured u32 | length u32 | bytes
//! ```

use core::time::Duration;
use std::io::Read;

use nft_batch::record::{LINKTYPE_NETLINK, Section};

use super::packets::{Assembler, Raw};
use super::source::{Order, Source};
use super::{Capture, Damage, Fault, ReadError};

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
/// Longer packets are damage.
const PACKET_MAX: usize = 1 << 30;

/// Reads what follows the magic number.
pub(super) fn read<R: Read>(
    magic: [u8; 4],
    source: &mut Source<R>,
    capture: &mut Capture,
) -> Result<(), ReadError> {
    let magic = u32::from_ne_bytes(magic);
    let (order, unit) = match (magic, magic.swap_bytes()) {
        (MICROSECONDS, _) => (Order::Host, 1_000),
        (NANOSECONDS, _) => (Order::Host, 1),
        (_, MICROSECONDS) => (Order::Swapped, 1_000),
        (_, NANOSECONDS) => (Order::Swapped, 1),
        _ => return Err(ReadError::NotACapture),
    };
    let damaged = |offset, what| ReadError::Damaged(Damage { offset, what });
    let header: [u8; 20] = source.array().map_err(|what| damaged(0, what))?;
    // The upper bits say how long checksums are.
    let link_type = order.u32(&header, 16).unwrap_or_default() & 0x0fff_ffff;
    if link_type != u32::from(LINKTYPE_NETLINK) {
        return Err(ReadError::LinkType(link_type));
    }
    if order == Order::Swapped {
        return Err(ReadError::ForeignByteOrder);
    }
    capture.sections.push(Section::default());
    let mut packets = Assembler::default();
    let mut bytes = Vec::new();
    loop {
        let start = source.offset();
        let head = source.array_or_end::<16>();
        let Some(head) = head.map_err(|what| damaged(start, what))? else {
            break;
        };
        let field = |at| order.u32(&head, at).unwrap_or_default();
        let size = |at| usize::try_from(field(at)).unwrap_or(usize::MAX);
        let (captured, len) = (size(8), size(12));
        if captured > PACKET_MAX {
            return Err(damaged(start, Fault::Length));
        }
        source
            .bytes(captured, &mut bytes)
            .map_err(|what| damaged(start, what))?;
        let mut raw = Raw::new(&bytes, len);
        let seconds = Duration::from_secs(field(0).into());
        raw.when = seconds + Duration::from_nanos(u64::from(field(4)) * unit);
        packets
            .push(raw, capture)
            .map_err(|what| damaged(start, what))?;
    }
    let end = source.offset();
    packets.finish(capture).map_err(|what| damaged(end, what))
}
