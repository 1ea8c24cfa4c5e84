//! The laboratory itself: what the probes report under rules whose effect is known.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::fs;

use anyhow::{Context as _, Result, ensure};
use e2e::ruleset;
use netns_lab::{Answer, NamedNamespace, Namespace, Probe, SINK, Topology, Transport, Verdict};

const LONG: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(300);
const TRANSPORTS: [Transport; 3] = [Transport::Tcp, Transport::Udp, Transport::Sctp];

/// One family's addresses.
struct Family {
    node: IpAddr,
    pod: IpAddr,
    client: IpAddr,
    /// Belongs to nobody.
    vip: IpAddr,
}

fn families() -> Result<[Family; 2]> {
    Ok([
        Family {
            node: "192.168.0.2".parse()?,
            pod: "10.0.1.1".parse()?,
            client: "203.0.113.2".parse()?,
            vip: "172.30.0.41".parse()?,
        },
        Family {
            node: "2001:db8::1".parse()?,
            pod: "fd00:10::1:1".parse()?,
            client: "2001:db8:cafe::2".parse()?,
            vip: "fd00:10:96::41".parse()?,
        },
    ])
}

fn topology() -> Result<Topology> {
    let families = families()?;
    Topology::builder()
        .node(families.each_ref().map(|family| family.node))
        .host("pod", families.each_ref().map(|family| family.pod))
        .host("client", families.each_ref().map(|family| family.client))
        .build()
        .context("build the topology")
}

fn probe(transport: Transport, to: IpAddr, port: u16) -> Probe {
    Probe {
        transport,
        to: SocketAddr::new(to, port),
    }
}

fn answered(verdict: Verdict) -> Result<Answer> {
    match verdict {
        Verdict::Answered(answer) => Ok(answer),
        other => anyhow::bail!("{other:?} instead of an answer"),
    }
}

#[test]
fn hosts_answer_with_their_name_and_the_source_they_saw() -> Result<()> {
    let topology = topology()?;
    for family in families()? {
        for transport in TRANSPORTS {
            topology.serve("pod", transport, 80)?;
            let verdict = topology.probe("client", probe(transport, family.pod, 80), LONG)?;
            let answer = answered(verdict).with_context(|| format!("{transport}"))?;
            assert_eq!(&*answer.by, "pod");
            assert_eq!(answer.at, SocketAddr::new(family.pod, 80));
            assert_eq!(answer.source.ip(), family.client);
            let verdict = topology.probe("node", probe(transport, family.pod, 80), LONG)?;
            let answer = answered(verdict).with_context(|| format!("{transport} from the node"))?;
            assert_eq!(answer.source.ip(), family.node);
        }
        let verdict = topology.probe("client", probe(Transport::Icmp, family.pod, 0), LONG)?;
        assert_eq!(verdict, Verdict::EchoReply);
    }
    Ok(())
}

#[test]
fn what_the_node_leaves_alone_reaches_the_sink() -> Result<()> {
    let topology = topology()?;
    for family in families()? {
        for transport in TRANSPORTS {
            for (from, source) in [("client", family.client), ("node", family.node)] {
                let verdict = topology.probe(from, probe(transport, family.vip, 80), LONG)?;
                let answer = answered(verdict).with_context(|| format!("{transport} {from}"))?;
                assert_eq!(&*answer.by, SINK);
                assert_eq!(answer.at, SocketAddr::new(family.vip, 80));
                assert_eq!(answer.source.ip(), source);
            }
        }
    }
    Ok(())
}

#[test]
fn nothing_listening_is_told_from_a_reject_rule() -> Result<()> {
    let topology = topology()?;
    for family in families()? {
        let verdict = topology.probe("client", probe(Transport::Tcp, family.pod, 81), LONG)?;
        assert_eq!(verdict, Verdict::Reset);
        let verdict = topology.probe("client", probe(Transport::Udp, family.pod, 81), LONG)?;
        assert_eq!(
            verdict,
            Verdict::Rejected {
                from: Some(family.pod),
                at_send: false
            }
        );
    }
    ruleset::load(
        topology.node(),
        "table inet t { chain forward { type filter hook forward priority 0; reject; };
         chain output { type filter hook output priority 0;
                        meta l4proto { icmp, icmpv6 } accept; reject; }; }",
    )?;
    for family in families()? {
        let rejected = |from, at_send| Verdict::Rejected {
            from: Some(from),
            at_send,
        };
        for transport in [
            Transport::Tcp,
            Transport::Udp,
            Transport::Sctp,
            Transport::Icmp,
        ] {
            for to in [family.pod, family.vip] {
                let verdict = topology.probe("client", probe(transport, to, 80), LONG)?;
                assert_eq!(verdict, rejected(family.node, false), "{transport} to {to}");
            }
        }
        // From the node itself: EPERM for datagrams, and the ICMP error as well.
        for (transport, at_send) in [
            (Transport::Tcp, false),
            (Transport::Udp, true),
            (Transport::Sctp, true),
        ] {
            let verdict = topology.probe("node", probe(transport, family.vip, 80), LONG)?;
            assert!(
                matches!(verdict, Verdict::Rejected { at_send: seen, .. } if seen == at_send),
                "{transport} from the node: {verdict:?}"
            );
        }
    }
    Ok(())
}

