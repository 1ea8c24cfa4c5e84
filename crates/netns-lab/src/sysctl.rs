use std::{fs, io};

use crate::error::{Doing as _, LabError};

/// Sets `net/…` of the calling thread's network namespace: `/proc/sys/net` shows each thread its
/// own. A setting this kernel does not have, or has for the whole machine only, is left alone.
///
/// # Errors
/// When the kernel refuses the value.
fn set(name: &str, value: &str) -> Result<(), LabError> {
    match fs::write(format!("/proc/sys/net/{name}"), value) {
        Err(error)
            if matches!(
                error.kind(),
                io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            ) =>
        {
            Ok(())
        }
        result => result.doing(format!("set net/{name} to {value}")),
    }
}

/// Settings every namespace gets.
const EVERYWHERE: &[(&str, &str)] = &[
    // Addresses are usable at once.
    ("ipv6/conf/all/accept_dad", "0"),
    ("ipv6/conf/default/accept_dad", "0"),
    ("ipv6/conf/all/accept_ra", "0"),
    ("ipv6/conf/default/accept_ra", "0"),
    // Rejects must not be rationed, or they look like drops now and then.
    ("ipv4/icmp_ratelimit", "0"),
    ("ipv4/icmp_msgs_per_sec", "1000000"),
    ("ipv4/icmp_msgs_burst", "1000000"),
    ("ipv6/icmp/ratelimit", "0"),
    // A node that turns a packet round on its link must not tell the sender to go direct.
    ("ipv4/conf/all/send_redirects", "0"),
    ("ipv4/conf/default/send_redirects", "0"),
    ("ipv4/conf/all/accept_redirects", "0"),
    ("ipv4/conf/default/accept_redirects", "0"),
    ("ipv6/conf/all/accept_redirects", "0"),
    ("ipv6/conf/default/accept_redirects", "0"),
    ("ipv4/conf/all/rp_filter", "0"),
    ("ipv4/conf/default/rp_filter", "0"),
    // Lets the probes ping without a raw socket.
    ("ipv4/ping_group_range", "0 0"),
];

/// Settings of the node on top of those.
const NODE: &[(&str, &str)] = &[
    ("ipv4/ip_forward", "1"),
    ("ipv6/conf/all/forwarding", "1"),
    ("ipv6/conf/default/forwarding", "1"),
];

pub(crate) fn apply_everywhere() -> Result<(), LabError> {
    EVERYWHERE
        .iter()
        .try_for_each(|(name, value)| set(name, value))
}

/// Settings of a host that answers for every address: IPv6 checks the source address of a datagram
/// against the interfaces' addresses, not against local routes.
const ANY_ADDRESS: &[(&str, &str)] = &[("ipv6/ip_nonlocal_bind", "1")];

pub(crate) fn apply_any_address() -> Result<(), LabError> {
    ANY_ADDRESS
        .iter()
        .try_for_each(|(name, value)| set(name, value))
}

pub(crate) fn apply_node() -> Result<(), LabError> {
    NODE.iter().try_for_each(|(name, value)| set(name, value))
}
