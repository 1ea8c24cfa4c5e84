use rustix::{
    io::Errno,
    net::{AddressFamily, SocketType, socket},
};

/// Whether the kernel has IPv6 at all; not with `ipv6.disable=1`, nor where it is not built in.
/// Without it hosts get their IPv4 addresses only.
#[must_use]
pub fn has_ipv6() -> bool {
    // Whatever else goes wrong is no sign of a family that is missing.
    !matches!(
        socket(AddressFamily::INET6, SocketType::DGRAM, None),
        Err(Errno::AFNOSUPPORT)
    )
}
