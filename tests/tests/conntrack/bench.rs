//! A node with a proxy, and flows through it.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{thread, time::Instant};

use anyhow::{Context as _, Result, ensure};
use e2e::{conntrack::Table, engine, objects, ruleset};
use kproxy::{
    conntrack::{Reconciler, Totals},
    engine::Engine,
    netns::Netns,
};
use netns_lab::{Flow, Topology, Transport, Verdict};
use nl_codec::msg;
use svc_planner::{
    Config,
    object::{Change, Node, Protocol},
    plan,
};

/// Longest wait for what must happen; passes only when the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// Longest wait for an answer to one datagram.
pub(crate) const ANSWER: Duration = Duration::from_millis(200);
/// How often a sender sends.
pub(crate) const RHYTHM: Duration = Duration::from_millis(5);
/// Of the Service, of its endpoints, and its node port.
pub(crate) const PORT: u16 = 53;
pub(crate) const TARGET: u16 = 5353;
pub(crate) const NODE_PORT: u16 = 30_053;
/// A port on which a Service is reached by TCP.
pub(crate) const WEB: u16 = 80;

/// Whatever it says, a rule that looks at their state makes the kernel track connections.
pub(crate) const TRACKING: &str = "table inet track {
    chain track { type filter hook prerouting priority 0; ct state established accept; }
}
";
/// Neither answers nor refuses.
pub(crate) const DEAF: &str = "table inet deaf {
    chain deaf { type filter hook prerouting priority 0; policy drop; }
}
";

pub(crate) struct Family {
    pub(crate) family: plan::Family,
    pub(crate) node: IpAddr,
    pub(crate) client: IpAddr,
    pub(crate) vip: IpAddr,
    pub(crate) external: IpAddr,
    pub(crate) other_vip: IpAddr,
    pub(crate) a: IpAddr,
    pub(crate) b: IpAddr,
}

fn families() -> Result<[Family; 2]> {
    Ok([
        Family {
            family: plan::Family::Ipv4,
            node: "192.168.0.2".parse()?,
            client: "10.0.9.1".parse()?,
            vip: "172.30.0.41".parse()?,
            external: "203.0.113.7".parse()?,
            other_vip: "172.30.0.42".parse()?,
            a: "10.0.1.1".parse()?,
            b: "10.0.1.2".parse()?,
        },
        Family {
            family: plan::Family::Ipv6,
            node: "2001:db8::1".parse()?,
            client: "fd00:10::9:1".parse()?,
            vip: "fd00:10:96::41".parse()?,
            external: "2001:db8:7::7".parse()?,
            other_vip: "fd00:10:96::42".parse()?,
            a: "fd00:10::1".parse()?,
            b: "fd00:10::2".parse()?,
        },
    ])
}

/// A node with a proxy on it.
pub(crate) struct Bench<'t> {
    pub(crate) topology: &'t Topology,
    pub(crate) family: &'t Family,
    pub(crate) engine: Engine,
    pub(crate) reconciler: Reconciler,
    config: Config,
}