#[test]
fn a_drop_is_silent_or_not_permitted() -> Result<()> {
    let topology = topology()?;
    ruleset::load(
        topology.node(),
        "table inet t { chain forward { type filter hook forward priority 0; drop; };
         chain output { type filter hook output priority 0; drop; }; }",
    )?;
    for family in families()? {
        for transport in [
            Transport::Tcp,
            Transport::Udp,
            Transport::Sctp,
            Transport::Icmp,
        ] {
            let verdict = topology.probe("client", probe(transport, family.vip, 80), SHORT)?;
            assert_eq!(verdict, Verdict::Silent, "{transport}");
        }
        for (transport, expected) in [
            (Transport::Tcp, Verdict::Silent),
            (Transport::Udp, Verdict::NotPermitted),
            (Transport::Sctp, Verdict::NotPermitted),
        ] {
            let verdict = topology.probe("node", probe(transport, family.vip, 80), SHORT)?;
            assert_eq!(verdict, expected, "{transport} from the node");
        }
    }
    Ok(())
}

#[test]
fn translated_probes_show_port_and_masqueraded_source() -> Result<()> {
    let topology = topology()?;
    for transport in TRANSPORTS {
        topology.serve("pod", transport, 8080)?;
    }
    for family in families()? {
        let (name, pod, vip) = match family.pod {
            IpAddr::V4(_) => ("ip", family.pod.to_string(), family.vip),
            IpAddr::V6(_) => ("ip6", format!("[{}]", family.pod), family.vip),
        };
        let rules = |body: &str| {
            format!(
                "table {name} t; delete table {name} t
                 table {name} t {{
                 chain pre {{ type nat hook prerouting priority -100;
                   {name} daddr {vip} meta l4proto {{ tcp, udp, sctp }} th dport 80 dnat to {pod}:8080; }}
                 chain post {{ type nat hook postrouting priority 100; {body} }}; }}"
            )
        };
        for (body, source) in [
            ("", family.client),
            ("ct status dnat masquerade;", family.node),
        ] {
            ruleset::load(topology.node(), &rules(body))?;
            for transport in TRANSPORTS {
                let verdict = topology.probe("client", probe(transport, vip, 80), LONG)?;
                let answer = answered(verdict).with_context(|| format!("{transport} {body}"))?;
                assert_eq!(&*answer.by, "pod");
                assert_eq!(answer.at, SocketAddr::new(family.pod, 8080));
                assert_eq!(answer.source.ip(), source);
            }
            // Hairpin: the pod reaches itself, which works only if it sees another source.
            if source == family.node {
                let verdict = topology.probe("pod", probe(Transport::Tcp, vip, 80), LONG)?;
                let answer = answered(verdict).context("hairpin")?;
                assert_eq!((&*answer.by, answer.source.ip()), ("pod", family.node));
            }
        }
    }
    Ok(())
}

#[test]
fn connections_echo_until_the_host_is_gone() -> Result<()> {
    let topology = topology()?;
    topology.serve("pod", Transport::Tcp, 80)?;
    for family in families()? {
        let to = SocketAddr::new(family.pod, 80);
        let mut connection = topology.connect("client", to, LONG)?;
        assert_eq!(&*connection.answer().context("no answer")?.by, "pod");
        connection.echo(b"one", LONG)?;
        topology.stop_serving("pod", Transport::Tcp, 80)?;
        let verdict = topology.probe("client", probe(Transport::Tcp, family.pod, 80), LONG)?;
        assert_eq!(verdict, Verdict::Reset);
        connection.echo(b"two", LONG)?;
        topology.serve("pod", Transport::Tcp, 80)?;
    }
    Ok(())
}

#[test]
fn namespaces_leave_nothing_behind() -> Result<()> {
    let own = |()| fs::read_link("/proc/thread-self/ns/net");
    let outside = own(())?;
    let namespace = Namespace::new("short-lived")?;
    let inside = namespace.run(|| fs::read_link("/proc/thread-self/ns/net"))??;
    assert_ne!(outside, inside);
    assert_eq!(own(())?, outside, "the calling thread stays where it is");

    let name = format!("kproxy-test-{}", std::process::id());
    let named = NamedNamespace::bind(&namespace.handle(), &name)?;
    let path = named.path().to_owned();
    assert!(path.exists());
    ensure!(
        NamedNamespace::bind(&namespace.handle(), &name).is_err(),
        "a taken name is refused"
    );
    assert!(path.exists(), "the refusal leaves the first binding alone");
    drop(named);
    assert!(!path.exists());

    assert!(namespace.run(|| panic!("as asked")).is_err());
    assert!(
        namespace.run(|| ()).is_err(),
        "a namespace whose thread panicked is said to be gone"
    );
    Ok(())
}
