//! Netlink alignment and the limits that follow from its 16-bit attribute length.

/// Messages and attributes are padded to this many bytes (`NLMSG_ALIGNTO`, `NLA_ALIGNTO`).
pub const ALIGN: usize = 4;

/// Bytes of `struct nlattr`: `nla_len` and `nla_type`.
pub const ATTR_HEADER_LEN: usize = 4;

/// The longest payload a `u16 nla_len` can describe: 65,531 bytes.
pub const MAX_ATTR_PAYLOAD: usize = 0xffff - ATTR_HEADER_LEN;

/// Rounds a length up to [`ALIGN`]; saturates instead of wrapping.
#[must_use]
pub const fn align(len: usize) -> usize {
    len.saturating_add(ALIGN - 1) & !(ALIGN - 1)
}
