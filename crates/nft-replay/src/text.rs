//! nf_tables messages as text in nft's manner. It is for reading: what nft would say with more words,
//! or cannot say at all, is shown in brackets as `nft --debug=netlink` does.

mod catalog;
mod comparison;
mod element;
mod message;
mod object;
mod operand;
mod payload;
mod rule;
mod statement;
mod value;

pub use catalog::{Catalog, SetShape};
pub use element::{Rows, element, elements};
pub use message::{Line, line};
pub use object::{chain, flowtable, object, set, table};
pub use rule::rule;
pub use value::{joined, plain};
