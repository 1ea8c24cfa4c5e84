use core::fmt::{self, Display, Formatter};

use super::text::userdata;
use crate::msg::Family;
use crate::nft::Rule;

/// A rule: a line with family, table, chain and what else names it, then a line for each expression
/// and one for the userdata.
///
/// ```text
/// ip kube-proxy services 5
///   [ meta load l4proto => reg 1 ]
///   userdata = { \x00\x03hi\x00 }
/// ```
#[derive(Debug, Clone, Copy)]
pub struct RuleText<'t> {
    /// Family of its table.
    pub family: Family,
    /// The rule.
    pub rule: &'t Rule<'t>,
}

impl Display for RuleText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let rule = self.rule;
        self.family.fmt(f)?;
        for name in [rule.table, rule.chain].into_iter().flatten() {
            write!(f, " {name}")?;
        }
        let ids = [rule.id, rule.position_id].map(|id| id.map(u64::from));
        let numbers = [rule.handle, rule.position].into_iter().chain(ids);
        for number in numbers.flatten() {
            write!(f, " {number}")?;
        }
        f.write_str("\n")?;
        for expr in rule.exprs.iter().flatten() {
            match expr {
                Ok(expr) => writeln!(f, "  {expr}")?,
                Err(error) => writeln!(f, "  [ {error} ]")?,
            }
        }
        match rule.userdata {
            Some(bytes) if !bytes.is_empty() => userdata(f, bytes),
            _ => Ok(()),
        }
    }
}
