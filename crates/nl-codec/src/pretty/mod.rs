//! Text in the style of `nft --debug=netlink` (libnftnl 1.2.4, the one of nft 1.0.6).
//!
//! Expressions are [`Display`](core::fmt::Display) themselves: `[ meta load l4proto => reg 1 ]`.
//! The adaptors here show whole objects. Nothing allocates.
//!
//! Where the text differs from nft's:
//! - a number without a name is shown as a number, where libnftnl says `unknown`; `ct id`, which
//!   libnftnl 1.2.4 has a name for and does not find, has its name;
//! - a mandatory attribute that is missing is `?`, where libnftnl shows 0.

mod rule;
mod set;
pub(crate) mod text;

pub use rule::RuleText;
pub use set::{ElemText, ElemsText, SetText};
