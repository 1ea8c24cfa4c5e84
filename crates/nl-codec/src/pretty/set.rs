use core::fmt::{self, Display, Formatter};

use super::text::{Null, data, userdata};
use crate::nft::elem::{Elem, ElemFlags, ElemList};
use crate::nft::set::{Set, SetFlags};

/// A set or map without its elements: name, table, flags and limits.
///
/// ```text
/// services kube-proxy 8 size 65536
/// ```
#[derive(Debug, Clone, Copy)]
pub struct SetText<'t>(pub &'t Set<'t>);

impl Display for SetText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let set = self.0;
        let flags = set.flags.unwrap_or(SetFlags::empty()).bits();
        write!(f, "{} {} {flags:x}", Null(set.name), Null(set.table))?;
        if let Some(timeout) = set.timeout {
            write!(f, " timeout {timeout}ms")?;
        }
        if let Some(gc_interval) = set.gc_interval {
            write!(f, " gc_interval {gc_interval}ms")?;
        }
        if let Some(policy) = set.policy {
            write!(f, " policy {}", policy.0)?;
        }
        match set.desc.and_then(|desc| desc.size) {
            Some(size) => write!(f, " size {size}"),
            None => Ok(()),
        }
    }
}

/// Elements of a set: a line that names it, then a line with all elements, each
/// after a tab.
///
/// ```text
/// services kube-proxy 0
///     element 0100000a 00000006 00005000  : 00000001 0 [end]
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ElemsText<'t>(pub &'t ElemList<'t>);

impl Display for ElemsText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let list = self.0;
        // An element message says nothing of the set's flags.
        write!(f, "{} {} 0", Null(list.set), Null(list.table))?;
        let mut elems = list.elems.iter().flatten().peekable();
        if elems.peek().is_some() {
            f.write_str("\n")?;
        }
        for entry in elems {
            match entry {
                Ok(entry) => write!(f, "\t{}", ElemText(&entry))?,
                Err(error) => write!(f, "\t[ {error} ]")?,
            }
        }
        Ok(())
    }
}

/// One element: key, data, flags, userdata.
#[derive(Debug, Clone, Copy)]
pub struct ElemText<'t>(pub &'t Elem<'t>);

impl Display for ElemText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let elem = self.0;
        f.write_str("element ")?;
        if let Some(key) = &elem.key {
            data(f, "", Some(key))?;
        }
        if let Some(key_end) = &elem.key_end {
            f.write_str(" - ")?;
            data(f, "", Some(key_end))?;
        }
        f.write_str(" : ")?;
        if let Some(value) = &elem.data {
            data(f, "", Some(value))?;
        }
        let flags = elem.flags.unwrap_or(ElemFlags::empty());
        write!(f, "{} [end]", flags.bits())?;
        match elem.userdata {
            Some(bytes) if !bytes.is_empty() => userdata(f, bytes),
            _ => Ok(()),
        }
    }
}
