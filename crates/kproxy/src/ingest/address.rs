//! Addresses and prefixes as stored objects spell them.
//!
//! Old objects may hold IPv4 numbers with leading zeros. Kubernetes reads them as decimal
//! (`ParseIPSloppy` in k8s.io/utils), and so does this; never as octal, as `inet_aton` would.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::{Reason, Report};

/// What a text should have been.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ParseAddressError {
    /// An address was expected.
    Address,
    /// A prefix (address/length) was expected.
    Prefix,
}

impl fmt::Display for ParseAddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Address => "an IP address",
            Self::Prefix => "an IP prefix (address/length)",
        })
    }
}

/// An address or prefix, and whether it was spelled with leading zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ParsedAddress<T> {
    /// In canonical form.
    pub value: T,
    /// A number of it had leading zeros.
    pub leading_zeros: bool,
}

/// Reads an address. Leading zeros are decimal; an IPv4 address in IPv6 clothes
/// (`::ffff:10.0.0.1`) is an IPv4 address.
///
/// # Errors
/// [`ParseAddressError::Address`].
pub fn parse_address(text: &str) -> Result<ParsedAddress<IpAddr>, ParseAddressError> {
    as_written(text).map(|parsed| ParsedAddress {
        value: parsed.value.to_canonical(),
        ..parsed
    })
}

/// An IPv4 address in IPv6 clothes keeps them.
fn as_written(text: &str) -> Result<ParsedAddress<IpAddr>, ParseAddressError> {
    if let Ok(value) = text.parse::<IpAddr>() {
        return Ok(ParsedAddress {
            value,
            leading_zeros: false,
        });
    }
    let sloppy = |value: IpAddr| ParsedAddress {
        value,
        leading_zeros: true,
    };
    if let Some((head, tail)) = text.rsplit_once(':') {
        // The dotted tail of an IPv6 address.
        let tail = dotted(tail).ok_or(ParseAddressError::Address)?;
        return format!("{head}:{tail}")
            .parse::<Ipv6Addr>()
            .map(|address| sloppy(address.into()))
            .map_err(|_| ParseAddressError::Address);
    }
    dotted(text)
        .map(|address| sloppy(address.into()))
        .ok_or(ParseAddressError::Address)
}

/// Reads a prefix; host bits are cleared, blanks around it are ignored. One of IPv4 addresses in IPv6
/// clothes (`::ffff:10.0.0.0/104`) is a prefix of IPv4 addresses, as in Go.
///
/// # Errors
/// [`ParseAddressError::Prefix`].
pub fn parse_prefix(text: &str) -> Result<ParsedAddress<IpNet>, ParseAddressError> {
    let (address, length) = text
        .trim()
        .split_once('/')
        .ok_or(ParseAddressError::Prefix)?;
    let ParsedAddress {
        value: address,
        leading_zeros,
    } = as_written(address).map_err(|_| ParseAddressError::Prefix)?;
    let digits = decimal(length).ok_or(ParseAddressError::Prefix)?;
    let net = match address {
        IpAddr::V4(address) => Ipv4Net::new(address, digits).map(IpNet::V4),
        IpAddr::V6(address) => Ipv6Net::new(address, digits).map(IpNet::V6),
    }
    .map_err(|_| ParseAddressError::Prefix)?;
    Ok(ParsedAddress {
        value: without_clothes(net.trunc()),
        leading_zeros: leading_zeros || (length.len() > 1 && length.starts_with('0')),
    })
}

/// A prefix of IPv4 addresses in IPv6 clothes as one of IPv4 addresses.
fn without_clothes(net: IpNet) -> IpNet {
    let IpAddr::V6(address) = net.addr() else {
        return net;
    };
    let mapped = address.to_ipv4_mapped();
    let length = net.prefix_len().checked_sub(96);
    let inner = mapped
        .zip(length)
        .map(|(v4, length)| Ipv4Net::new(v4, length));
    inner.and_then(Result::ok).map_or(net, IpNet::V4)
}

/// Four decimal numbers with any number of leading zeros.
fn dotted(text: &str) -> Option<Ipv4Addr> {
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        *octet = decimal(parts.next()?)?;
    }
    parts.next().is_none().then(|| octets.into())
}

/// Digits only (`parse` alone would take a sign).
fn decimal(text: &str) -> Option<u8> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

