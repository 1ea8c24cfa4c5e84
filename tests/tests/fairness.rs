//! 5,000 Services of one namespace, each with its own affinity timeout and source ranges and many
//! numbers of endpoints, do not cost the Services of others their connections, nor their clients the
//! endpoint they stick to.

use core::{net::IpAddr, time::Duration};

use anyhow::{Result, bail, ensure};
use e2e::{engine, objects};
use netns_lab::{Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::{Change, EndpointSlice, Protocol, Service},
};

const GREEDY: u16 = 5_000;
const NODE: [u8; 4] = [192, 168, 0, 2];
const CLIENT: [u8; 4] = [203, 0, 113, 9];
const PODS: [(&str, [u8; 4]); 3] = [
    ("pod-1", [10, 0, 1, 1]),
    ("pod-2", [10, 0, 1, 2]),
    ("pod-3", [10, 0, 1, 3]),
];
/// Services of others that are there before the greedy ones come, and as many that come later.
const MODEST: u16 = 12;
const PORT: u16 = 80;
const PATIENCE: Duration = Duration::from_secs(10);

fn numbered(first: [u8; 2], number: u16) -> IpAddr {
    let [high, low] = number.to_be_bytes();
    IpAddr::from([first[0], first[1], high, low])
}

/// A Service reached at a ClusterIP and a load balancer's address, and its slice.
fn balanced(
    namespace: &str,
    number: u16,
    pods: &[IpAddr],
    edit: impl Fn(&mut Service),
) -> Result<[Change; 2]> {
    let name = format!("service-{number}");
    let service = objects::service(&name, numbered([10, 96], number), &[Protocol::Tcp], PORT);
    let slice = objects::slice(&name, pods, &[Protocol::Tcp], PORT);
    let (Change::Service(mut service), Change::EndpointSlice(mut slice)) = (service, slice) else {
        anyhow::bail!("not a Service and its slice");
    };
    service.name.namespace = namespace.into();
    slice.name.namespace = namespace.into();
    service.load_balancer_ips.push(numbered([198, 18], number));
    edit(&mut service);
    let slice: EndpointSlice = slice;
    Ok([Change::Service(service), Change::EndpointSlice(slice)])
}

/// Services of others: some with session affinity, some with source ranges that the client is in.
fn modest(numbers: impl Iterator<Item = u16>) -> Result<Vec<Change>> {
    let pods = PODS.map(|(_, address)| address.into());
    let mut changes = Vec::new();
    for number in numbers {
        changes.extend(balanced("modest", number, &pods, |service| {
            service.affinity = is_sticky(number).then_some(10_800);
            if number.is_multiple_of(2) {
                service.source_ranges.push(IpAddr::from(CLIENT).into());
                service
                    .source_ranges
                    .push(numbered([192, 1], number).into());
            }
        })?);
    }
    Ok(changes)
}

const fn is_sticky(number: u16) -> bool {
    number.is_multiple_of(3)
}

/// Who answers the client at the addresses of a Service.
fn reached(topology: &Topology, number: u16) -> Result<[Box<str>; 2]> {
    let reach = |net| {
        let to = (numbered(net, number), PORT).into();
        let transport = Transport::Tcp;
        match topology.probe("client", Probe { transport, to }, PATIENCE)? {
            Verdict::Answered(answer) if PODS.iter().any(|(pod, _)| **pod == *answer.by) => {
                Ok(answer.by)
            }
            other => bail!("{to}: {other:?}"),
        }
    };
    Ok([reach([10, 96])?, reach([198, 18])?])
}

#[test]
fn one_namespace_does_not_cost_the_others_their_service() -> Result<()> {
    let mut builder = Topology::builder()
        .node([NODE.into()])
        .host("client", [CLIENT.into()]);
    for (name, address) in PODS {
        builder = builder.host(name, [address.into()]);
    }
    let topology = builder.build()?;
    for (pod, _) in PODS {
        topology.serve(pod, Transport::Tcp, PORT)?;
    }
    let mut engine = engine::start(topology.node(), |_| Config {
        node_name: "node".into(),
        ..Config::default()
    })?;
    let (before, after) = (
        GREEDY..GREEDY + MODEST,
        GREEDY + MODEST..GREEDY + 2 * MODEST,
    );
    modest(before.clone())?
        .into_iter()
        .for_each(|change| engine.apply(change));
    engine::settle(&mut engine)?;
    let stuck: Vec<_> = before
        .clone()
        .map(|number| reached(&topology, number))
        .collect::<Result<_>>()?;
    for number in 0..GREEDY {
        let pods: Vec<IpAddr> = (0..=number % 40)
            .map(|pod| numbered([100, 64], pod))
            .collect();
        let changes = balanced("greedy", number, &pods, |service| {
            service.affinity = Some(u32::from(number) + 1);
            service
                .source_ranges
                .push(numbered([192, 0], number).into());
        })?;
        changes.into_iter().for_each(|change| engine.apply(change));
    }
    engine::settle(&mut engine)?;
    modest(after.clone())?
        .into_iter()
        .for_each(|change| engine.apply(change));
    engine::settle(&mut engine)?;
    let mut limited = 0;
    for (family, report) in engine.reports() {
        let namespace = &*report.port.service.namespace;
        ensure!(namespace == "greedy", "{family}: {report:?}");
        limited += 1;
    }
    ensure!(limited > 0, "no limit was reached");
    for (number, stuck) in before.zip(&stuck) {
        for _ in 0..5 {
            let reached = reached(&topology, number)?;
            ensure!(
                !is_sticky(number) || reached == *stuck,
                "{number}: from {stuck:?} to {reached:?}"
            );
        }
    }
    for number in after {
        let first = reached(&topology, number)?;
        for _ in 0..5 {
            let reached = reached(&topology, number)?;
            ensure!(
                !is_sticky(number) || reached == first,
                "{number}: from {first:?} to {reached:?}"
            );
        }
    }
    println!("{limited} greedy Services got less than they asked for");
    Ok(())
}
