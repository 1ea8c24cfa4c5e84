//! Message types: netlink's own, nfnetlink's batch control, and subsystem messages.

use core::fmt;

open_enum! {
    /// nfnetlink subsystem (`NFNL_SUBSYS_*`).
    pub struct Subsystem(u8) {
        /// Conntrack.
        CTNETLINK = 1, "ctnetlink";
        /// Conntrack expectations.
        CTNETLINK_EXP = 2, "ctnetlink_exp";
        /// nf_tables.
        NFTABLES = 10, "nftables";
        /// xtables compatibility of nf_tables.
        NFT_COMPAT = 11, "nft_compat";
        /// Listing of hooks.
        HOOK = 12, "hook";
    }
}

open_enum! {
    /// nf_tables messages (`enum nf_tables_msg_types`).
    pub struct NftMsg(u8) {
        /// Create or change a table; also the event.
        NEW_TABLE = 0, "newtable";
        /// Read tables.
        GET_TABLE = 1, "gettable";
        /// Delete a table; also the event.
        DEL_TABLE = 2, "deltable";
        /// Create or change a chain; also the event.
        NEW_CHAIN = 3, "newchain";
        /// Read chains.
        GET_CHAIN = 4, "getchain";
        /// Delete a chain; also the event.
        DEL_CHAIN = 5, "delchain";
        /// Create or replace a rule; also the event.
        NEW_RULE = 6, "newrule";
        /// Read rules.
        GET_RULE = 7, "getrule";
        /// Delete rules; also the event.
        DEL_RULE = 8, "delrule";
        /// Create or change a set; also the event.
        NEW_SET = 9, "newset";
        /// Read sets.
        GET_SET = 10, "getset";
        /// Delete a set; also the event.
        DEL_SET = 11, "delset";
        /// Add elements; also the event.
        NEW_SETELEM = 12, "newsetelem";
        /// Read elements.
        GET_SETELEM = 13, "getsetelem";
        /// Delete elements; also the event.
        DEL_SETELEM = 14, "delsetelem";
        /// Generation: reply and event at the end of a commit.
        NEW_GEN = 15, "newgen";
        /// Read the generation.
        GET_GEN = 16, "getgen";
        /// Trace event.
        TRACE = 17, "trace";
        /// Create or change a stateful object; also the event.
        NEW_OBJ = 18, "newobj";
        /// Read stateful objects.
        GET_OBJ = 19, "getobj";
        /// Delete a stateful object; also the event.
        DEL_OBJ = 20, "delobj";
        /// Read and reset stateful objects.
        GET_OBJ_RESET = 21, "getobj_reset";
        /// Create or change a flowtable; also the event.
        NEW_FLOWTABLE = 22, "newflowtable";
        /// Read flowtables.
        GET_FLOWTABLE = 23, "getflowtable";
        /// Delete a flowtable; also the event.
        DEL_FLOWTABLE = 24, "delflowtable";
        /// Read rules and reset their state (Linux 6.2).
        GET_RULE_RESET = 25, "getrule_reset";
        /// Delete a table if it exists (this and the following: Linux 6.3).
        DESTROY_TABLE = 26, "destroytable";
        /// Delete a chain if it exists.
        DESTROY_CHAIN = 27, "destroychain";
        /// Delete rules if they exist.
        DESTROY_RULE = 28, "destroyrule";
        /// Delete a set if it exists.
        DESTROY_SET = 29, "destroyset";
        /// Delete elements that exist.
        DESTROY_SETELEM = 30, "destroysetelem";
        /// Delete a stateful object if it exists.
        DESTROY_OBJ = 31, "destroyobj";
        /// Delete a flowtable if it exists.
        DESTROY_FLOWTABLE = 32, "destroyflowtable";
        /// Read elements and reset their state (Linux 6.5).
        GET_SETELEM_RESET = 33, "getsetelem_reset";
    }
}

