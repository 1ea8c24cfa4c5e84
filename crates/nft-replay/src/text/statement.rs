//! Expressions that need no registers, and those that elements carry.

use nl_codec::nft::expr::{
    Expr, IcmpxCode, Limit, LimitFlags, LimitType, Log, NatFlags, QuotaFlags, Reject, RejectType,
};

/// A counter, limit and so on as nft writes them.
pub(super) fn stateful(expr: &Expr<'_>) -> String {
    match expr {
        Expr::Counter(counter) => format!(
            "counter packets {} bytes {}",
            counter.packets.unwrap_or_default(),
            counter.bytes.unwrap_or_default()
        ),
        Expr::Limit(limit) => limit_text(limit),
        Expr::Quota(quota) => {
            let inverted = quota
                .flags
                .is_some_and(|flags| flags.contains(QuotaFlags::INVERT));
            let over = if inverted { "over " } else { "" };
            format!("quota {over}{} bytes", quota.bytes.unwrap_or_default())
        }
        Expr::Connlimit(connlimit) => {
            let over = connlimit.flags.is_some_and(|flags| !flags.is_empty());
            let over = if over { "over " } else { "" };
            format!("ct count {over}{}", connlimit.count.unwrap_or_default())
        }
        Expr::Last(_) => "last".to_owned(),
        other => other.to_string(),
    }
}

fn limit_text(limit: &Limit) -> String {
    let unit = match limit.unit {
        Some(1) => "second".to_owned(),
        Some(60) => "minute".to_owned(),
        Some(3_600) => "hour".to_owned(),
        Some(86_400) => "day".to_owned(),
        Some(604_800) => "week".to_owned(),
        other => format!("{} seconds", other.unwrap_or_default()),
    };
    let over = limit
        .flags
        .is_some_and(|flags| flags.contains(LimitFlags::INVERT));
    let over = if over { "over " } else { "" };
    let kind = limit.limit_type.unwrap_or(LimitType::PACKETS);
    let rate = limit.rate.unwrap_or_default();
    let bytes = if kind == LimitType::BYTES {
        " bytes"
    } else {
        ""
    };
    format!(
        "limit rate {over}{rate}{bytes}/{unit} burst {} {kind}",
        limit.burst.unwrap_or_default()
    )
}

pub(super) fn log(log: &Log<'_>) -> String {
    let mut text = "log".to_owned();
    if let Some(prefix) = log.prefix {
        text += &format!(" prefix \"{prefix}\"");
    }
    if let Some(group) = log.group {
        text += &format!(" group {group}");
    }
    if let Some(level) = log.level {
        text += &format!(" level {level}");
    }
    text
}

pub(super) fn reject(reject: &Reject) -> String {
    let code = reject.icmp_code.unwrap_or_default();
    match reject.reject_type {
        Some(RejectType::TCP_RST) => "reject with tcp reset".to_owned(),
        Some(RejectType::ICMPX_UNREACH) => format!("reject with icmpx {}", IcmpxCode(code)),
        Some(RejectType::ICMP_UNREACH) => format!("reject with icmp code {code}"),
        _ => "reject".to_owned(),
    }
}

pub(super) fn nat_flags(flags: Option<NatFlags>) -> String {
    let flags = flags.unwrap_or(NatFlags::empty());
    let known = [
        (NatFlags::PROTO_RANDOM, " random"),
        (NatFlags::PROTO_RANDOM_FULLY, " fully-random"),
        (NatFlags::PERSISTENT, " persistent"),
    ];
    let names = known.iter().filter(|(flag, _)| flags.contains(*flag));
    names.map(|(_, name)| *name).collect()
}
