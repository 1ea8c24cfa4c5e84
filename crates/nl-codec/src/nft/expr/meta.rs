//! `meta`: load or set packet metadata (`net/netfilter/nft_meta.c`).

use core::fmt::{self, Formatter};

use crate::nft::Register;
use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_meta_keys`. Numbers are in host order unless said otherwise.
    pub struct MetaKey(u32) {
        /// `skb->len`, 4 bytes.
        LEN = 0, "len";
        /// Ethertype, 2 bytes, network order.
        PROTOCOL = 1, "protocol";
        /// `skb->priority`, 4 bytes.
        PRIORITY = 2, "priority";
        /// Packet mark, 4 bytes.
        MARK = 3, "mark";
        /// Input interface index, 4 bytes.
        IIF = 4, "iif";
        /// Output interface index, 4 bytes.
        OIF = 5, "oif";
        /// Input interface name, 16 bytes, NUL-padded.
        IIFNAME = 6, "iifname";
        /// Output interface name, 16 bytes, NUL-padded.
        OIFNAME = 7, "oifname";
        /// Input interface type (`ARPHRD_*`), 2 bytes.
        IIFTYPE = 8, "iiftype";
        /// Output interface type (`ARPHRD_*`), 2 bytes.
        OIFTYPE = 9, "oiftype";
        /// UID of the sending socket, 4 bytes.
        SKUID = 10, "skuid";
        /// GID of the sending socket, 4 bytes.
        SKGID = 11, "skgid";
        /// Whether the packet is traced, 1 byte.
        NFTRACE = 12, "nftrace";
        /// Realm of the packet's route, 4 bytes.
        RTCLASSID = 13, "rtclassid";
        /// `skb->secmark`, 4 bytes.
        SECMARK = 14, "secmark";
        /// Netfilter family (`NFPROTO_*`), 1 byte.
        NFPROTO = 15, "nfproto";
        /// Layer 4 protocol, 1 byte.
        L4PROTO = 16, "l4proto";
        /// Input bridge name, 16 bytes, NUL-padded.
        BRI_IIFNAME = 17, "bri_iifname";
        /// Output bridge name, 16 bytes, NUL-padded.
        BRI_OIFNAME = 18, "bri_oifname";
        /// `PACKET_*`, 1 byte.
        PKTTYPE = 19, "pkttype";
        /// CPU that handles the packet, 4 bytes.
        CPU = 20, "cpu";
        /// Input interface group, 4 bytes.
        IIFGROUP = 21, "iifgroup";
        /// Output interface group, 4 bytes.
        OIFGROUP = 22, "oifgroup";
        /// net_cls class of the socket's control group, 4 bytes.
        CGROUP = 23, "cgroup";
        /// Pseudo-random number, 4 bytes.
        PRANDOM = 24, "prandom";
        /// Whether the packet went through IPsec, 1 byte.
        SECPATH = 25, "secpath";
        /// Kind of the input interface, 16 bytes, NUL-padded.
        IIFKIND = 26, "iifkind";
        /// Kind of the output interface, 16 bytes, NUL-padded.
        OIFKIND = 27, "oifkind";
        /// Port VLAN id of the input bridge port, 2 bytes.
        BRI_IIFPVID = 28, "bri_iifpvid";
        /// VLAN protocol of the input bridge, 2 bytes, network order.
        BRI_IIFVPROTO = 29, "bri_iifvproto";
        /// Nanoseconds since the epoch, 8 bytes.
        TIME_NS = 30, "time";
        /// Day of the week from Sunday, 1 byte.
        TIME_DAY = 31, "day";
        /// Second of the day, 4 bytes.
        TIME_HOUR = 32, "hour";
        /// Index of the slave device the packet came in on (VRF), 4 bytes.
        SDIF = 33, "sdif";
        /// Name of that device, 16 bytes, NUL-padded.
        SDIFNAME = 34, "sdifname";
        /// Whether a bridge hands the packet to the network layer, 1 byte.
        BRI_BROUTE = 35, "broute";
    }
}

attr_struct! {
    /// Loads `key` into `dreg`, or sets it from `sreg` (`NFTA_META_*`).
    pub struct Meta {
        /// Which datum.
        2 => key: MetaKey,
        /// Destination register of a load.
        1 => dreg: Register,
        /// Source register of a set.
        3 => sreg: Register,
    }
}

impl Meta {
    /// `dreg` = `key`.
    #[must_use]
    pub fn load(key: MetaKey, dreg: Register) -> Self {
        Self {
            key: Some(key),
            dreg: Some(dreg),
            ..Self::default()
        }
    }

    /// `key` = `sreg`.
    #[must_use]
    pub fn set(key: MetaKey, sreg: Register) -> Self {
        Self {
            key: Some(key),
            sreg: Some(sreg),
            ..Self::default()
        }
    }
}

impl Text for Meta {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if let Some(sreg) = self.sreg {
            write!(f, "set {} with reg {sreg} ", Shown(self.key))?;
        }
        if let Some(dreg) = self.dreg {
            write!(f, "load {} => reg {dreg} ", Shown(self.key))?;
        }
        Ok(())
    }
}
