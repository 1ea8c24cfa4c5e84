//! `log`: write a line about the packet, or send it to user space (`net/netfilter/nft_log.c`).

use core::fmt::{self, Formatter};

use crate::nft::Str;
use crate::pretty::text::{Text, field};

open_enum! {
    /// `enum nft_log_level`: syslog's levels, and audit.
    pub struct LogLevel(u32) {
        /// System is unusable.
        EMERG = 0, "emerg";
        /// Action must be taken immediately.
        ALERT = 1, "alert";
        /// Critical.
        CRIT = 2, "crit";
        /// Error.
        ERR = 3, "err";
        /// Warning; what the kernel takes when the attribute is absent.
        WARNING = 4, "warn";
        /// Notice.
        NOTICE = 5, "notice";
        /// Informational.
        INFO = 6, "info";
        /// Debug.
        DEBUG = 7, "debug";
        /// To the audit log.
        AUDIT = 8, "audit";
    }
}

bitflags::bitflags! {
    /// What a line holds besides addresses and ports (`NF_LOG_*`,
    /// `include/uapi/linux/netfilter/nf_log.h`).
    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    pub struct LogFlags: u32 {
        /// TCP sequence numbers.
        const TCPSEQ = 1;
        /// TCP options.
        const TCPOPT = 1 << 1;
        /// IP options.
        const IPOPT = 1 << 2;
        /// User and group of the socket.
        const UID = 1 << 3;
        /// Link layer header, decoded.
        const MACDECODE = 1 << 5;
        const _ = !0;
    }
}
flags_value!(LogFlags);

attr_struct! {
    /// Log (`NFTA_LOG_*`). With a group it goes to nfnetlink_log, else to the kernel log; the
    /// kernel refuses a mixture.
    pub struct Log<'a> {
        /// Text before the line, at most 127 bytes.
        2 => prefix: Str<'a>,
        /// nfnetlink_log group.
        1 => group: u16,
        /// Bytes of the packet to send, with a group.
        3 => snaplen: u32,
        /// Packets to collect before sending, with a group.
        4 => qthreshold: u16,
        /// Level of the line, without a group.
        5 => level: LogLevel,
        /// See [`LogFlags`], without a group.
        6 => flags: LogFlags,
    }
}

impl<'a> Log<'a> {
    /// A line that starts with `prefix`, to the kernel log.
    #[must_use]
    pub fn prefix(prefix: impl Into<Str<'a>>) -> Self {
        Self {
            prefix: Some(prefix.into()),
            ..Self::default()
        }
    }

    /// To the listeners of an nfnetlink_log group.
    #[must_use]
    pub fn group(group: u16) -> Self {
        Self {
            group: Some(group),
            ..Self::default()
        }
    }
}

impl Text for Log<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "prefix", self.prefix)?;
        if let Some(group) = self.group {
            return write!(
                f,
                "group {group} snaplen {} qthreshold {} ",
                self.snaplen.unwrap_or_default(),
                self.qthreshold.unwrap_or_default()
            );
        }
        field(f, "level", self.level.map(|level| level.0))?;
        let flags = self.flags.unwrap_or(LogFlags::empty());
        for (flag, name) in [
            (LogFlags::TCPSEQ, "tcpseq "),
            (LogFlags::TCPOPT, "tcpopt "),
            (LogFlags::IPOPT, "ipopt "),
            (LogFlags::UID, "uid "),
            (LogFlags::MACDECODE, "macdecode "),
        ] {
            if flags.contains(flag) {
                f.write_str(name)?;
            }
        }
        Ok(())
    }
}
