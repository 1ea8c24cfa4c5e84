//! SCTP associations: handshake and data from user space, entries of the kernel's.

use core::net::{IpAddr, SocketAddr};
use std::{io::ErrorKind, thread, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{conntrack::Entry, objects};
use netns_lab::{Association, SINK, Transport};
use nl_codec::ct::SctpState;
use svc_planner::{
    Config,
    object::{Change, Protocol},
};

use crate::bench::{
    Bench, Family, NODE_PORT, PATIENCE, PORT, RHYTHM, TARGET, WEB, ends, on_each, on_each_with,
    until,
};

/// The Service `web`: SCTP, at its address, external ones, and a node port.
fn web(family: &Family, external: &[IpAddr]) -> Result<Change> {
    let change = objects::service("web", family.vip, &[Protocol::Sctp], WEB);
    let Change::Service(mut service) = change else {
        bail!("a Service");
    };
    service.external_ips = external.iter().copied().collect();
    for port in &mut service.ports {
        port.node_port = NODE_PORT + 1;
    }
    Ok(Change::Service(service))
}

fn endpoints(endpoints: &[IpAddr]) -> Change {
    objects::slice("web", endpoints, &[Protocol::Sctp], TARGET)
}

fn associate(bench: &Bench<'_>, address: IpAddr, port: u16) -> Result<Association> {
    let to = SocketAddr::new(address, port);
    let mut association = bench.topology.associate("client", to, PATIENCE)?;
    association.echo(b"first", PATIENCE)?;
    Ok(association)
}

/// The entries of associations with data, by their destination.
fn established(bench: &Bench<'_>) -> Result<Vec<Entry>> {
    let entries = bench.table()?.entries()?.into_iter();
    let is_one = |entry: &Entry| entry.sctp == Some(SctpState::ESTABLISHED);
    Ok(entries.filter(is_one).collect())
}

#[test]
fn sctp_associations_are_never_cut() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip,
            node,
            external,
            a,
            b,
            ..
        } = *bench.family;
        bench.topology.serve(SINK, Transport::Sctp, WEB)?;
        bench.change([
            web(bench.family, &[])?,
            endpoints(&[a]),
            bench.dns(&[]),
            bench.slice(&[a]),
        ])?;
        // Two to an endpoint that goes, one to an address that becomes a frontend.
        let mut associations = [
            (associate(&bench, vip, WEB)?, "a"),
            (associate(&bench, node, NODE_PORT + 1)?, "a"),
            (associate(&bench, external, WEB)?, SINK),
        ];
        for (association, by) in &associations {
            ensure!(&*association.answer().by == *by, "{association:?}");
        }
        let before = established(&bench)?;
        ensure!(before.len() == 3, "{:?}", bench.table()?.entries()?);
        let flow = bench.flow(vip, PORT)?;
        ends(&flow, "a")?;

        let goes_on = |bench: &mut Bench<'_>, associations: &mut [(Association, &str)]| {
            bench.pass(&flow)?;
            for (association, by) in associations {
                let echoed = association.echo(b"still there", PATIENCE);
                echoed.with_context(|| format!("with {by}"))?;
            }
            let after = established(bench)?;
            ensure!(after == before, "{after:?}");
            Ok(())
        };
        // The endpoint is replaced: UDP moves.
        bench.change([
            web(bench.family, &[external])?,
            endpoints(&[b]),
            bench.slice(&[b]),
        ])?;
        until(&flow, "b")?;
        goes_on(&mut bench, &mut associations)?;
        ensure!(&*associate(&bench, vip, WEB)?.answer().by == "b");
        let mut bench = {
            // No endpoint, no Service, another process.
            let before = established(&bench)?.len();
            bench.change([endpoints(&[])])?;
            bench.pass(&flow)?;
            bench.change([Change::ServiceGone(objects::name("web"))])?;
            bench.pass(&flow)?;
            let mut bench = bench.restart()?;
            bench.change([
                web(bench.family, &[external])?,
                endpoints(&[b]),
                bench.dns(&[]),
                bench.slice(&[b]),
            ])?;
            bench.pass(&flow)?;
            ensure!(established(&bench)?.len() == before);
            bench
        };
        for (association, by) in &mut associations {
            let echoed = association.echo(b"and still", PATIENCE);
            echoed.with_context(|| format!("with {by}"))?;
        }
        bench.change([endpoints(&[])])?;
        Ok(())
    })
}

#[test]
fn stale_sctp_associations_are_cut_when_asked_for() -> Result<()> {
    let config = Config {
        reconcile_sctp: true,
        ..Config::default()
    };
    on_each_with(&config, |mut bench| {
        let Family { vip, a, b, .. } = *bench.family;
        bench.topology.serve(SINK, Transport::Sctp, WEB)?;
        bench.change([web(bench.family, &[])?, endpoints(&[a])])?;
        let mut stale = associate(&bench, vip, WEB)?;
        ensure!(&*stale.answer().by == "a", "{stale:?}");
        bench.change([endpoints(&[a, b])])?;
        // Until one is found that is with the other endpoint.
        let mut kept = loop {
            let association = associate(&bench, vip, WEB)?;
            if &*association.answer().by == "b" {
                break association;
            }
        };
        let (to_b, to_a): (Vec<_>, Vec<_>) = established(&bench)?
            .into_iter()
            .partition(|entry| entry.served_by == SocketAddr::new(b, TARGET));
        ensure!(to_b.len() == 1 && !to_a.is_empty());
        let expected = u64::try_from(to_a.len())?;

        bench.change([endpoints(&[b])])?;
        let end = Instant::now() + PATIENCE;
        while bench.totals().deleted < expected {
            ensure!(Instant::now() < end, "{:?}", bench.totals());
            thread::sleep(RHYTHM);
        }
        ensure!(established(&bench)? == to_b);
        // Its data is of no association that the kernel knows, and is not translated: whoever gets it
        // knows none either.
        let cut = stale.echo(b"anybody?", PATIENCE);
        let cut = cut.err().map(|error| error.kind());
        ensure!(cut == Some(ErrorKind::ConnectionAborted), "{cut:?}");
        kept.echo(b"still there", PATIENCE)?;
        ensure!(&*associate(&bench, vip, WEB)?.answer().by == "b");
        ensure!(bench.totals().deleted == expected, "{:?}", bench.totals());
        Ok(())
    })
}
