//! The blocks of pcapng; the format is drawn in `nft_batch::record`'s writer.

use core::time::Duration;
use std::io::Read;

use nft_batch::record::{Direction, LINKTYPE_NETLINK, Section, block, option};

use super::packets::{Assembler, Raw};
use super::source::{Order, Source};
use super::{Capture, Damage, Fault, ReadError, note};

/// Simple packet block: a packet of the first interface and nothing beside it.
const SIMPLE_PACKET: u32 = 3;
/// Longer blocks are damage: no datagram is that long.
const BLOCK_MAX: usize = 1 << 30;
const SECTION_MIN: usize = 28;

#[derive(Debug, Clone, Copy)]
struct Interface {
    link_type: u16,
    /// Longest part of a packet that is kept; 0 if there is no limit.
    snap_len: u32,
    resolution: Resolution,
}

/// What a unit of a time stamp is.
#[derive(Debug, Clone, Copy)]
enum Resolution {
    /// A second has 10 to the power of this.
    Decimal(u32),
    /// A second has 2 to the power of this.
    Binary(u32),
}

impl Resolution {
    fn parse(byte: u8) -> Self {
        if byte & 0x80 == 0 {
            Self::Decimal(u32::from(byte))
        } else {
            Self::Binary(u32::from(byte & 0x7f))
        }
    }

    fn time(self, stamp: u64) -> Duration {
        let per_second = match self {
            Self::Decimal(power) => 10_u128.checked_pow(power),
            Self::Binary(power) => 2_u128.checked_pow(power),
        };
        let nanos = per_second
            .and_then(|per_second| (u128::from(stamp) * 1_000_000_000).checked_div(per_second))
            .unwrap_or_default();
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// Reads what follows the first four bytes.
pub(super) fn read<R: Read>(
    source: &mut Source<R>,
    capture: &mut Capture,
) -> Result<(), ReadError> {
    let mut order = Order::Host;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut packets = Assembler::default();
    let mut other_link_type = None;
    let mut body = Vec::new();
    let mut start = 0;
    let mut first = Some(block::SECTION.to_ne_bytes());
    let result = loop {
        let head = match first.take() {
            Some(head) => head,
            None => {
                start = source.offset();
                match source.array_or_end::<4>() {
                    Ok(Some(head)) => head,
                    Ok(None) => break Ok(()),
                    Err(what) => break Err(damaged(start, what)),
                }
            }
        };
        let kind = match next_block(head, source, &mut order, &mut body) {
            Ok(kind) => kind,
            Err(what) => break Err(damaged(start, what)),
        };
        match kind {
            block::SECTION => {
                interfaces.clear();
                capture.sections.push(section(order, &body));
            }
            block::INTERFACE => {
                let Some(link_type) = order.u16(&body, 0) else {
                    break Err(damaged(start, Fault::Length));
                };
                let resolution = options(order, &body, 8)
                    .find(|(code, _)| *code == option::RESOLUTION)
                    .and_then(|(_, value)| value.first().copied());
                interfaces.push(Interface {
                    link_type,
                    snap_len: order.u32(&body, 4).unwrap_or_default(),
                    // Microseconds, unless said otherwise.
                    resolution: resolution.map_or(Resolution::Decimal(6), Resolution::parse),
                });
            }
            block::PACKET | SIMPLE_PACKET => {
                let found = if kind == SIMPLE_PACKET {
                    simple_packet(order, &body, &interfaces)
                } else {
                    packet(order, &body, &interfaces)
                };
                let packet = match found {
                    Ok(Ok(packet)) => packet,
                    Ok(Err(link_type)) => {
                        other_link_type = Some(link_type);
                        capture.ignored += 1;
                        continue;
                    }
                    Err(what) => break Err(damaged(start, what)),
                };
                if order == Order::Swapped {
                    return Err(ReadError::ForeignByteOrder);
                }
                if let Err(what) = packets.push(packet, capture) {
                    break Err(damaged(start, what));
                }
            }
            // Name resolutions, statistics, and what is to come.
            _ => {}
        }
    };
    let unfinished = packets.finish(capture);
    if let (Some(link_type), true) = (other_link_type, capture.packets.is_empty()) {
        return Err(ReadError::LinkType(link_type.into()));
    }
    match (result, unfinished) {
        (Ok(()), Err(what)) => {
            let offset = source.offset();
            Err(Damage { offset, what }.into())
        }
        (result, _) => result,
    }
}

fn damaged(offset: u64, what: Fault) -> ReadError {
    ReadError::Damaged(Damage { offset, what })
}

/// Reads the rest of a block, without its lengths, and returns its type.
fn next_block<R: Read>(
    head: [u8; 4],
    source: &mut Source<R>,
    order: &mut Order,
    body: &mut Vec<u8>,
) -> Result<u32, Fault> {
    let len_bytes: [u8; 4] = source.array()?;
    let mut mark = None;
    // The same in both byte orders.
    if head == block::SECTION.to_ne_bytes() {
        let found: [u8; 4] = source.array()?;
        *order = match u32::from_ne_bytes(found) {
            block::BYTE_ORDER => Order::Host,
            other if other.swap_bytes() == block::BYTE_ORDER => Order::Swapped,
            _ => return Err(Fault::ByteOrder),
        };
        mark = Some(found);
    }
    let number = |bytes: &[u8; 4]| order.u32(bytes, 0).unwrap_or_default();
    let (kind, len) = (number(&head), number(&len_bytes));
    let len = usize::try_from(len).unwrap_or(usize::MAX);
    let before = if mark.is_some() { 12 } else { 8 };
    let shortest = if mark.is_some() { SECTION_MIN } else { 12 };
    if !len.is_multiple_of(4) || !(shortest..=BLOCK_MAX).contains(&len) {
        return Err(Fault::Length);
    }
    source.bytes(len - before - 4, body)?;
    let trailer: [u8; 4] = source.array()?;
    if trailer != len_bytes {
        return Err(Fault::Trailer);
    }
    if mark.is_some() && order.u16(body, 0) != Some(1) {
        return Err(Fault::Version);
    }
    Ok(kind)
}

/// The body begins after the byte order mark.
fn section(order: Order, body: &[u8]) -> Section {
    let mut section = Section::default();
    for (code, value) in options(order, body, 12) {
        let text = String::from_utf8_lossy(value).into_owned();
        match code {
            option::HARDWARE => section.hardware = text,
            option::OS => section.os = text,
            option::APPLICATION => section.application = text,
            option::COMMENT => section.comment = text,
            _ => {}
        }
    }
    section
}

/// A packet, or the link type that it has instead of netlink's.
fn packet<'b>(
    order: Order,
    body: &'b [u8],
    interfaces: &[Interface],
) -> Result<Result<Raw<'b>, u16>, Fault> {
    let field = |at| order.u32(body, at).ok_or(Fault::Length);
    let interface = usize::try_from(field(0)?).ok();
    let interface = interface
        .and_then(|index| interfaces.get(index))
        .ok_or(Fault::Interface)?;
    if interface.link_type != LINKTYPE_NETLINK {
        return Ok(Err(interface.link_type));
    }
    let stamp = u64::from(field(4)?) << 32 | u64::from(field(8)?);
    let size = |value: u32| usize::try_from(value).map_err(|_| Fault::Length);
    let (captured, len) = (size(field(12)?)?, size(field(16)?)?);
    let end = captured.checked_add(20).ok_or(Fault::Length)?;
    let bytes = body.get(20..end).ok_or(Fault::Length)?;
    let mut raw = Raw::new(bytes, len);
    raw.when = interface.resolution.time(stamp);
    for (code, value) in options(order, body, end.next_multiple_of(4)) {
        match code {
            option::COMMENT => raw.note.merge(note::parse(value)),
            option::FLAGS => {
                raw.direction = match order.u32(value, 0).unwrap_or_default() & 3 {
                    1 => Some(Direction::ToUser),
                    2 => Some(Direction::ToKernel),
                    _ => None,
                }
            }
            option::PROCESS => {
                raw.process = order.u32(value, 0).unwrap_or_default();
                raw.thread = order.u32(value, 4).unwrap_or_default();
            }
            _ => {}
        }
    }
    Ok(Ok(raw))
}

