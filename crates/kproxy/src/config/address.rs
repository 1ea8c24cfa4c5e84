//! Addresses and prefixes as Kubernetes reads them from configuration: Go's old `net.ParseIP` and
//! `net.ParseCIDR`, which take decimal numbers with leading zeros
//! (k8s.io/utils/net `ParseIPSloppy`, `ParseCIDRSloppy`).

use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use ipnet::IpNet;

/// An address.
pub(super) fn ip(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        return text.parse().ok();
    }
    let mut parts = text.split('.');
    let mut octets = [0; 4];
    for octet in &mut octets {
        let part = parts.next()?;
        if part.is_empty() || !part.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        *octet = part.parse::<u32>().ok()?.try_into().ok()?;
    }
    parts
        .next()
        .is_none()
        .then(|| Ipv4Addr::from(octets).into())
}

/// A prefix; bits behind its length may be set.
pub(super) fn cidr(text: &str) -> Option<IpNet> {
    let (address, length) = text.split_once('/')?;
    if length.is_empty() || !length.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    IpNet::new(ip(address)?, length.parse().ok()?).ok()
}

/// An address and a port of 1 to 65535.
pub(super) fn socket(text: &str) -> Option<SocketAddr> {
    let (host, port) = split_host_port(text)?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    Some(SocketAddr::new(ip(host)?, port))
}

/// As Go's `net.SplitHostPort`: the host without its brackets, which one with colons must have.
pub(super) fn split_host_port(text: &str) -> Option<(&str, &str)> {
    let (host, port) = text.rsplit_once(':')?;
    let bare = match host.strip_prefix('[') {
        Some(host) => host.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    (!bare.contains(['[', ']']) && !port.contains(['[', ']'])).then_some((bare, port))
}

/// `text` with a port, if it is an address without one (kube-proxy's `AppendPortIfNeeded`).
pub(super) fn with_port(text: &str, port: u16) -> String {
    match ip(text) {
        Some(IpAddr::V4(_)) => format!("{text}:{port}"),
        Some(IpAddr::V6(_)) => format!("[{text}]:{port}"),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_as_kubernetes_reads_them() {
        assert_eq!(ip("010.0.0.1"), Some(Ipv4Addr::new(10, 0, 0, 1).into()));
        assert_eq!(ip("::1"), "::1".parse().ok());
        for wrong in [
            "",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "1.2.+3.4",
            "[::]",
            "foo",
            "fe80::1%lo",
        ] {
            assert_eq!(ip(wrong), None, "{wrong}");
        }
        assert_eq!(cidr("10.2.3.4/24"), "10.2.3.4/24".parse().ok());
        assert_eq!(cidr("fd00::/8"), "fd00::/8".parse().ok());
        for wrong in [
            "10.0.0.0",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/",
            " 10.0.0.0/8",
        ] {
            assert_eq!(cidr(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn hosts_and_ports_are_told_apart() {
        assert_eq!(split_host_port("1.2.3.4:5"), Some(("1.2.3.4", "5")));
        assert_eq!(split_host_port("[::1]:5"), Some(("::1", "5")));
        assert_eq!(split_host_port(":5"), Some(("", "5")));
        for wrong in ["1.2.3.4", "::1", "[::1]", "[::1", "a:b:c", "[a]b:1"] {
            assert_eq!(split_host_port(wrong), None, "{wrong}");
        }
        assert_eq!(socket("[::]:10256"), "[::]:10256".parse().ok());
        assert_eq!(socket("1.2.3.4:0"), None);
        assert_eq!(with_port("::1", 7), "[::1]:7");
        assert_eq!(with_port("1.2.3.4", 7), "1.2.3.4:7");
        assert_eq!(with_port("1.2.3.4:9", 7), "1.2.3.4:9");
        assert_eq!(with_port("", 7), "");
    }
}
