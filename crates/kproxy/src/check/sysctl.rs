//! Settings under `/proc/sys/net` of the calling thread's network namespace.

use std::fs;

use super::{Check, Finding, Level, finding};

/// A setting without its line feed; `None` if the kernel has no such setting.
pub(super) fn read(name: &str) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/sys/net/{name}")).ok()?;
    Some(text.trim().to_owned())
}

/// `nf_conntrack_max` is there as soon as conntrack is.
pub(super) fn conntrack() -> Finding {
    match read("netfilter/nf_conntrack_max") {
        Some(most) => finding(
            Check::Conntrack,
            Level::Ok,
            format!("connections are tracked, at most {most}"),
        ),
        None => finding(
            Check::Conntrack,
            Level::Problem,
            "connections are not tracked (module nf_conntrack): nothing can be translated",
        ),
    }
}

pub(super) fn ipv4() -> Finding {
    judge_ipv4(read("ipv4/ip_forward").as_deref())
}

fn judge_ipv4(forward: Option<&str>) -> Finding {
    match forward {
        Some("0") => finding(
            Check::Ipv4,
            Level::Problem,
            "IPv4 is not forwarded: endpoints elsewhere cannot be reached \
             (sysctl net.ipv4.ip_forward is 0)",
        ),
        Some(_) => finding(Check::Ipv4, Level::Ok, "IPv4 is there and forwarded"),
        None => finding(Check::Ipv4, Level::Note, "this kernel has no IPv4"),
    }
}

pub(super) fn ipv6() -> Finding {
    judge_ipv6(
        read("ipv6/conf/all/disable_ipv6").as_deref(),
        read("ipv6/conf/all/forwarding").as_deref(),
    )
}

fn judge_ipv6(disabled: Option<&str>, forward: Option<&str>) -> Finding {
    match (disabled, forward) {
        (None, _) => finding(
            Check::Ipv6,
            Level::Note,
            "IPv6 is not there: Services have their IPv4 addresses only",
        ),
        (Some("1"), _) => finding(
            Check::Ipv6,
            Level::Note,
            "IPv6 is disabled (sysctl net.ipv6.conf.all.disable_ipv6 is 1): \
             Services have their IPv4 addresses only",
        ),
        (_, Some("0")) => finding(
            Check::Ipv6,
            Level::Note,
            "IPv6 is there but not forwarded (sysctl net.ipv6.conf.all.forwarding is 0): \
             IPv6 endpoints elsewhere cannot be reached",
        ),
        _ => finding(Check::Ipv6, Level::Ok, "IPv6 is there and forwarded"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarding_and_families() {
        assert_eq!(judge_ipv4(Some("0")).level, Level::Problem);
        assert_eq!(judge_ipv4(Some("1")).level, Level::Ok);
        assert_eq!(judge_ipv4(None).level, Level::Note);
        assert_eq!(judge_ipv6(None, None).level, Level::Note);
        assert_eq!(judge_ipv6(Some("1"), Some("1")).level, Level::Note);
        assert_eq!(judge_ipv6(Some("0"), Some("0")).level, Level::Note);
        assert_eq!(judge_ipv6(Some("0"), Some("1")).level, Level::Ok);
    }
}
