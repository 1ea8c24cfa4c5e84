//! nf_tables: objects, expressions, values (`include/uapi/linux/netfilter/nf_tables.h`).

pub mod expr;
pub mod value;

mod list;
mod reg;
mod str;

pub use expr::{Expr, Exprs};
pub use list::{List, ListIter};
pub use reg::Register;
pub use str::Str;
pub use value::{Data, Value, Verdict, VerdictCode};
