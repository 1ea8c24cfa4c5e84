//! State of a connection's layer 4 protocol (`CTA_PROTOINFO_*`).

use crate::{Attr, AttrValue, DecodeError, DecodeErrorKind, EncodeError, Encoder};

open_enum! {
    /// `enum tcp_conntrack`.
    pub struct TcpState(u8) {
        /// None.
        NONE = 0, "NONE";
        /// SYN sent.
        SYN_SENT = 1, "SYN_SENT";
        /// SYN and ACK received.
        SYN_RECV = 2, "SYN_RECV";
        /// Open.
        ESTABLISHED = 3, "ESTABLISHED";
        /// One side closed.
        FIN_WAIT = 4, "FIN_WAIT";
        /// The other side acknowledged.
        CLOSE_WAIT = 5, "CLOSE_WAIT";
        /// Both sides closed.
        LAST_ACK = 6, "LAST_ACK";
        /// Waiting for stray packets.
        TIME_WAIT = 7, "TIME_WAIT";
        /// Reset.
        CLOSE = 8, "CLOSE";
        /// SYNs crossed.
        SYN_SENT2 = 9, "SYN_SENT2";
    }
}

open_enum! {
    /// `enum sctp_conntrack`.
    pub struct SctpState(u8) {
        /// None.
        NONE = 0, "NONE";
        /// Closed.
        CLOSED = 1, "CLOSED";
        /// INIT seen.
        COOKIE_WAIT = 2, "COOKIE_WAIT";
        /// COOKIE ECHO seen.
        COOKIE_ECHOED = 3, "COOKIE_ECHOED";
        /// Open.
        ESTABLISHED = 4, "ESTABLISHED";
        /// SHUTDOWN sent.
        SHUTDOWN_SENT = 5, "SHUTDOWN_SENT";
        /// SHUTDOWN received.
        SHUTDOWN_RECD = 6, "SHUTDOWN_RECD";
        /// SHUTDOWN acknowledged.
        SHUTDOWN_ACK_SENT = 7, "SHUTDOWN_ACK_SENT";
        /// Heartbeat sent on another path.
        HEARTBEAT_SENT = 8, "HEARTBEAT_SENT";
    }
}

/// `struct nf_ct_tcp_flags`: values and which of them to change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlags {
    /// `IP_CT_TCP_FLAG_*`.
    pub flags: u8,
    /// Which bits count.
    pub mask: u8,
}

impl<'a> AttrValue<'a> for TcpFlags {
    fn encode<E: Encoder>(&self, attr: u16, enc: &mut E) -> Result<(), EncodeError> {
        enc.put_attr_bytes(attr, &[self.flags, self.mask])
    }

    fn decode(attr: &Attr<'a>, what: &'static str) -> Result<Self, DecodeError> {
        match *attr.payload {
            [flags, mask] => Ok(Self { flags, mask }),
            _ => Err(attr.error(DecodeErrorKind::BadSize, what)),
        }
    }
}

attr_struct! {
    /// TCP (`CTA_PROTOINFO_TCP_*`).
    pub struct TcpInfo {
        /// State.
        1 => state: TcpState,
        /// Window scale of the original direction.
        2 => wscale_orig: u8,
        /// Window scale of the reply direction.
        3 => wscale_reply: u8,
        /// Flags of the original direction.
        4 => flags_orig: TcpFlags,
        /// Flags of the reply direction.
        5 => flags_reply: TcpFlags,
    }
}

attr_struct! {
    /// SCTP (`CTA_PROTOINFO_SCTP_*`).
    pub struct SctpInfo {
        /// State.
        1 => state: SctpState,
        /// Verification tag of the original direction.
        2 => vtag_orig: u32,
        /// Verification tag of the reply direction.
        3 => vtag_reply: u32,
    }
}

attr_struct! {
    /// State of the layer 4 protocol.
    pub struct ProtoInfo {
        /// TCP.
        1 => tcp: TcpInfo,
        /// SCTP.
        3 => sctp: SctpInfo,
    }
}
