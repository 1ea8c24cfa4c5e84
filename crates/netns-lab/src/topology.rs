use core::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    time::Duration,
};
use std::{collections::HashMap, sync::Arc};

use crate::{
    association::Association,
    error::LabError,
    flow::Flow,
    ipv6::has_ipv6,
    namespace::Namespace,
    netlink::{Mac, Netlink, Route, RouteKind, width},
    probe::{Connection, Probe, Transport, Verdict},
    responder::Responder,
    socket::SourcePorts,
    sysctl,
};

/// Name of the host behind the node's default route, which answers for every address that no other
/// host has. What reaches it has left the node untouched.
pub const SINK: &str = "sink";

/// The node's end of the link to the sink.
const UPLINK: &str = "uplink";
/// Beginning of the names of the node's ends of the other links, numbered from 1.
const LINK: &str = "link";

const ANY4: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
const ANY6: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
/// Next hop on every link, in both directions; nobody has these addresses, the neighbour entries
/// are fixed.
const GATEWAY4: IpAddr = IpAddr::V4(Ipv4Addr::new(169, 254, 1, 1));
const GATEWAY6: IpAddr = IpAddr::V6(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));

/// A host of a [`Topology`]: a pod of this or another node, an external client, or the sink.
#[derive(Debug)]
pub struct Host {
    name: Box<str>,
    addresses: Vec<IpAddr>,
    namespace: Namespace,
}

/// What to build.
#[derive(Debug, Clone, Default)]
pub struct TopologyBuilder {
    node_addresses: Vec<IpAddr>,
    hosts: Vec<(Box<str>, Vec<IpAddr>)>,
}

/// A node in the middle of hosts, each on a link of its own.
#[derive(Debug)]
pub struct Topology {
    node: Namespace,
    node_addresses: Vec<IpAddr>,
    hosts: Vec<Host>,
    by_name: HashMap<Box<str>, usize>,
    responder: Responder,
    ports: Arc<SourcePorts>,
}

impl Host {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its addresses.
    #[must_use]
    pub fn addresses(&self) -> &[IpAddr] {
        &self.addresses
    }

    /// Where it lives.
    #[must_use]
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }
}

impl TopologyBuilder {
    /// Addresses of the node, the preferred one of each family first. They sit on the uplink.
    #[must_use]
    pub fn node(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.node_addresses.extend(addresses);
        self
    }

    /// Adds a host.
    #[must_use]
    pub fn host(mut self, name: &str, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.hosts
            .push((name.into(), addresses.into_iter().collect()));
        self
    }

    /// Makes the namespaces, links, addresses and routes.
    ///
    /// # Errors
    /// When the kernel refuses one of them, e.g. for lack of privilege.
    pub fn build(self) -> Result<Topology, LabError> {
        let node = Namespace::new("node")?;
        node.run(sysctl::apply_node)??;
        let mut hosts = Vec::with_capacity(self.hosts.len() + 1);
        let known: Vec<IpAddr> = self
            .hosts
            .iter()
            .flat_map(|(_, addresses)| addresses)
            .chain(&self.node_addresses)
            .copied()
            .collect();
        hosts.push(add_sink(&node, &self.node_addresses, known)?);
        for (number, (name, addresses)) in (1u16..).zip(self.hosts) {
            hosts.push(add_host(
                &node,
                number,
                name,
                addresses,
                &self.node_addresses,
            )?);
        }
        let by_name = hosts
            .iter()
            .enumerate()
            .map(|(index, host)| (host.name.clone(), index))
            .collect();
        let responder = Responder::start()?;
        Ok(Topology {
            node,
            node_addresses: self.node_addresses,
            hosts,
            by_name,
            responder,
            ports: Arc::new(SourcePorts::new()),
        })
    }
}

impl Topology {
    /// Starts describing a topology.
    #[must_use]
    pub fn builder() -> TopologyBuilder {
        TopologyBuilder::default()
    }

    /// The node's namespace: rules belong here.
    #[must_use]
    pub const fn node(&self) -> &Namespace {
        &self.node
    }

    /// The node's addresses.
    #[must_use]
    pub fn node_addresses(&self) -> &[IpAddr] {
        &self.node_addresses
    }

    /// A host by name; [`SINK`] is one.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`].
    pub fn host(&self, name: &str) -> Result<&Host, LabError> {
        self.by_name
            .get(name)
            .and_then(|index| self.hosts.get(*index))
            .ok_or_else(|| LabError::NoSuchHost(name.into()))
    }

