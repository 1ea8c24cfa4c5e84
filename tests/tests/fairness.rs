//! 5,000 Services of one namespace, each with its own affinity timeout and source ranges and many
//! numbers of endpoints, do not cost the Services of others their connections.

use core::{net::IpAddr, time::Duration};

use anyhow::{Result, ensure};
use e2e::{engine, objects};
use netns_lab::{Probe, Topology, Transport, Verdict};
use svc_planner::{
    Config,
    object::{Change, EndpointSlice, Protocol, Service},
};

const GREEDY: u16 = 5_000;
const NODE: [u8; 4] = [192, 168, 0, 2];
const CLIENT: [u8; 4] = [203, 0, 113, 9];
const POD: [u8; 4] = [10, 0, 1, 1];
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

#[test]
fn one_namespace_does_not_cost_the_others_their_service() -> Result<()> {
    let topology = Topology::builder()
        .node([NODE.into()])
        .host("client", [CLIENT.into()])
        .host("pod", [POD.into()])
        .build()?;
    topology.serve("pod", Transport::Tcp, PORT)?;
    let mut engine = engine::start(topology.node(), |_| Config {
        node_name: "node".into(),
        ..Config::default()
    })?;
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
    let modest = GREEDY..GREEDY + 12;
    for number in modest.clone() {
        let changes = balanced("modest", number, &[POD.into()], |service| {
            service.affinity = number.is_multiple_of(3).then_some(10_800);
            if number.is_multiple_of(2) {
                service.source_ranges.push(IpAddr::from(CLIENT).into());
                service
                    .source_ranges
                    .push(numbered([192, 1], number).into());
            }
        })?;
        changes.into_iter().for_each(|change| engine.apply(change));
    }
    engine::settle(&mut engine)?;
    for (family, report) in engine.reports() {
        let namespace = &*report.port.service.namespace;
        ensure!(namespace == "greedy", "{family}: {report:?}");
    }
    for number in modest {
        for net in [[10, 96], [198, 18]] {
            let to = (numbered(net, number), PORT).into();
            let transport = Transport::Tcp;
            let verdict = topology.probe("client", Probe { transport, to }, PATIENCE)?;
            let served = matches!(&verdict, Verdict::Answered(answer) if &*answer.by == "pod");
            ensure!(served, "{to}: {verdict:?}");
        }
    }
    Ok(())
}
