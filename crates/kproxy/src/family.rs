//! The IP families, and which of them the kernel has.

use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use svc_planner::plan::Family;

/// The families, each with a table of its own.
pub const FAMILIES: [Family; 2] = [Family::Ipv6, Family::Ipv4];

/// The families of which the kernel makes sockets: without IPv6 (`ipv6.disable=1`, or not built in) it
/// has nf_tables for it all the same, but nothing to use it for.
#[must_use]
pub fn present_families() -> Vec<Family> {
    let families = FAMILIES.into_iter();
    families.filter(|family| is_present(*family)).collect()
}

/// Whether the kernel has a family, see [`present_families`].
#[must_use]
pub fn is_present(family: Family) -> bool {
    let of = match family {
        Family::Ipv4 => AddressFamily::INET,
        Family::Ipv6 => AddressFamily::INET6,
    };
    match socket(of, SocketType::DGRAM, None) {
        Err(Errno::AFNOSUPPORT) => false,
        // Whatever else it is, it is no sign of a family that is missing.
        Ok(_) | Err(_) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_has_both() {
        assert_eq!(present_families(), FAMILIES);
    }
}
