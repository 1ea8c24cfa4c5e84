#![doc = include_str!("../README.md")]
//!
//! # The wire
//!
//! ```text
//! datagram  = message, message, …                 each padded to 4 bytes
//! message   = nlmsghdr (16, native order) | nfgenmsg (4) | attribute …
//! attribute = nla_len u16 (native) | nla_type u16 (native) | payload | padding to 4
//! payload   = value (nf_tables integers: network order) | nested attributes
//! ```
//!
//! Two byte orders live side by side on this wire. Netlink's own headers are in the host's order
//! ([`byteorder::NativeEndian`]); every integer *value* of nfnetlink is in network order
//! ([`byteorder::NetworkEndian`]). Each load and store in this crate names the one it means.
//! Set keys and data are opaque bytes to the kernel; [`nft::value`] says which order each has.
//!
//! Encoding writes through an [`Encoder`]: a [`SliceCursor`] over your buffer, or a [`LenCounter`],
//! which tells the length beforehand.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(any(feature = "std", test))]
extern crate std;

#[macro_use]
mod macros;

#[cfg(test)]
mod arb;
mod attr;
mod cursor;
mod error;
#[cfg(test)]
mod limits;
#[cfg(test)]
mod round_trips;
mod wire;

pub mod ack;
pub mod ct;
#[cfg(feature = "rust-netlink")]
pub mod interop;
pub mod msg;
pub mod nft;
pub mod pretty;

pub use attr::{
    Attr, AttrBytes, AttrValue, Attrs, HostU32, NLA_F_NESTED, NLA_F_NET_BYTEORDER, put_attr,
};
pub use cursor::{Encoder, LenCounter, Nest, SliceCursor};
pub use error::{DecodeError, DecodeErrorKind, EncodeError};
pub use wire::{ALIGN, ATTR_HEADER_LEN, MAX_ATTR_PAYLOAD, align};
