//! ctnetlink: the kernel's table of connections (`net/netfilter/nf_conntrack_netlink.c`).
//!
//! | message | attributes | effect |
//! |---|---|---|
//! | GET with DUMP | [`Conn::zone`], mark, status and [`Filter`] | those that match, each as NEW |
//! | GET | a tuple, zone | that connection |
//! | DELETE | a tuple, zone, perhaps id | that connection, if the id is still the same |
//! | DELETE | [`Filter`] with tuples | all that match; kernels before 2024 take a tuple for one connection |
//! | DELETE | mark, status, zone, or nothing | all that match |
//!
//! Without a tuple and without [`Filter`], DELETE heeds the family only in messages whose
//! [`version`](crate::msg::Head::version) is 1.

mod filter;
mod proto;
mod tuple;

pub use filter::{Filter, FilterFlags};
pub use proto::{ProtoInfo, SctpInfo, SctpState, TcpFlags, TcpInfo, TcpState};
pub use tuple::{Tuple, TupleIp, TupleProto};

use core::net::{Ipv4Addr, Ipv6Addr};

use crate::AttrBytes;
use crate::nft::Str;

bitflags::bitflags! {
    /// `enum ip_conntrack_status`.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
    pub struct Status: u32 {
        /// Expected by another connection.
        const EXPECTED = 1;
        /// A reply was seen.
        const SEEN_REPLY = 1 << 1;
        /// Not to be dropped early when the table is full.
        const ASSURED = 1 << 2;
        /// In the table.
        const CONFIRMED = 1 << 3;
        /// Its source is translated.
        const SRC_NAT = 1 << 4;
        /// Its destination is translated.
        const DST_NAT = 1 << 5;
        /// TCP sequence numbers are adjusted.
        const SEQ_ADJUST = 1 << 6;
        /// Source translation was decided.
        const SRC_NAT_DONE = 1 << 7;
        /// Destination translation was decided.
        const DST_NAT_DONE = 1 << 8;
        /// Being removed.
        const DYING = 1 << 9;
        /// Its timeout does not change.
        const FIXED_TIMEOUT = 1 << 10;
        /// Template of others.
        const TEMPLATE = 1 << 11;
        /// A helper was assigned.
        const HELPER = 1 << 13;
        /// Handled by a flowtable.
        const OFFLOAD = 1 << 14;
        /// Handled by hardware.
        const HW_OFFLOAD = 1 << 15;
        const _ = !0;
    }
}
flags_value!(Status);

attr_struct! {
    /// Packets and bytes of one direction (`CTA_COUNTERS_*`).
    pub struct Counters {
        /// Packets.
        1 => packets: u64,
        /// Bytes.
        2 => bytes: u64,
    }
}

attr_struct! {
    /// When a connection began and ended (`CTA_TIMESTAMP_*`), in nanoseconds since 1970.
    pub struct Timestamp {
        /// Beginning.
        1 => start: u64,
        /// End.
        2 => stop: u64,
    }
}

attr_struct! {
    /// Helper of a connection (`CTA_HELP_*`).
    pub struct Help<'a> {
        /// Its name.
        1 => name: Str<'a>,
        /// Its data.
        2 => info: AttrBytes<'a>,
    }
}

attr_struct! {
    /// Ports to translate to (`CTA_PROTONAT_*`).
    pub struct NatPorts {
        /// First.
        1 => min: u16,
        /// Last.
        2 => max: u16,
    }
}

attr_struct! {
    /// Translation to set up when creating a connection (`CTA_NAT_*`).
    pub struct Nat {
        /// First IPv4 address.
        1 => v4_min: Ipv4Addr,
        /// Last IPv4 address.
        2 => v4_max: Ipv4Addr,
        /// Ports.
        3 => ports: NatPorts,
        /// First IPv6 address.
        4 => v6_min: Ipv6Addr,
        /// Last IPv6 address.
        5 => v6_max: Ipv6Addr,
    }
}