/// As [`packet`], of a block that says nothing but the packet's length.
fn simple_packet<'b>(
    order: Order,
    body: &'b [u8],
    interfaces: &[Interface],
) -> Result<Result<Raw<'b>, u16>, Fault> {
    let interface = interfaces.first().ok_or(Fault::Interface)?;
    if interface.link_type != LINKTYPE_NETLINK {
        return Ok(Err(interface.link_type));
    }
    let len = order.u32(body, 0).ok_or(Fault::Length)?;
    let captured = match interface.snap_len {
        0 => len,
        limit => len.min(limit),
    };
    let size = |value: u32| usize::try_from(value).map_err(|_| Fault::Length);
    let end = size(captured)?.checked_add(4).ok_or(Fault::Length)?;
    let bytes = body.get(4..end).ok_or(Fault::Length)?;
    Ok(Ok(Raw::new(bytes, size(len)?)))
}

/// The options of a block from `at` on; ends at the first one that does not fit.
fn options(order: Order, body: &[u8], at: usize) -> impl Iterator<Item = (u16, &[u8])> {
    let mut rest = body.get(at..).unwrap_or_default();
    core::iter::from_fn(move || {
        let code = order.u16(rest, 0)?;
        let len = usize::from(order.u16(rest, 2)?);
        if code == option::END {
            return None;
        }
        let value = rest.get(4..4 + len)?;
        rest = rest.get(4 + len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_stamps_have_any_resolution() {
        let second = Duration::from_secs(1);
        assert_eq!(Resolution::parse(6).time(1_000_000), second);
        assert_eq!(Resolution::parse(9).time(1_500_000_000), second * 3 / 2);
        assert_eq!(Resolution::parse(0x8a).time(1 << 10), second);
        assert_eq!(Resolution::parse(0x7f).time(u64::MAX), Duration::ZERO);
        assert_eq!(
            Resolution::parse(0).time(u64::MAX),
            Duration::from_nanos(u64::MAX)
        );
    }
}
