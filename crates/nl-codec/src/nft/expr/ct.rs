//! `ct`: load or set properties of a packet's connection (`net/netfilter/nft_ct.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text, field};

open_enum! {
    /// `enum nft_ct_keys`. Numbers are in host order unless said otherwise.
    pub struct CtKey(u32) {
        /// State as a bit mask ([`CtState`]), 4 bytes.
        STATE = 0, "state";
        /// Direction of the packet, 1 byte ([`CtDirection`]).
        DIRECTION = 1, "direction";
        /// Status as a bit mask ([`crate::ct::Status`]), 4 bytes.
        STATUS = 2, "status";
        /// Connection mark, 4 bytes.
        MARK = 3, "mark";
        /// Security mark, 4 bytes.
        SECMARK = 4, "secmark";
        /// Milliseconds until the entry expires, 4 bytes.
        EXPIRATION = 5, "expiration";
        /// Name of the helper, 16 bytes, NUL-padded.
        HELPER = 6, "helper";
        /// Layer 3 protocol (`NFPROTO_*`), 1 byte.
        L3PROTOCOL = 7, "l3protocol";
        /// Source address, 4 or 16 bytes by the table's family.
        SRC = 8, "src";
        /// Destination address, 4 or 16 bytes by the table's family.
        DST = 9, "dst";
        /// Layer 4 protocol, 1 byte.
        PROTOCOL = 10, "protocol";
        /// Layer 4 source, 2 bytes, network order.
        PROTO_SRC = 11, "proto_src";
        /// Layer 4 destination, 2 bytes, network order.
        PROTO_DST = 12, "proto_dst";
        /// Labels, a bit map of 16 bytes.
        LABELS = 13, "label";
        /// Packets counted, 8 bytes.
        PKTS = 14, "packets";
        /// Bytes counted, 8 bytes.
        BYTES = 15, "bytes";
        /// Average bytes of a packet, 8 bytes.
        AVGPKT = 16, "avgpkt";
        /// Zone, 2 bytes.
        ZONE = 17, "zone";
        /// Events ctnetlink reports, 4 bytes.
        EVENTMASK = 18, "event";
        /// IPv4 source address, 4 bytes.
        SRC_IP = 19, "src_ip";
        /// IPv4 destination address, 4 bytes.
        DST_IP = 20, "dst_ip";
        /// IPv6 source address, 16 bytes.
        SRC_IP6 = 21, "src_ip6";
        /// IPv6 destination address, 16 bytes.
        DST_IP6 = 22, "dst_ip6";
        /// Id of the entry, 4 bytes, network order.
        ID = 23, "id";
    }
}

open_enum! {
    /// Which of a connection's two tuples a directional key reads (`enum ip_conntrack_dir`).
    pub struct CtDirection(u8) {
        /// As the first packet went.
        ORIGINAL = 0, "original";
        /// As replies go.
        REPLY = 1, "reply";
    }
}

bitflags::bitflags! {
    /// Bits of [`CtKey::STATE`] (`NF_CT_STATE_BIT` over `enum ip_conntrack_info`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct CtState: u32 {
        /// Belongs to no connection.
        const INVALID = 1;
        /// Both directions seen.
        const ESTABLISHED = 1 << 1;
        /// Expected by, or an ICMP error about, another connection.
        const RELATED = 1 << 2;
        /// Starts a connection.
        const NEW = 1 << 3;
        /// Exempt from connection tracking.
        const UNTRACKED = 1 << 6;
        const _ = !0;
    }
}

attr_struct! {
    /// Loads `key` into `dreg`, or sets it from `sreg` (`NFTA_CT_*`).
    pub struct Ct {
        /// Which datum.
        2 => key: CtKey,
        /// Destination register of a load.
        1 => dreg: Register,
        /// Tuple, for keys that have one each.
        3 => direction: CtDirection,
        /// Source register of a set.
        4 => sreg: Register,
    }
}

impl Ct {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: CtKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
            ..Self::default()
        }
    }

    /// `key` = `sreg`.
    #[must_use]
    pub fn set(key: CtKey, sreg: Register) -> Self {
        Self {
            key: Some(key),
            sreg: Some(sreg),
            ..Self::default()
        }
    }

    /// Reads or sets the datum of one direction.
    #[must_use]
    pub fn direction(mut self, direction: CtDirection) -> Self {
        self.direction = Some(direction);
        self
    }
}

impl Text for Ct {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(sreg) = self.sreg {
            write!(f, "set {} with reg {sreg} ", Shown(self.key))?;
        }
        if let Some(dreg) = self.dreg {
            write!(f, "load {} => reg {dreg} ", Shown(self.key))?;
        }
        field(f, ", dir", self.direction)
    }
}