impl Report<'_> {
    /// An address, with a warning when it has leading zeros; `None` after an error was added.
    pub(super) fn address(&mut self, field: impl fmt::Display, text: &str) -> Option<IpAddr> {
        self.parsed(field, text, parse_address(text))
    }

    /// A prefix, in the same way.
    pub(super) fn prefix(&mut self, field: impl fmt::Display, text: &str) -> Option<IpNet> {
        self.parsed(field, text, parse_prefix(text))
    }

    fn parsed<T: fmt::Display>(
        &mut self,
        field: impl fmt::Display,
        text: &str,
        result: Result<ParsedAddress<T>, ParseAddressError>,
    ) -> Option<T> {
        match result {
            Ok(parsed) => {
                if parsed.leading_zeros {
                    self.add(
                        field,
                        Reason::LeadingZeros {
                            value: text.into(),
                            used: parsed.value.to_string().into(),
                        },
                    );
                }
                Some(parsed.value)
            }
            Err(error) => {
                self.add(
                    field,
                    Reason::Address {
                        value: text.into(),
                        error,
                    },
                );
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn address(text: &str) -> Option<(String, bool)> {
        let parsed = parse_address(text).ok()?;
        Some((parsed.value.to_string(), parsed.leading_zeros))
    }

    fn prefix(text: &str) -> Option<(String, bool)> {
        let parsed = parse_prefix(text).ok()?;
        Some((parsed.value.to_string(), parsed.leading_zeros))
    }

    #[test]
    fn leading_zeros_are_decimal_never_octal() {
        let zeros = |text: &str| Some((text.to_owned(), true));
        assert_eq!(address("10.96.011.012"), zeros("10.96.11.12"));
        assert_eq!(address("010.0.0.1"), zeros("10.0.0.1"));
        assert_eq!(address("172.30.0.041"), zeros("172.30.0.41"));
        assert_eq!(address("10.0.0.08"), zeros("10.0.0.8"));
        assert_eq!(address("::ffff:010.0.0.1"), zeros("10.0.0.1"));
        assert_eq!(prefix("203.0.113.000/025"), zeros("203.0.113.0/25"));
        assert_eq!(prefix("10.0.0.08/8"), zeros("10.0.0.0/8"));
        assert_eq!(prefix("::ffff:010.0.0.0/0104"), zeros("10.0.0.0/8"));
    }

    #[test]
    fn canonical_forms() {
        let plain = |text: &str| Some((text.to_owned(), false));
        assert_eq!(address("FD00:0:0::0001"), plain("fd00::1"));
        assert_eq!(address("::ffff:10.0.0.1"), plain("10.0.0.1"));
        assert_eq!(prefix(" 203.0.113.0/25\t"), plain("203.0.113.0/25"));
        assert_eq!(prefix("10.1.2.3/8"), plain("10.0.0.0/8"));
        assert_eq!(prefix("::/0"), plain("::/0"));
        assert_eq!(prefix("::ffff:10.1.2.3/104"), plain("10.0.0.0/8"));
        assert_eq!(prefix("::FFFF:0:0/96"), plain("0.0.0.0/0"));
        assert_eq!(prefix("::ffff:10.1.2.3/95"), plain("::fffe:0:0/95"));
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            ".",
            "1.2.3",
            "1.2.3.4.5",
            "1.2.3.256",
            "+1.2.3.4",
            "0x7f.0.0.1",
            "1.2.3.-4",
            "fe80::1%eth0",
            "[::1]",
            "example.org",
            "1.2.3.4 ",
            ":",
            "::1.2.3",
            "٣.1.1.1",
        ] {
            assert_eq!(address(text), None, "{text:?}");
        }
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "::/129",
            "10.0.0.0/+8",
        ] {
            assert_eq!(prefix(text), None, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_handled(text in ".{0,40}") {
            let _ = parse_address(&text);
            let _ = parse_prefix(&text);
        }

        #[test]
        fn zeros_in_front_change_nothing(octets: [u8; 4], zeros in 1usize..4) {
            let plain: IpAddr = octets.into();
            let padded = octets.map(|o| format!("{}{o}", "0".repeat(zeros))).join(".");
            prop_assert_eq!(
                parse_address(&padded),
                Ok(ParsedAddress { value: plain, leading_zeros: true })
            );
        }
    }
}
