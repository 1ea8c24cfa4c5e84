//! TCP connections.

use core::net::{IpAddr, SocketAddr};
use std::{thread, time::Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use e2e::{objects, ruleset};
use netns_lab::{SINK, Transport};
use svc_planner::object::{Change, Protocol};

use crate::bench::{DEAF, Family, PATIENCE, TARGET, WEB, ends, on_each, until};

/// A TCP port of the Service `web` at an address.
fn web(address: IpAddr) -> Change {
    objects::service("web", address, &[Protocol::Tcp], WEB)
}

#[test]
fn a_syn_from_before_the_service_is_sent_to_it() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, .. } = *bench.family;
        // Beyond the node nobody answers, and nobody refuses.
        ruleset::load(bench.topology.host(SINK)?.namespace(), DEAF)?;
        let to = SocketAddr::new(vip, WEB);
        let topology = bench.topology;
        thread::scope(|scope| {
            let connecting = scope.spawn(|| topology.connect("client", to, PATIENCE));
            let mut table = bench.table()?;
            let end = Instant::now() + PATIENCE;
            while !table.entries()?.iter().any(|entry| entry.to == to) {
                ensure!(Instant::now() < end, "no SYN was seen");
            }
            let slice = objects::slice("web", &[a], &[Protocol::Tcp], TARGET);
            bench.change([web(vip), slice])?;
            let connected = connecting.join().map_err(|_| anyhow!("it panicked"))?;
            let connection = connected.with_context(|| format!("{:?}", bench.totals()))?;
            let by = connection.answer().map(|answer| &*answer.by);
            ensure!(by == Some("a"), "{by:?}");
            ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
            Ok(())
        })
    })
}

#[test]
fn established_tcp_connections_are_never_cut() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip,
            external,
            a,
            b,
            ..
        } = *bench.family;
        let slice = |endpoints: &[IpAddr]| {
            objects::slice("web", endpoints, &[Protocol::Tcp, Protocol::Udp], TARGET)
        };
        let both = |address| objects::service("web", address, &[Protocol::Tcp, Protocol::Udp], WEB);
        bench.change([both(vip), slice(&[a])])?;
        bench.topology.serve(SINK, Transport::Tcp, WEB)?;
        let connect = |address| {
            let to = SocketAddr::new(address, WEB);
            bench.topology.connect("client", to, PATIENCE)
        };
        // One to an endpoint that goes, one to an address that becomes a frontend.
        let (mut translated, mut untranslated) = (connect(vip)?, connect(external)?);
        let flow = bench.flow(vip, WEB)?;
        ends(&flow, "a")?;
        let Change::Service(mut service) = both(vip) else {
            bail!("a Service");
        };
        service.external_ips = [external].into_iter().collect();
        bench.change([Change::Service(service), slice(&[b])])?;
        until(&flow, "b")?;
        bench.pass(&flow)?;
        for connection in [&mut translated, &mut untranslated] {
            connection.echo(b"still there", PATIENCE)?;
        }
        ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
        Ok(())
    })
}
