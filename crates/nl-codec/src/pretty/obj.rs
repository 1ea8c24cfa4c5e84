use core::fmt::{self, Display, Formatter};

use super::text::{Null, Shown, Text, field};
use crate::nft::expr::{Limit, LimitFlags, LimitType, ObjType, Quota, QuotaFlags};
use crate::nft::obj::{CtExpect, CtHelper, CtTimeout, Obj, ObjData};

/// A stateful object: what names it, then its parameters and state.
///
/// ```text
/// table kube-proxy name dropped use 0 [ counter pkts 3 bytes 500 ]
/// ```
#[derive(Debug, Clone, Copy)]
pub struct ObjText<'t>(pub &'t Obj<'t>);

impl Display for ObjText<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let obj = self.0;
        let (table, name) = (Null(obj.table), Null(obj.name));
        let in_use = obj.in_use.unwrap_or_default();
        write!(f, "table {table} name {name} use {in_use} [ ")?;
        match obj.kind.or_else(|| obj.data.map(|data| data.kind())) {
            Some(ObjType::CT_HELPER) => f.write_str("ct_helper ")?,
            Some(ObjType::CT_TIMEOUT) => f.write_str("ct_timeout ")?,
            Some(ObjType::CT_EXPECT) => f.write_str("ct_expect ")?,
            kind => write!(f, "{} ", Shown(kind))?,
        }
        if let Some(data) = &obj.data {
            data.text(f)?;
        }
        f.write_str("]")
    }
}

impl Text for ObjData<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter(counter) => counter.text(f),
            Self::Quota(quota) => quota_text(f, quota),
            Self::Limit(limit) => limit_text(f, limit),
            Self::Connlimit(connlimit) => connlimit.text(f),
            Self::Synproxy(synproxy) => synproxy.text(f),
            Self::CtHelper(helper) => helper.text(f),
            Self::CtTimeout(timeout) => timeout.text(f),
            Self::CtExpect(expect) => expect.text(f),
            Self::Secmark(secmark) => field(f, "context", secmark.context),
            Self::Tunnel(tunnel) => field(f, "id", tunnel.id),
            Self::Unknown { data, .. } => write!(f, "({} bytes) ", data.len()),
        }
    }
}

/// An object's quota has no word for what is used up.
fn quota_text(f: &mut Formatter<'_>, quota: &Quota) -> fmt::Result {
    let flags = quota.flags.unwrap_or(QuotaFlags::empty()).bits();
    write!(f, "bytes {} flags {flags} ", Shown(quota.bytes))
}

/// An object's limit is shown in numbers.
fn limit_text(f: &mut Formatter<'_>, limit: &Limit) -> fmt::Result {
    let limit_type = limit.limit_type.unwrap_or(LimitType::PACKETS).0;
    let flags = limit.flags.unwrap_or(LimitFlags::empty()).bits();
    write!(
        f,
        "rate {} unit {} burst {} type {limit_type} flags {flags} ",
        Shown(limit.rate),
        Shown(limit.unit),
        limit.burst.unwrap_or_default()
    )
}

impl Text for CtHelper<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "name {} family {} protocol {} ",
            Shown(self.name),
            self.l3proto.unwrap_or_default(),
            Shown(self.l4proto)
        )
    }
}

impl Text for CtTimeout<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "family", self.l3proto)?;
        field(f, "protocol", self.l4proto)?;
        let Some(timeouts) = self.timeouts else {
            return Ok(());
        };
        f.write_str("policy = {")?;
        for timeout in &timeouts {
            match timeout {
                Ok(timeout) => write!(f, "{} = {},", timeout.state, timeout.seconds)?,
                Err(error) => write!(f, "[ {error} ],")?,
            }
        }
        f.write_str("}")
    }
}

impl Text for CtExpect {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        field(f, "family", self.l3proto)?;
        field(f, "protocol", self.l4proto)?;
        field(f, "dport", self.dport)?;
        field(f, "timeout", self.timeout.map(|timeout| timeout.0))?;
        field(f, "size", self.size)
    }
}
