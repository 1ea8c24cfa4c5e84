//! `mode`: which of kube-proxy's backends the file was written for.

use core::fmt;

/// A mode on Linux. Whatever it is, rules are programmed as nftables mode has them; the mode says which
/// fields of the file are read, and what an empty `nodePortAddresses` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// `iptables`, and no mode at all.
    Iptables,
    /// `ipvs`.
    Ipvs,
    /// `nftables`.
    Nftables,
}

impl Mode {
    /// The mode that kube-proxy 1.37 runs in; `None` if it refuses to.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        match text {
            "" | "iptables" => Some(Self::Iptables),
            "ipvs" => Some(Self::Ipvs),
            "nftables" => Some(Self::Nftables),
            _ => None,
        }
    }

    /// As it is spelled.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Iptables => "iptables",
            Self::Ipvs => "ipvs",
            Self::Nftables => "nftables",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