    /// Name of the node's interface that leads to a host.
    ///
    /// # Errors
    /// [`LabError::NoSuchHost`].
    pub fn interface(&self, host: &str) -> Result<String, LabError> {
        match self.by_name.get(host) {
            None => Err(LabError::NoSuchHost(host.into())),
            Some(0) => Ok(UPLINK.to_owned()),
            Some(number) => Ok(format!("{LINK}{number}")),
        }
    }

    /// All hosts, the sink first.
    #[must_use]
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// Makes a host answer on a port, on all its addresses, with its name and the peer it saw.
    /// Asking twice is harmless. The node itself can be named `"node"`.
    ///
    /// # Errors
    /// When there is no such host, or the port is taken.
    pub fn serve(&self, host: &str, transport: Transport, port: u16) -> Result<(), LabError> {
        self.responder
            .serve(self.namespace(host)?, host, transport, port)
    }

    /// Stops answering on a port; established TCP connections stay.
    ///
    /// # Errors
    /// When there is no such host.
    pub fn stop_serving(
        &self,
        host: &str,
        transport: Transport,
        port: u16,
    ) -> Result<(), LabError> {
        self.namespace(host)?;
        self.responder.stop(host, transport, port)
    }

    /// Sends one probe from a host, or from `"node"`, and tells what became of it. The sink answers
    /// on the probed port, so that what left the node untouched is seen.
    ///
    /// # Errors
    /// When there is no such host or a socket cannot be made; a refused or lost probe is a verdict.
    pub fn probe(&self, from: &str, probe: Probe, deadline: Duration) -> Result<Verdict, LabError> {
        let namespace = self.namespace(from)?;
        if probe.transport != Transport::Icmp {
            self.serve(SINK, probe.transport, probe.to.port())?;
        }
        let ports = Arc::clone(&self.ports);
        namespace.run(move || probe.send(&ports, deadline))?
    }

    /// Opens a TCP connection and keeps it.
    ///
    /// # Errors
    /// When there is no such host, or the connection is not made within the deadline.
    pub fn connect(
        &self,
        from: &str,
        to: core::net::SocketAddr,
        deadline: Duration,
    ) -> Result<Connection, LabError> {
        let ports = Arc::clone(&self.ports);
        self.namespace(from)?
            .run(move || Connection::open(to, &ports, deadline))?
    }

    /// Makes an SCTP association and keeps it; the host must [serve](Self::serve) the port.
    ///
    /// # Errors
    /// When there is no such host, or it is not made within the deadline.
    pub fn associate(
        &self,
        from: &str,
        to: core::net::SocketAddr,
        deadline: Duration,
    ) -> Result<Association, LabError> {
        let ports = Arc::clone(&self.ports);
        self.namespace(from)?
            .run(move || Association::open(to, &ports, deadline))?
    }

    /// Makes a UDP socket whose datagrams are one flow to connection tracking.
    ///
    /// # Errors
    /// When there is no such host, or the socket cannot be made.
    pub fn flow(&self, from: &str, to: core::net::SocketAddr) -> Result<Flow, LabError> {
        let ports = Arc::clone(&self.ports);
        self.serve(SINK, Transport::Udp, to.port())?;
        self.namespace(from)?.run(move || Flow::open(to, &ports))?
    }

    fn namespace(&self, host: &str) -> Result<&Namespace, LabError> {
        if host == self.node.name() {
            return Ok(&self.node);
        }
        Ok(&self.host(host)?.namespace)
    }
}

/// "Any address" of each family that the kernel has, and the node's address as a gateway.
fn gateways() -> impl Iterator<Item = (IpAddr, IpAddr)> {
    let six = has_ipv6().then_some((ANY6, GATEWAY6));
    [(ANY4, GATEWAY4)].into_iter().chain(six)
}

/// Locally administered Ethernet address of one end of link `number`.
const fn mac(number: u16, end: u8) -> Mac {
    let [high, low] = number.to_be_bytes();
    [0x02, 0, end, 0, high, low]
}

fn first_of_family(addresses: &[IpAddr], like: IpAddr) -> Option<IpAddr> {
    addresses
        .iter()
        .copied()
        .find(|address| address.is_ipv4() == like.is_ipv4())
}

