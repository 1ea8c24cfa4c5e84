//! `kproxy explain`.

use core::net::{IpAddr, SocketAddr};
use core::str::FromStr;
use std::path::PathBuf;

use clap::Args;
use svc_planner::fake::Host;
use svc_planner::object::{Change, Protocol};

use super::{CliError, Exit, ProxyOptions, Results, Target, host_addresses, load};
use crate::engine;
use crate::explain::{self, Known, LiveState, Planned, Question, StateSource};

/// Say what becomes of a new connection, and why
///
/// Goes through the rules and rows that `apply` would program from the manifests, or with --live
/// through those the kernel holds, which are read by key: of big maps only the rows in question.
/// Changes nothing.
///
/// Without --iif a source that is an address of this node is a process of the node; any other
/// arrives on some interface that has no pods.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy explain -f manifests/ --from 10.244.1.7 --to 10.96.0.10:53/udp
  kproxy explain -f manifests/ --from 203.0.113.9 --to 192.0.2.1:30080/tcp --node-name node-a
  kproxy explain -f manifests/ --live --from 10.244.1.7 --iif cali0a1 --to '[fd00:10:96::a]:80'
  kproxy explain --live --from 192.0.2.1 --to 10.96.0.10:443/tcp -o json | jq .decision

Exit codes:
  0   goes to an endpoint
  1   failed
  4   not translated: goes where it is addressed to
  5   rejected
  6   dropped; so, too, if only some of the ways end so
  64  wrong arguments")]
pub(super) struct Explain {
    /// Manifests: files or folders of YAML or JSON, `-` for standard input; with --live only to name
    /// Services and endpoints
    #[arg(long, short, value_name = "FILE|DIR", required_unless_present = "live")]
    filename: Vec<PathBuf>,

    /// Source address, with or without a port
    #[arg(long, value_name = "IP[:PORT]")]
    from: Source,

    /// Destination; without a protocol TCP
    #[arg(long, value_name = "IP:PORT/PROTOCOL")]
    to: Destination,

    /// Interface on which it arrives
    #[arg(long, value_name = "NAME")]
    iif: Option<String>,

    /// Go by what the kernel holds
    #[arg(long)]
    live: bool,

    /// Addresses of this node besides those of its Node object and, with --live, of its interfaces
    #[arg(long, value_name = "IP,…", value_delimiter = ',')]
    host_address: Vec<IpAddr>,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    results: Results,

    #[command(flatten)]
    proxy: ProxyOptions,
}

impl Explain {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let question = Question {
            from: self.from.address,
            from_port: self.from.port,
            to: self.to.address,
            protocol: self.to.protocol,
            interface: self.iif,
        };
        if question.from.is_ipv4() != question.to.is_ipv4() {
            return Err(CliError::Families);
        }
        let family = question.family();
        let mut planned = Planned::new(|family| self.proxy.config(family));
        let mut addresses = self.host_address;
        if self.live {
            addresses.extend(host_addresses(&self.target.netns())?);
        }
        load(&self.filename, &self.proxy, addresses.clone(), |change| {
            planned.apply(change);
        })?;
        addresses.extend_from_slice(planned.objects().node_addresses());
        planned.apply(Change::HostAddresses(addresses.clone()));
        planned.settle(family)?;
        let host = Host::new(addresses);
        let mut live = None;
        if self.live {
            let mut connection = engine::connect(&self.target.netns())?;
            let packet = question.packet(&host);
            live = Some(LiveState::read(&mut connection, &packet, &host)?);
        }
        let explanation = explain::explain(
            question,
            &Known {
                kernel: live
                    .as_ref()
                    .map_or_else(|| planned.kernel(), |it| &it.kernel),
                state: if self.live {
                    StateSource::Live
                } else {
                    StateSource::Planned
                },
                host: &host,
                node_name: &self.proxy.identity().name,
                objects: planned.objects(),
                owner: &|key| planned.owner(family, key),
                reports: &planned.reports(family),
            },
        );
        self.results.printer().print(&explanation, explain::text)?;
        Ok(Exit::Decided(explanation.decision))
    }
}

/// `IP[:PORT]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    address: IpAddr,
    port: Option<u16>,
}

impl FromStr for Source {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self {
                address,
                port: None,
            });
        }
        let socket = text.parse::<SocketAddr>();
        let socket = socket.map_err(|_| "a source is an address, or an address and a port")?;
        Ok(Self {
            address: socket.ip(),
            port: Some(socket.port()),
        })
    }
}

/// `IP:PORT[/PROTOCOL]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Destination {
    address: SocketAddr,
    protocol: Protocol,
}

impl FromStr for Destination {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        Ok(Self {
            address: address
                .parse()
                .map_err(|_| "a destination is IP:PORT/PROTOCOL, IPv6 as [IP]:PORT/PROTOCOL")?,
            protocol: match protocol.to_ascii_lowercase().as_str() {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                "sctp" => Protocol::Sctp,
                _ => return Err("the protocol is tcp, udp or sctp"),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let v6 = "fd00::1".parse::<Source>().unwrap();
        assert_eq!((v6.address, v6.port), ("fd00::1".parse().unwrap(), None));
        let v4 = "10.0.0.1:40000".parse::<Source>().unwrap();
        assert_eq!(v4.port, Some(40_000));
        assert_eq!("[fd00::1]:9".parse::<Source>().unwrap().port, Some(9));
        for wrong in ["", "10.0.0", "10.0.0.1:", "10.0.0.1:70000", "host"] {
            assert!(wrong.parse::<Source>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn destinations() {
        let to = "10.96.0.10:53/UDP".parse::<Destination>().unwrap();
        assert_eq!(to.address, "10.96.0.10:53".parse().unwrap());
        assert_eq!(to.protocol, Protocol::Udp);
        let to = "[fd00::a]:80".parse::<Destination>().unwrap();
        assert_eq!(to.protocol, Protocol::Tcp);
        for wrong in [
            "10.96.0.10",
            "10.96.0.10/tcp",
            "10.96.0.10:80/icmp",
            "fd00::a:80/",
        ] {
            assert!(wrong.parse::<Destination>().is_err(), "{wrong}");
        }
    }
}
