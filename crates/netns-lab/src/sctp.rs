//! As much SCTP (RFC 9260) as it takes to ask and to answer once, and to keep an association of one
//! stream on which a chunk of data is sent at a time and comes back.

use core::net::IpAddr;

const DATA: u8 = 0;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const SACK: u8 = 3;
const ABORT: u8 = 6;
const COOKIE_ECHO: u8 = 10;
const COOKIE_ACK: u8 = 11;
/// Of an ABORT: its tag is the other side's, as its sender knows no association.
const REFLECTED: u8 = 1;
/// Of DATA: each is delivered as it comes; first and last fragment of a message.
const UNORDERED: u8 = 4;
const WHOLE: u8 = 3;
/// Parameter of an INIT ACK that may hold anything.
const STATE_COOKIE: u16 = 7;
const COMMON_HEADER: usize = 12;
const CHUNK_HEADER: usize = 4;
/// The fixed part of INIT and INIT ACK, without the chunk's header.
const INIT_FIXED: usize = 16;
/// TSN, stream, sequence number and payload protocol of DATA.
const DATA_FIXED: usize = 12;
const WINDOW: u32 = 65_536;
/// Initiate tag of every INIT here; the other direction's differs in its last bit.
const TAG: u32 = 0x6b70_726e;

/// Which side of an association sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// Who asked for it.
    Client,
    /// Who was asked.
    Server,
}

