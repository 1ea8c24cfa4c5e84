//! As much SCTP (RFC 9260) as it takes to ask and to answer once: INIT and INIT ACK.

use core::net::IpAddr;

const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
/// Parameter of an INIT ACK that may hold anything.
const STATE_COOKIE: u16 = 7;
const COMMON_HEADER: usize = 12;
/// Chunk header and the fixed part of INIT and INIT ACK.
const INIT_FIXED: usize = 20;
/// Initiate tag of every INIT here.
const TAG: u32 = 0x6b70_726f;

/// An INIT packet.
pub(crate) fn init(source_port: u16, destination_port: u16) -> Vec<u8> {
    packet(source_port, destination_port, 0, INIT, TAG, &[])
}

/// The INIT ACK to an INIT, with `text` as its cookie.
pub(crate) fn init_ack(init: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let (source, destination) = ports(init)?;
    let tag = u32::from_be_bytes(*init.get(COMMON_HEADER + 4..)?.first_chunk()?);
    if init.get(COMMON_HEADER) != Some(&INIT) {
        return None;
    }
    let mut cookie = STATE_COOKIE.to_be_bytes().to_vec();
    cookie.extend(u16::try_from(text.len() + 4).ok()?.to_be_bytes());
    cookie.extend(text);
    Some(packet(destination, source, tag, INIT_ACK, TAG, &cookie))
}

/// The cookie of an INIT ACK between these ports.
pub(crate) fn init_ack_cookie(packet: &[u8], source: u16, destination: u16) -> Option<&[u8]> {
    if ports(packet)? != (source, destination) || packet.get(COMMON_HEADER) != Some(&INIT_ACK) {
        return None;
    }
    let parameter = packet.get(COMMON_HEADER + INIT_FIXED..)?;
    let length = u16::from_be_bytes(*parameter.get(2..)?.first_chunk()?);
    parameter.get(4..usize::from(length))
}

/// Source and destination port.
pub(crate) fn ports(packet: &[u8]) -> Option<(u16, u16)> {
    let [a, b, c, d] = *packet.first_chunk()?;
    Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
}

/// What a raw socket of the family of `like` receives, without the IPv4 header that comes along.
pub(crate) fn without_ip_header(packet: &[u8], like: IpAddr) -> &[u8] {
    let length = match (like, packet.first()) {
        (IpAddr::V4(_), Some(first)) => usize::from(first & 0xf) * 4,
        _ => 0,
    };
    packet.get(length..).unwrap_or_default()
}

fn packet(
    source_port: u16,
    destination_port: u16,
    verification_tag: u32,
    chunk: u8,
    initiate_tag: u32,
    parameter: &[u8],
) -> Vec<u8> {
    let mut packet = Vec::with_capacity(COMMON_HEADER + INIT_FIXED + parameter.len() + 3);
    packet.extend(source_port.to_be_bytes());
    packet.extend(destination_port.to_be_bytes());
    packet.extend(verification_tag.to_be_bytes());
    packet.extend([0; 4]);
    packet.extend([chunk, 0]);
    // Parameters here are short; the length leaves out the padding.
    let length = u16::try_from(INIT_FIXED + parameter.len()).unwrap_or(u16::MAX);
    packet.extend(length.to_be_bytes());
    packet.extend(initiate_tag.to_be_bytes());
    packet.extend(65_536u32.to_be_bytes()); // receiver window
    packet.extend(1u16.to_be_bytes()); // outbound streams
    packet.extend(1u16.to_be_bytes()); // inbound streams
    packet.extend(1u32.to_be_bytes()); // initial TSN
    packet.extend(parameter);
    packet.resize(packet.len().next_multiple_of(4), 0);
    let checksum = crc32c(&packet).to_le_bytes();
    if let Some(field) = packet.get_mut(8..12) {
        field.copy_from_slice(&checksum);
    }
    packet
}

/// CRC-32C (Castagnoli), reflected, as RFC 9260 appendix A has it.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0x82f6_3b78
            } else {
                crc >> 1
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crc32c_check_value() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn init_ack_carries_the_text_back() {
        let init = init(4000, 53);
        let ack = init_ack(&init, b"hello").unwrap();
        assert_eq!(ack.len() % 4, 0);
        assert_eq!(init_ack_cookie(&ack, 53, 4000), Some(&b"hello"[..]));
        assert_eq!(init_ack_cookie(&ack, 54, 4000), None);
        assert_eq!(init_ack(&ack, b"x"), None);
        assert_eq!(ack[4..8], TAG.to_be_bytes());
    }

    #[test]
    fn truncated_packets_are_refused() {
        let init = init(4000, 53);
        let ack = init_ack(&init, b"hello").unwrap();
        for end in 0..ack.len() - 3 {
            assert_eq!(init_ack_cookie(&ack[..end], 53, 4000), None);
        }
        for end in 0..20 {
            assert_eq!(init_ack(&init[..end], b"hello"), None);
        }
    }
}
