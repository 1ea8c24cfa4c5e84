//! Which messages are of interest.

use core::net::IpAddr;
use core::str::FromStr;

use nl_codec::msg::{Family, NfMsg};

use crate::text::{Catalog, Rows, line};

/// What a message must be about; all that is given must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Filter {
    /// Table: `NAME` or `FAMILY NAME`.
    pub table: Option<TableName>,
    /// Set, map, chain or object of this name.
    pub set: Option<String>,
    /// Service.
    pub service: Option<Service>,
}

/// A table, in one family or in any.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName {
    family: Option<Family>,
    name: String,
}

impl FromStr for TableName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let words: Vec<_> = text
            .split(['/', ' '])
            .filter(|word| !word.is_empty())
            .collect();
        let (family, name) = match words.as_slice() {
            [name] => (None, *name),
            [family, name] => {
                let known = [
                    Family::IPV4,
                    Family::IPV6,
                    Family::INET,
                    Family::ARP,
                    Family::BRIDGE,
                    Family::NETDEV,
                ];
                let found = known.into_iter().find(|known| known.name() == Some(family));
                (
                    Some(found.ok_or("families are ip, ip6, inet, arp, bridge, netdev")?),
                    *name,
                )
            }
            _ => return Err("a table is NAME or FAMILY/NAME"),
        };
        Ok(Self {
            family,
            name: name.to_owned(),
        })
    }
}

/// How a Service is told: by the name that comments and names of chains hold, or by an address of
/// its.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Service {
    /// `namespace/name`.
    Named(String),
    /// Address, and port if any.
    At(IpAddr, Option<u16>),
}

impl FromStr for Service {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse() {
            return Ok(Self::At(address, None));
        }
        if let Ok(socket) = text.parse::<core::net::SocketAddr>() {
            return Ok(Self::At(socket.ip(), Some(socket.port())));
        }
        match text.split_once('/') {
            Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
                Ok(Self::Named(text.to_owned()))
            }
            _ => Err("a Service is NAMESPACE/NAME, ADDRESS or ADDRESS:PORT"),
        }
    }
}

impl Filter {
    /// Whether everything is of interest.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a message is of interest.
    #[must_use]
    pub fn wants(&self, msg: &NfMsg<'_>, catalog: &Catalog) -> bool {
        let table = self.table.as_ref().is_none_or(|table| {
            let family = table.family.is_none_or(|family| family == msg.nfgen.family);
            family && name(msg, 1) == Some(table.name.as_bytes())
        });
        table
            && self
                .set
                .as_ref()
                .is_none_or(|set| is_about(msg, set, catalog))
            && self
                .service
                .as_ref()
                .is_none_or(|service| service.is_in(msg, catalog))
    }
}

impl Filter {
    /// Whether an element is of interest, of a message that is.
    #[must_use]
    pub fn wants_row(&self, row: &str) -> bool {
        self.service
            .as_ref()
            .is_none_or(|service| service.is_in_text(row))
    }
}

impl Service {
    fn is_in(&self, msg: &NfMsg<'_>, catalog: &Catalog) -> bool {
        self.is_in_text(&line(msg, catalog, Rows::ALL).to_string())
    }

    fn is_in_text(&self, text: &str) -> bool {
        match self {
            Self::Named(name) => words(text, name, |c| {
                c.is_ascii_alphanumeric() || matches!(c, '-' | '.')
            }),
            Self::At(address, port) => {
                let address = address.to_string();
                let rows = text.split(['{', ',', '}']);
                rows.into_iter().any(|row| {
                    words(row, &address, |c| {
                        c.is_ascii_hexdigit() || matches!(c, '.' | ':')
                    }) && port.is_none_or(|port| {
                        words(row, &port.to_string(), |c| c.is_ascii_alphanumeric())
                    })
                })
            }
        }
    }
}

/// Whether `word` is in `text`, with nothing before and behind that could be part of it.
fn words(text: &str, word: &str, part: impl Fn(char) -> bool) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let behind = text
            .get(at + word.len()..)
            .and_then(|text| text.chars().next());
        // "10.0.0.1:80" is about 10.0.0.1 as well.
        let ends = |c: Option<char>| c.is_none_or(|c| !part(c) || c == ':');
        let tagged = || is_hash(text.get(..at).unwrap_or_default());
        (before.is_none_or(|c| !part(c)) || tagged()) && ends(behind)
    })
}

/// Whether text ends as the names of kube-proxy's chains do before the Service's: `service-2QRHZV4L-`.
fn is_hash(text: &str) -> bool {
    let hash = text
        .strip_suffix('-')
        .and_then(|text| text.rsplit('-').next());
    hash.is_some_and(|hash| {
        let upper = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
        hash.len() == 8 && hash.chars().all(upper)
    })
}

/// Whether it is the set's, chain's or object's definition or content, or a rule that uses it.
fn is_about(msg: &NfMsg<'_>, set: &str, catalog: &Catalog) -> bool {
    let named = (2..=3).any(|attr| name(msg, attr) == Some(set.as_bytes()));
    let used = || {
        let text = line(msg, catalog, Rows::NONE).to_string();
        words(&text, &format!("@{set}"), |c| {
            c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '@')
        })
    };
    named || used()
}

/// A top-level attribute as a name.
fn name<'a>(msg: &NfMsg<'a>, kind: u16) -> Option<&'a [u8]> {
    let attr = msg
        .attrs()
        .map_while(Result::ok)
        .find(|attr| attr.kind == kind)?;
    Some(attr.payload.strip_suffix(&[0]).unwrap_or(attr.payload))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_named_or_addressed() {
        assert_eq!("a/b".parse(), Ok(Service::Named("a/b".to_owned())));
        let address = "10.0.0.1".parse().unwrap();
        assert_eq!("10.0.0.1".parse(), Ok(Service::At(address, None)));
        assert_eq!("10.0.0.1:80".parse(), Ok(Service::At(address, Some(80))));
        assert!("[fd00::1]:80".parse::<Service>().is_ok());
        assert!("web".parse::<Service>().is_err());
        assert!("ip/t".parse::<TableName>().is_ok());
        assert!("foo/t".parse::<TableName>().is_err());
    }

    #[test]
    fn only_whole_words_count() {
        let part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        assert!(words("comment \"a/b:http\"", "a/b", part));
        assert!(words("goto service-2QRHZV4L-a/b/tcp/", "a/b", part));
        assert!(!words("goto service-2QRHZV4L-x-a/b/tcp/", "a/b", part));
        assert!(!words("a/b2", "a/b", part));
        assert!(!words("xa/b", "a/b", part));
    }
}