/// Runs a test for each family, each time on a new node on which connections are tracked.
pub(crate) fn on_each(test: impl Fn(Bench<'_>) -> Result<()>) -> Result<()> {
    on_each_with(&Config::default(), test)
}

/// As [`on_each`], with settings of the proxy.
pub(crate) fn on_each_with(config: &Config, test: impl Fn(Bench<'_>) -> Result<()>) -> Result<()> {
    for family in &families()? {
        let topology = Topology::builder()
            .node([family.node])
            .host("client", [family.client])
            .host("a", [family.a])
            .host("b", [family.b])
            .build()?;
        for pod in ["a", "b"] {
            topology.serve(pod, Transport::Udp, TARGET)?;
            topology.serve(pod, Transport::Tcp, TARGET)?;
            topology.serve(pod, Transport::Sctp, TARGET)?;
        }
        ruleset::load(topology.node(), TRACKING)?;
        let bench = Bench::start(&topology, family, config)?;
        test(bench).with_context(|| format!("{}", family.family))?;
    }
    Ok(())
}

impl<'t> Bench<'t> {
    pub(crate) fn start(
        topology: &'t Topology,
        family: &'t Family,
        config: &Config,
    ) -> Result<Self> {
        let config = Config {
            node_name: "node".into(),
            ..config.clone()
        };
        let mut engine = engine::start(topology.node(), |_| config.clone())?;
        engine.adopt(None)?;
        let start = || Reconciler::start(&Netns::Current);
        let reconciler = topology.node().run(start)??;
        engine.tell_flows(reconciler.publisher());
        let mut bench = Self {
            topology,
            family,
            engine,
            reconciler,
            config,
        };
        let node = Node {
            name: "node".into(),
            addresses: [family.node].into_iter().collect(),
            pod_cidrs: [].into_iter().collect(),
            zone: None,
            eligible: true,
        };
        bench.engine.apply(Change::Node(node));
        Ok(bench)
    }

    /// The same node with another process's proxy, which knows nothing of the one before.
    pub(crate) fn restart(self) -> Result<Self> {
        let Self {
            topology,
            family,
            config,
            ..
        } = self;
        Self::start(topology, family, &config)
    }

    pub(crate) fn change(&mut self, changes: impl IntoIterator<Item = Change>) -> Result<()> {
        let changes = changes.into_iter();
        changes.for_each(|change| self.engine.apply(change));
        engine::settle(&mut self.engine)
    }

    /// The Service `dns` as it is with these external addresses.
    pub(crate) fn dns(&self, external: &[IpAddr]) -> Change {
        let change = objects::service("dns", self.family.vip, &[Protocol::Udp], PORT);
        let Change::Service(mut service) = change else {
            return change;
        };
        service.external_ips = external.iter().copied().collect();
        for port in &mut service.ports {
            port.node_port = NODE_PORT;
        }
        Change::Service(service)
    }

    pub(crate) fn slice(&self, endpoints: &[IpAddr]) -> Change {
        objects::slice("dns", endpoints, &[Protocol::Udp], TARGET)
    }

    /// A flow from the client.
    pub(crate) fn flow(&self, to: IpAddr, port: u16) -> Result<Flow> {
        Ok(self.topology.flow("client", SocketAddr::new(to, port))?)
    }

    pub(crate) fn totals(&self) -> Totals {
        self.reconciler.counters().of(self.family.family)
    }

    pub(crate) fn table(&self) -> Result<Table> {
        Table::open(self.topology.node(), nf(self.family.family))
    }

    /// Waits until everything told so far was looked into, some flow sending all the time.
    pub(crate) fn pass(&mut self, flow: &Flow) -> Result<()> {
        // Another Service's endpoints are a reason to look, and come after all that was told.
        let passes = |totals: Totals| totals.passes + totals.failures;
        let before = passes(self.totals());
        let other = objects::service("other", self.family.other_vip, &[Protocol::Udp], PORT);
        let gone = Change::EndpointSliceGone(objects::name("other"));
        let slice = objects::slice("other", &[self.family.a], &[Protocol::Udp], TARGET);
        self.change([other, slice])?;
        self.change([gone])?;
        // With many entries on a busy machine a pass takes its time.
        let end = Instant::now() + 5 * PATIENCE;
        while passes(self.totals()) < before + 2 {
            ensure!(Instant::now() < end, "no pass: {:?}", self.totals());
            flow.ask(ANSWER)?;
            thread::sleep(RHYTHM);
        }
        Ok(())
    }
}

pub(crate) const fn nf(family: plan::Family) -> msg::Family {
    match family {
        plan::Family::Ipv4 => msg::Family::IPV4,
        plan::Family::Ipv6 => msg::Family::IPV6,
    }
}

pub(crate) fn who(verdict: &Verdict) -> &str {
    match verdict {
        Verdict::Answered(answer) => &answer.by,
        Verdict::Rejected { .. } => "rejected",
        Verdict::Silent => "silent",
        _ => "otherwise",
    }
}

/// Sends until the flow ends as expected, which it must soon.
pub(crate) fn until(flow: &Flow, expected: &str) -> Result<()> {
    let end = Instant::now() + PATIENCE;
    loop {
        let verdict = flow.ask(ANSWER)?;
        if who(&verdict) == expected {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{verdict:?} instead of {expected}");
        thread::sleep(RHYTHM);
    }
}

#[track_caller]
pub(crate) fn ends(flow: &Flow, expected: &str) -> Result<()> {
    let verdict = flow.ask(PATIENCE)?;
    ensure!(
        who(&verdict) == expected,
        "{verdict:?} instead of {expected}"
    );
    Ok(())
}
