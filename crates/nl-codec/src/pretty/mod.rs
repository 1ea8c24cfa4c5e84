//! Text in the style of `nft --debug=netlink` (libnftnl 1.2.4, the one of nft 1.0.6).
//!
//! Expressions are [`Display`](core::fmt::Display) themselves: `[ meta load l4proto => reg 1 ]`.
//! The adaptors here show whole objects. Nothing allocates.
//!
//! Where the text differs from nft's:
//! - a number without a name is shown as a number, where libnftnl says `unknown`; `ct id`, which
//!   libnftnl 1.2.4 has a name for and does not find, has its name;
//! - a mandatory attribute that is missing is `?`, where libnftnl shows 0;
//! - the timeouts of a `ct timeout` object are shown by number, all of them, where libnftnl names
//!   those that differ from the kernel's defaults;
//! - a flowtable's hook is `ingress`, which libnftnl calls `prerouting`; inet ingress and netdev
//!   egress have their names;
//! - nft shows chains, objects and flowtables before it has put in their names (`(null)`) and the
//!   policy; here what the message holds is shown.

mod chain;
mod obj;
mod rule;
mod set;
pub(crate) mod text;

pub use chain::{ChainText, FlowtableText};
pub use obj::ObjText;
pub use rule::RuleText;
pub use set::{ElemText, ElemsText, SetText};