open_enum! {
    /// Conntrack messages (`enum cntl_msg_types`).
    pub struct CtMsg(u8) {
        /// Create or change a connection; also the event and the reply.
        NEW = 0, "new";
        /// Read connections.
        GET = 1, "get";
        /// Delete connections; also the event.
        DELETE = 2, "delete";
        /// Read connections and reset their counters.
        GET_CTRZERO = 3, "get_ctrzero";
        /// Statistics, one message per processor.
        GET_STATS_CPU = 4, "get_stats_cpu";
        /// Global statistics.
        GET_STATS = 5, "get_stats";
        /// Read connections whose removal is being announced.
        GET_DYING = 6, "get_dying";
        /// Read connections that are not in the table yet.
        GET_UNCONFIRMED = 7, "get_unconfirmed";
    }
}

/// `nlmsg_type`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MsgType(pub u16);

impl MsgType {
    /// Nothing.
    pub const NOOP: Self = Self(1);
    /// Error or ack.
    pub const ERROR: Self = Self(2);
    /// End of a dump.
    pub const DONE: Self = Self(3);
    /// Data was lost.
    pub const OVERRUN: Self = Self(4);
    /// Start of a transaction (`NFNL_MSG_BATCH_BEGIN`).
    pub const BATCH_BEGIN: Self = Self(16);
    /// End of a transaction (`NFNL_MSG_BATCH_END`).
    pub const BATCH_END: Self = Self(17);

    /// Message `msg` of `subsystem`.
    #[must_use]
    pub const fn new(subsystem: Subsystem, msg: u8) -> Self {
        Self(u16::from_be_bytes([subsystem.0, msg]))
    }

    /// nf_tables message.
    #[must_use]
    pub const fn nft(msg: NftMsg) -> Self {
        Self::new(Subsystem::NFTABLES, msg.0)
    }

    /// Conntrack message.
    #[must_use]
    pub const fn ct(msg: CtMsg) -> Self {
        Self::new(Subsystem::CTNETLINK, msg.0)
    }

    /// High byte; 0 for netlink's and nfnetlink's control messages.
    #[must_use]
    pub const fn subsystem(self) -> Subsystem {
        Subsystem(self.0.to_be_bytes()[0])
    }

    /// The nf_tables message, if it is one.
    #[must_use]
    pub fn as_nft(self) -> Option<NftMsg> {
        (self.subsystem() == Subsystem::NFTABLES).then_some(NftMsg(self.0.to_be_bytes()[1]))
    }

    /// The conntrack message, if it is one.
    #[must_use]
    pub fn as_ct(self) -> Option<CtMsg> {
        (self.subsystem() == Subsystem::CTNETLINK).then_some(CtMsg(self.0.to_be_bytes()[1]))
    }

    /// Whether it belongs to netlink itself (below `NLMSG_MIN_TYPE`).
    #[must_use]
    pub const fn is_control(self) -> bool {
        self.0 < Self::BATCH_BEGIN.0
    }
}

impl fmt::Display for MsgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::NOOP => f.write_str("noop"),
            Self::ERROR => f.write_str("error"),
            Self::DONE => f.write_str("done"),
            Self::OVERRUN => f.write_str("overrun"),
            Self::BATCH_BEGIN => f.write_str("batch begin"),
            Self::BATCH_END => f.write_str("batch end"),
            _ => match (self.as_nft(), self.as_ct()) {
                (Some(msg), _) => write!(f, "nftables {msg}"),
                (_, Some(msg)) => write!(f, "ctnetlink {msg}"),
                _ => write!(f, "{:#06x}", self.0),
            },
        }
    }
}

impl fmt::Debug for MsgType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MsgType({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn type_is_subsystem_and_message() {
        assert_eq!(MsgType::nft(NftMsg::DEL_SETELEM), MsgType(0x0a0e));
        assert_eq!(MsgType(0x0a0e).as_nft(), Some(NftMsg::DEL_SETELEM));
        assert_eq!(MsgType(0x0102).as_ct(), Some(CtMsg::DELETE));
        assert_eq!(MsgType::DONE.as_nft(), None);
        assert!(MsgType::DONE.is_control());
        assert!(!MsgType::BATCH_BEGIN.is_control());
    }
}
