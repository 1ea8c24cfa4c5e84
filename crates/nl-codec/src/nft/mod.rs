//! nf_tables: objects, expressions, values (`include/uapi/linux/netfilter/nf_tables.h`).

pub mod chain;
pub mod dtype;
pub mod elem;
pub mod expr;
pub mod flowtable;
pub mod generation;
pub mod obj;
pub mod rule;
pub mod set;
pub mod table;
pub mod udata;
pub mod value;

mod list;
mod reg;
mod str;

pub use chain::{Chain, ChainHook, Hook};
pub use dtype::DataType;
pub use elem::{Elem, ElemList, ElemRow, Elems, RawElem, put_elems};
pub use expr::{Expr, Exprs};
pub use flowtable::Flowtable;
pub use generation::Generation;
pub use list::{List, ListIter};
pub use obj::{Obj, ObjData};
pub use reg::Register;
pub use rule::Rule;
pub use set::Set;
pub use str::Str;
pub use table::Table;
pub use udata::Udata;
pub use value::{Data, Value, Verdict, VerdictCode};