/// What one side tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Message<'m> {
    /// Echoes the cookie: the association is there for the client.
    CookieEcho(&'m [u8]),
    /// So it is for the server.
    CookieAck,
    /// A message of its own.
    Data { number: u32, text: &'m [u8] },
    /// All up to this number have come.
    Ack(u32),
    /// No such association.
    Abort,
}

impl Side {
    /// Verification tag of what it sends: the one that the other side chose.
    const fn tag(self) -> u32 {
        match self {
            Self::Client => TAG | 1,
            Self::Server => TAG,
        }
    }
}

/// An INIT packet.
pub(crate) fn init(source_port: u16, destination_port: u16) -> Vec<u8> {
    let ports = (source_port, destination_port);
    packet(ports, 0, &[(INIT, 0, &init_body(TAG, &[]))])
}

/// The INIT ACK to an INIT, with `text` as its cookie.
pub(crate) fn init_ack(init: &[u8], text: &[u8]) -> Option<Vec<u8>> {
    let (source, destination) = ports(init)?;
    let (INIT, _, body) = chunks(init).next()? else {
        return None;
    };
    let tag = u32::from_be_bytes(*body.first_chunk()?);
    let mut cookie = STATE_COOKIE.to_be_bytes().to_vec();
    cookie.extend(u16::try_from(text.len() + 4).ok()?.to_be_bytes());
    cookie.extend(text);
    let body = init_body(TAG | 1, &cookie);
    Some(packet((destination, source), tag, &[(INIT_ACK, 0, &body)]))
}

/// The cookie of an INIT ACK between these ports.
pub(crate) fn init_ack_cookie(packet: &[u8], source: u16, destination: u16) -> Option<&[u8]> {
    if ports(packet)? != (source, destination) {
        return None;
    }
    let (INIT_ACK, _, body) = chunks(packet).next()? else {
        return None;
    };
    let parameter = body.get(INIT_FIXED..)?;
    let length = u16::from_be_bytes(*parameter.get(2..)?.first_chunk()?);
    parameter.get(4..usize::from(length))
}

/// A packet with such messages.
pub(crate) fn say(side: Side, ports: (u16, u16), messages: &[Message<'_>]) -> Vec<u8> {
    let bodies: Vec<_> = messages
        .iter()
        .map(|message| match *message {
            Message::CookieEcho(cookie) => (COOKIE_ECHO, 0, cookie.to_vec()),
            Message::CookieAck => (COOKIE_ACK, 0, Vec::new()),
            Message::Data { number, text } => {
                let mut body = number.to_be_bytes().to_vec();
                // Stream 0, unordered, of no protocol.
                body.extend([0; DATA_FIXED - 4]);
                body.extend(text);
                (DATA, UNORDERED | WHOLE, body)
            }
            Message::Ack(number) => {
                let mut body = number.to_be_bytes().to_vec();
                body.extend(WINDOW.to_be_bytes());
                body.extend([0; 4]); // neither gaps nor duplicates
                (SACK, 0, body)
            }
            Message::Abort => (ABORT, REFLECTED, Vec::new()),
        })
        .collect();
    let chunks: Vec<_> = bodies
        .iter()
        .map(|(kind, flags, body)| (*kind, *flags, &**body))
        .collect();
    // An ABORT of who knows no association carries the tag that came.
    let tag = match messages {
        [Message::Abort] if side == Side::Server => Side::Client.tag(),
        _ => side.tag(),
    };
    packet(ports, tag, &chunks)
}

/// The messages in a packet that `side` sent in an association, those that are known here.
pub(crate) fn hear(side: Side, packet: &[u8]) -> impl Iterator<Item = Message<'_>> {
    let tag = packet.get(4..8).and_then(|tag| tag.first_chunk());
    let tag = tag.map(|tag| u32::from_be_bytes(*tag));
    chunks(packet).filter_map(move |(kind, flags, body)| {
        let reflected = kind == ABORT && flags & REFLECTED != 0;
        if tag != Some(side.tag()) && !(reflected && tag.map(|tag| tag & !1) == Some(TAG)) {
            return None;
        }
        let number = || Some(u32::from_be_bytes(*body.first_chunk()?));
        Some(match kind {
            COOKIE_ECHO => Message::CookieEcho(body),
            COOKIE_ACK => Message::CookieAck,
            DATA => Message::Data {
                number: number()?,
                text: body.get(DATA_FIXED..)?,
            },
            SACK => Message::Ack(number()?),
            ABORT => Message::Abort,
            _ => return None,
        })
    })
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

fn init_body(tag: u32, parameter: &[u8]) -> Vec<u8> {
    let mut body = Vec::with_capacity(INIT_FIXED + parameter.len());
    body.extend(tag.to_be_bytes());
    body.extend(WINDOW.to_be_bytes());
    body.extend(1u16.to_be_bytes()); // outbound streams
    body.extend(1u16.to_be_bytes()); // inbound streams
    body.extend(1u32.to_be_bytes()); // initial TSN
    body.extend(parameter);
    body
}

/// Kind, flags and body of the chunks of a packet.
fn chunks(packet: &[u8]) -> impl Iterator<Item = (u8, u8, &[u8])> {
    let mut rest = packet.get(COMMON_HEADER..).unwrap_or_default();
    core::iter::from_fn(move || {
        let [kind, flags, high, low] = *rest.first_chunk()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let body = rest.get(CHUNK_HEADER..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, flags, body))
    })
}

/// A packet of chunks: kind, flags and body.
fn packet(
    (source_port, destination_port): (u16, u16),
    verification_tag: u32,
    chunks: &[(u8, u8, &[u8])],
) -> Vec<u8> {
    let mut packet = Vec::new();
    packet.extend(source_port.to_be_bytes());
    packet.extend(destination_port.to_be_bytes());
    packet.extend(verification_tag.to_be_bytes());
    packet.extend([0; 4]);
    for (kind, flags, body) in chunks {
        packet.extend([*kind, *flags]);
        // Chunks here are short; the length leaves out the padding.
        let length = u16::try_from(CHUNK_HEADER + body.len()).unwrap_or(u16::MAX);
        packet.extend(length.to_be_bytes());
        packet.extend(*body);
        packet.resize(packet.len().next_multiple_of(4), 0);
    }
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
    fn messages_are_heard_as_they_were_said() {
        let (echo, data) = (
            Message::CookieEcho(b"abc"),
            Message::Data {
                number: 7,
                text: b"hello",
            },
        );
        for (side, other, messages) in [
            (Side::Client, Side::Server, vec![echo]),
            (Side::Client, Side::Server, vec![data]),
            (Side::Server, Side::Client, vec![Message::CookieAck]),
            (Side::Server, Side::Client, vec![Message::Ack(7), data]),
        ] {
            let packet = say(side, (1, 2), &messages);
            assert_eq!(hear(side, &packet).collect::<Vec<_>>(), messages);
            assert_eq!(hear(other, &packet).count(), 0, "of another association");
            for end in 0..packet.len() - 3 {
                assert!(hear(side, &packet[..end]).count() < messages.len());
            }
        }
        let abort = say(Side::Server, (1, 2), &[Message::Abort]);
        assert_eq!(
            hear(Side::Server, &abort).collect::<Vec<_>>(),
            [Message::Abort]
        );
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