/// Makes a link between the node and a namespace, up on both ends; returns the node's end.
fn add_link(
    node: &Namespace,
    number: u16,
    interface: &str,
    peer: &Namespace,
) -> Result<u32, LabError> {
    let far = peer.handle();
    let name = interface.to_owned();
    let near = node.run(move || {
        let mut netlink = Netlink::open()?;
        netlink.add_veth((&name, mac(number, 1)), (far.fd(), mac(number, 2)))?;
        let link = netlink.index(&name)?;
        netlink.set_up(link)?;
        Ok::<_, LabError>(link)
    })??;
    peer.run(move || {
        let mut netlink = Netlink::open()?;
        let link = netlink.index("eth0")?;
        netlink.set_up(link)?;
        netlink.wait_running(link)
    })??;
    node.run(move || Netlink::open()?.wait_running(near))??;
    Ok(near)
}

/// Adds addresses and the default route to the only link of a host.
fn configure_host(
    netlink: &mut Netlink,
    number: u16,
    addresses: &[IpAddr],
) -> Result<(), LabError> {
    let link = netlink.index("eth0")?;
    for address in addresses {
        netlink.add_address(link, *address)?;
    }
    for (any, gateway) in gateways() {
        netlink.add_neighbour(link, gateway, mac(number, 1))?;
        let source = first_of_family(addresses, any);
        if source.is_some() {
            let (to, via, kind) = ((any, 0), Some(gateway), RouteKind::Unicast);
            netlink.add_route(&Route {
                to,
                link,
                via,
                source,
                kind,
            })?;
        }
    }
    Ok(())
}

fn add_host(
    node: &Namespace,
    number: u16,
    name: Box<str>,
    addresses: Vec<IpAddr>,
    node_addresses: &[IpAddr],
) -> Result<Host, LabError> {
    let namespace = Namespace::new(&name)?;
    let interface = format!("{LINK}{number}");
    let near = add_link(node, number, &interface, &namespace)?;
    let own = addresses.clone();
    namespace.run(move || configure_host(&mut Netlink::open()?, number, &own))??;
    let (remote, node_addresses) = (addresses.clone(), node_addresses.to_vec());
    node.run(move || {
        let mut netlink = Netlink::open()?;
        for address in remote {
            netlink.add_neighbour(near, address, mac(number, 2))?;
            netlink.add_route(&Route {
                to: (address, width(address)),
                link: near,
                via: None,
                source: first_of_family(&node_addresses, address),
                kind: RouteKind::Unicast,
            })?;
        }
        Ok::<_, LabError>(())
    })??;
    Ok(Host {
        name,
        addresses,
        namespace,
    })
}

/// Adds the uplink: the node's own addresses on its end, a host that takes every address on the
/// other.
fn add_sink(
    node: &Namespace,
    node_addresses: &[IpAddr],
    known: Vec<IpAddr>,
) -> Result<Host, LabError> {
    const NUMBER: u16 = 0;
    let namespace = Namespace::new(SINK)?;
    let near = add_link(node, NUMBER, UPLINK, &namespace)?;
    let own = node_addresses.to_vec();
    node.run(move || {
        let mut netlink = Netlink::open()?;
        for address in &own {
            netlink.add_address(near, *address)?;
        }
        for (any, gateway) in gateways() {
            netlink.add_neighbour(near, gateway, mac(NUMBER, 2))?;
            let Some(source) = first_of_family(&own, any) else {
                continue;
            };
            netlink.add_route(&Route {
                to: (any, 0),
                link: near,
                via: Some(gateway),
                source: Some(source),
                kind: RouteKind::Unicast,
            })?;
        }
        Ok::<_, LabError>(())
    })??;
    namespace.run(move || {
        sysctl::apply_any_address()?;
        let mut netlink = Netlink::open()?;
        let (loopback, link) = (netlink.index("lo")?, netlink.index("eth0")?);
        let mut add = |to, link, kind| {
            netlink.add_route(&Route {
                to,
                link,
                via: None,
                source: None,
                kind,
            })
        };
        for (any, _) in gateways() {
            add((any, 0), loopback, RouteKind::Local)?;
        }
        // Replies to the others must not be taken for this host's own traffic. They are treated as
        // neighbours: a gateway's address would be this host's own, too.
        for address in &known {
            add(
                (*address, width(*address)),
                link,
                RouteKind::UnicastAmongLocal,
            )?;
        }
        for address in known {
            netlink.add_neighbour(link, address, mac(NUMBER, 1))?;
        }
        Ok::<_, LabError>(())
    })??;
    Ok(Host {
        name: SINK.into(),
        addresses: Vec::new(),
        namespace,
    })
}
