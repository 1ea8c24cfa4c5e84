//! Zero-allocation encoder and borrowed decoder for netlink, nfnetlink and nf_tables messages.
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
//! Encoding writes into a caller's buffer through an [`Encoder`]; the same code run over a
//! [`LenCounter`] tells the length beforehand. Decoding borrows from the received buffer. Neither
//! allocates, panics on input, nor lets a length wrap.
//!
//! ```
//! use nl_codec::SliceCursor;
//! use nl_codec::msg::{self, Family, Flags, Head, Messages, NftMsg};
//! use nl_codec::nft::Table;
//!
//! # fn main() -> Result<(), Box<dyn core::error::Error>> {
//! let mut buf = [0; 256];
//! let mut cursor = SliceCursor::new(&mut buf);
//! let head = Head::nft(NftMsg::NEW_TABLE, Family::INET)
//!     .with_flags(Flags::CREATE | Flags::ACK)
//!     .with_seq(1);
//! msg::put_batch_begin(&mut cursor, 0, None)?;
//! msg::put_message(&mut cursor, &head, &Table::named("filter"))?;
//! msg::put_batch_end(&mut cursor, 2, Flags::empty())?;
//! // Send `cursor.written()`. What is received reads the same way:
//! let second = Messages::new(cursor.written()).nth(1).ok_or("no message")??;
//! let table: Table<'_> = second.nfnetlink()?.body()?;
//! assert!(table.name.is_some_and(|name| name == *"filter"));
//! # Ok(())
//! # }
//! ```
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
