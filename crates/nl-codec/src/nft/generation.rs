//! The ruleset's generation (`nf_tables_fill_gen_info`).

use super::Str;

attr_struct! {
    /// Generation (`NFTA_GEN_*`): the reply to GET_GEN, and the event at the end of each commit.
    pub struct Generation<'a> {
        /// Goes up by one with each commit in the network namespace.
        1 => id: u32,
        /// Process that committed; 0 outside the reader's pid namespace. In events.
        2 => pid: u32,
        /// Name of that process. In events.
        3 => process: Str<'a>,
    }
}
