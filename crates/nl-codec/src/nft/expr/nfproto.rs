//! Families as expressions carry them, in 4 bytes.

open_enum! {
    /// `NFPROTO_*` (`include/uapi/linux/netfilter.h`).
    pub struct NfProto(u32) {
        /// None given: both of an inet table.
        UNSPEC = 0, "unspec";
        /// IPv4 and IPv6.
        INET = 1, "inet";
        /// IPv4.
        IPV4 = 2, "ip";
        /// ARP.
        ARP = 3, "arp";
        /// Packets of a device.
        NETDEV = 5, "netdev";
        /// Packets of a bridge.
        BRIDGE = 7, "bridge";
        /// IPv6.
        IPV6 = 10, "ip6";
    }
}
