//! Our messages in rust-netlink's types (`netlink-packet-core`), so that its sockets and
//! connections can send them: `NetlinkMessage<Packet>` is what they take.

use core::convert::Infallible;
use std::vec::Vec;

use netlink_packet_core::{
    Emitable, NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload,
    NetlinkSerializable,
};

use crate::msg::{Flags, HEADER_LEN, Header, Msg, MsgType};

impl From<Header> for NetlinkHeader {
    fn from(header: Header) -> Self {
        let mut out = Self::default();
        out.length = header.len;
        out.message_type = header.kind.0;
        out.flags = header.flags.bits();
        out.sequence_number = header.seq;
        out.port_number = header.port;
        out
    }
}

impl From<&NetlinkHeader> for Header {
    fn from(header: &NetlinkHeader) -> Self {
        Self {
            len: header.length,
            kind: MsgType(header.message_type),
            flags: Flags::from_bits_retain(header.flags),
            seq: header.sequence_number,
            port: header.port_number,
        }
    }
}

/// What follows the netlink header of one message, owned, as rust-netlink wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    kind: MsgType,
    payload: Vec<u8>,
}

impl Packet {
    /// Message type.
    #[must_use]
    pub const fn kind(&self) -> MsgType {
        self.kind
    }

    /// `nfgenmsg` and attributes.
    #[must_use]
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Views the packet together with the header rust-netlink keeps beside it.
    #[must_use]
    pub fn with_header(&self, header: &NetlinkHeader) -> Msg<'_> {
        Msg {
            header: header.into(),
            payload: &self.payload,
            offset: 0,
        }
    }
}

impl From<Msg<'_>> for Packet {
    fn from(msg: Msg<'_>) -> Self {
        Self {
            kind: msg.header.kind,
            payload: msg.payload.to_vec(),
        }
    }
}

/// Any message, ours or a received one, as an inner message; control messages stay undecoded.
impl From<Msg<'_>> for NetlinkMessage<Packet> {
    fn from(msg: Msg<'_>) -> Self {
        Self::new(
            msg.header.into(),
            NetlinkPayload::InnerMessage(Packet::from(msg)),
        )
    }
}

impl NetlinkSerializable for Packet {
    fn message_type(&self) -> u16 {
        self.kind.0
    }

    fn buffer_len(&self) -> usize {
        self.payload.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        emit(&[&self.payload], buffer);
    }
}

impl NetlinkDeserializable for Packet {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Self::Error> {
        Ok(Self {
            kind: MsgType(header.message_type),
            payload: payload.to_vec(),
        })
    }
}

/// The whole message, header included, without padding.
impl Emitable for Msg<'_> {
    fn buffer_len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    fn emit(&self, buffer: &mut [u8]) {
        emit(&[&self.header.to_bytes(), self.payload], buffer);
    }
}

/// Copies `parts` one after the other. The traits' contract promises a big enough buffer; what
/// does not fit in a smaller one is left out.
fn emit(parts: &[&[u8]], buffer: &mut [u8]) {
    for (to, from) in buffer.iter_mut().zip(parts.iter().copied().flatten()) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ack::Ack;
    use crate::msg::{Family, Head, Messages, NftMsg, put_message};
    use crate::nft::Table;
    use crate::{Encoder, SliceCursor};

    fn table(buf: &mut [u8]) -> usize {
        let mut cursor = SliceCursor::new(buf);
        let head = Head::nft(NftMsg::NEW_TABLE, Family::INET)
            .with_flags(Flags::CREATE | Flags::ACK)
            .with_seq(7);
        put_message(&mut cursor, &head, &Table::named("tab")).unwrap();
        cursor.position()
    }

    #[test]
    fn rust_netlink_sends_the_same_bytes() {
        let mut buf = [0; 64];
        let len = table(&mut buf);
        let ours = &buf[..len];
        let msg = Messages::new(ours).next().unwrap().unwrap();

        let mut theirs = NetlinkMessage::<Packet>::from(msg);
        theirs.finalize();
        let mut out = std::vec![0; theirs.buffer_len()];
        theirs.serialize(&mut out);
        assert_eq!(out, ours);

        let mut emitted = std::vec![0; msg.buffer_len()];
        msg.emit(&mut emitted);
        assert_eq!(emitted, ours);
    }

    #[test]
    fn rust_netlink_reads_ours() {
        let mut buf = [0; 64];
        let len = table(&mut buf);
        let theirs = NetlinkMessage::<Packet>::deserialize(&buf[..len]).unwrap();
        let NetlinkPayload::InnerMessage(packet) = &theirs.payload else {
            panic!("not an inner message");
        };
        let msg = packet.with_header(&theirs.header);
        assert_eq!(msg, Messages::new(&buf[..len]).next().unwrap().unwrap());
        let table: Table<'_> = msg.nfnetlink().unwrap().body().unwrap();
        assert!(table.name.is_some_and(|name| name == *"tab"));
    }

    #[test]
    fn both_read_the_same_error() {
        let mut buf = [0; 64];
        let len = table(&mut buf);
        let header = Header {
            len: u32::try_from(HEADER_LEN + 4 + len).unwrap(),
            kind: MsgType::ERROR,
            flags: Flags::empty(),
            seq: 7,
            port: 9,
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend_from_slice(&(-17_i32).to_ne_bytes());
        bytes.extend_from_slice(&buf[..len]);

        let theirs = NetlinkMessage::<Packet>::deserialize(&bytes).unwrap();
        let NetlinkPayload::Error(error) = theirs.payload else {
            panic!("not an error");
        };
        let ours = Ack::decode(&Messages::new(&bytes).next().unwrap().unwrap()).unwrap();
        assert_eq!(error.raw_code(), -17);
        assert_eq!(ours.error.map(|errno| errno.0), Some(17));
        assert_eq!(Header::from(&theirs.header), header);
        // Theirs keeps the echoed request whole.
        assert_eq!(error.header, buf[..len]);
        assert_eq!(ours.request, Header::decode(&buf).unwrap());
        assert_eq!(ours.echo, Some(&buf[HEADER_LEN..len]));
    }
}