attr_struct! {
    /// Adjustment of TCP sequence numbers (`CTA_SEQADJ_*`).
    pub struct SeqAdj {
        /// Where the last adjustment was made.
        1 => position: u32,
        /// Offset before it.
        2 => before: u32,
        /// Offset after it.
        3 => after: u32,
    }
}

attr_struct! {
    /// Security context (`CTA_SECCTX_*`).
    pub struct SecCtx<'a> {
        /// Its name.
        1 => name: Str<'a>,
    }
}

attr_struct! {
    /// State of a SYN proxy (`CTA_SYNPROXY_*`).
    pub struct SynproxyState {
        /// Initial sequence number.
        1 => isn: u32,
        /// Initial timestamp.
        2 => its: u32,
        /// Timestamp offset.
        3 => tsoff: u32,
    }
}

attr_struct! {
    /// A connection (`CTA_*`), or which ones are meant.
    pub struct Conn<'a> {
        /// As the first packet came.
        1 => orig: Tuple,
        /// As replies come: with translation undone.
        2 => reply: Tuple,
        /// Zone; 0 is not sent.
        18 => zone: u16,
        /// See [`Status`].
        3 => status: Status,
        /// In filters, which bits of [`Self::status`] to compare.
        26 => status_mask: Status,
        /// State of the layer 4 protocol.
        4 => proto_info: ProtoInfo,
        /// Seconds to live.
        7 => timeout: u32,
        /// Mark.
        8 => mark: u32,
        /// Which bits of [`Self::mark`] to compare or to set.
        21 => mark_mask: u32,
        /// Counted in the original direction, if accounting is on.
        9 => counters_orig: Counters,
        /// Counted in the reply direction, if accounting is on.
        10 => counters_reply: Counters,
        /// When it began and ended, if timestamps are on.
        20 => timestamp: Timestamp,
        /// Number of references.
        11 => in_use: u32,
        /// Tells a connection from a later one with the same tuples.
        12 => id: u32,
        /// Helper.
        5 => help: Help<'a>,
        /// Source translation to set up.
        6 => nat_src: Nat,
        /// Destination translation to set up.
        13 => nat_dst: Nat,
        /// The connection that expected this one.
        14 => master: Tuple,
        /// Sequence numbers in the original direction.
        15 => seq_adj_orig: SeqAdj,
        /// Sequence numbers in the reply direction.
        16 => seq_adj_reply: SeqAdj,
        /// Security context.
        19 => secctx: SecCtx<'a>,
        /// Labels, a bit map of 16 bytes.
        22 => labels: AttrBytes<'a>,
        /// Which labels to set.
        23 => labels_mask: AttrBytes<'a>,
        /// SYN proxy.
        24 => synproxy: SynproxyState,
        /// Which parts of the tuples to compare.
        25 => filter: Filter,
    }
}

impl Conn<'_> {
    /// The connection whose first packet looked like `orig`.
    #[must_use]
    pub fn with_orig(orig: Tuple) -> Self {
        Self {
            orig: Some(orig),
            ..Self::default()
        }
    }

    /// All connections whose original direction agrees with `orig` in the attributes it has. The
    /// message's family must be set. `None` with IPv6 addresses, see [`Filter`].
    #[must_use]
    pub fn matching_orig(orig: Tuple) -> Option<Self> {
        Some(Self {
            filter: Some(Filter {
                orig: Some(FilterFlags::present_in(&orig)?),
                reply: None,
            }),
            ..Self::with_orig(orig)
        })
    }

    /// All connections whose reply direction agrees with `reply` in the attributes it has: found by
    /// its source is who really answers, behind translation. The message's family must be set.
    /// `None` with IPv6 addresses, see [`Filter`].
    #[must_use]
    pub fn matching_reply(reply: Tuple) -> Option<Self> {
        Some(Self {
            reply: Some(reply),
            filter: Some(Filter {
                orig: None,
                reply: Some(FilterFlags::present_in(&reply)?),
            }),
            ..Self::default()
        })
    }
}
