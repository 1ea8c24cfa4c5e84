//! `reject`: drop the packet and tell its sender (`net/netfilter/nft_reject.c`).

use core::fmt::{self, Formatter};

use crate::pretty::text::{Shown, Text};

open_enum! {
    /// `enum nft_reject_types`.
    pub struct RejectType(u32) {
        /// ICMP or ICMPv6 error with the family's own code.
        ICMP_UNREACH = 0, "icmp";
        /// TCP reset.
        TCP_RST = 1, "tcp reset";
        /// ICMP or ICMPv6 error with a code for both ([`IcmpxCode`]).
        ICMPX_UNREACH = 2, "icmpx";
    }
}

open_enum! {
    /// Codes that exist in ICMP and ICMPv6 (`enum nft_reject_inet_code`).
    pub struct IcmpxCode(u8) {
        /// No route to host.
        NO_ROUTE = 0, "no-route";
        /// Port unreachable.
        PORT_UNREACH = 1, "port-unreachable";
        /// Host unreachable.
        HOST_UNREACH = 2, "host-unreachable";
        /// Administratively prohibited.
        ADMIN_PROHIBITED = 3, "admin-prohibited";
    }
}

attr_struct! {
    /// Reject (`NFTA_REJECT_*`).
    pub struct Reject {
        /// How the sender is told.
        1 => reject_type: RejectType,
        /// Code of the error, by type.
        2 => icmp_code: u8,
    }
}

impl Reject {
    /// With an ICMP or ICMPv6 error, whichever the packet's family has.
    #[must_use]
    pub fn icmpx(code: IcmpxCode) -> Self {
        Self {
            reject_type: Some(RejectType::ICMPX_UNREACH),
            icmp_code: Some(code.0),
        }
    }

    /// With the code of the table's own family (`ICMP_*` or `ICMPV6_*`).
    #[must_use]
    pub fn icmp(code: u8) -> Self {
        Self {
            reject_type: Some(RejectType::ICMP_UNREACH),
            icmp_code: Some(code),
        }
    }

    /// With a TCP reset. The kernel wants no code, nft sends 0.
    #[must_use]
    pub fn tcp_reset() -> Self {
        Self {
            reject_type: Some(RejectType::TCP_RST),
            icmp_code: Some(0),
        }
    }
}

impl Text for Reject {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "type {} code {} ",
            Shown(self.reject_type.map(|reject_type| reject_type.0)),
            self.icmp_code.unwrap_or_default()
        )
    }
}
