//! UDP flows to endpoints and addresses that come and go.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{thread, time::Instant};

use anyhow::{Result, ensure};
use e2e::objects;
use netns_lab::{SINK, Transport};
use svc_planner::object::{Change, Protocol};

use crate::bench::{
    ANSWER, Family, NODE_PORT, PATIENCE, PORT, RHYTHM, TARGET, ends, on_each, until, who,
};

/// Flows that never wait for an answer.
const BUSY: usize = 16;

#[test]
fn flows_to_a_replaced_endpoint_move_by_address_and_by_node_port() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, node, a, b, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        for flow in &flows {
            ends(flow, "a")?;
        }
        bench.change([bench.slice(&[b])])?;
        for flow in &flows {
            until(flow, "b")?;
        }
        ensure!(bench.totals().deleted == 2, "{:?}", bench.totals());
        // The same address on another port is another endpoint.
        bench.topology.serve("b", Transport::Udp, TARGET + 1)?;
        bench.change([objects::slice("dns", &[b], &[Protocol::Udp], TARGET + 1)])?;
        let end = Instant::now() + PATIENCE;
        while bench.totals().deleted < 4 {
            ensure!(Instant::now() < end, "{:?}", bench.totals());
            flows[0].ask(ANSWER)?;
            thread::sleep(RHYTHM);
        }
        Ok(())
    })
}

#[test]
fn without_endpoints_a_sender_is_refused_and_served_again_later() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, node, a, b, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        for (endpoints, expected) in [(&[a][..], "a"), (&[], "rejected"), (&[b], "b")] {
            bench.change([bench.slice(endpoints)])?;
            for flow in &flows {
                until(flow, expected)?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_sender_from_before_the_service_reaches_it() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, node, a, .. } = *bench.family;
        let flows = [bench.flow(vip, PORT)?, bench.flow(node, NODE_PORT)?];
        ends(&flows[0], SINK)?;
        // Nothing listens on the node.
        flows[1].ask(ANSWER)?;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        for flow in &flows {
            until(flow, "a")?;
        }
        Ok(())
    })
}

#[test]
fn an_address_that_comes_and_goes_takes_its_flows_along() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            vip, external, a, ..
        } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let kept = bench.flow(vip, PORT)?;
        ends(&kept, "a")?;
        let flow = bench.flow(external, PORT)?;
        ends(&flow, SINK)?;
        bench.change([bench.dns(&[external])])?;
        until(&flow, "a")?;
        bench.change([bench.dns(&[])])?;
        until(&flow, SINK)?;
        ends(&kept, "a")?;
        // The Service as a whole.
        bench.change([Change::ServiceGone(objects::name("dns"))])?;
        until(&kept, SINK)?;
        Ok(())
    })
}

/// Of a busy flow a reply of whoever has the address is on its way whenever its entry is cut, and may make
/// one the other way round.
#[test]
fn busy_flows_are_served_again_when_their_address_comes_back() -> Result<()> {
    on_each(|mut bench| {
        let Family { external, a, .. } = *bench.family;
        let changes = [bench.dns(&[external]), bench.slice(&[a])];
        bench.change(changes.clone())?;
        let flows = (0..BUSY)
            .map(|_| bench.flow(external, PORT))
            .collect::<Result<Vec<_>>>()?;
        for flow in &flows {
            ends(flow, "a")?;
        }
        bench.change([Change::ServiceGone(objects::name("dns"))])?;
        for flow in &flows {
            until(flow, SINK)?;
        }
        // Until the address is forgotten, at the end of the second look.
        let looks = bench.totals().passes + 2;
        let end = Instant::now() + PATIENCE;
        while bench.totals().passes < looks {
            ensure!(Instant::now() < end, "{:?}", bench.totals());
            for flow in &flows {
                flow.ask(Duration::ZERO)?;
            }
        }
        bench.change(changes)?;
        for flow in &flows {
            until(flow, "a")?;
        }
        Ok(())
    })
}

#[test]
fn endpoints_that_change_their_slice_or_their_state_keep_their_flows() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, b, .. } = *bench.family;
        let other = |endpoints: &[IpAddr]| {
            let mut change = bench.slice(endpoints);
            if let Change::EndpointSlice(slice) = &mut change {
                slice.name.name = "dns-2".into();
            }
            change
        };
        let both = [other(&[a, b]), other(&[a])];
        let mut terminating = bench.slice(&[a, b]);
        if let Change::EndpointSlice(slice) = &mut terminating {
            for endpoint in &mut slice.endpoints {
                (endpoint.ready, endpoint.terminating) = (false, true);
            }
        }
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flow = bench.flow(vip, PORT)?;
        ends(&flow, "a")?;
        bench.pass(&flow)?;
        let [in_both, only_second] = both;
        // In both slices, then only in the second, then neither for an instant.
        bench.change([in_both])?;
        bench.change([Change::EndpointSliceGone(objects::name("dns"))])?;
        bench.change([only_second, bench.slice(&[b])])?;
        bench
            .engine
            .apply(Change::EndpointSliceGone(objects::name("dns")));
        let mut second_gone = objects::name("dns");
        second_gone.name = "dns-2".into();
        bench.engine.apply(Change::EndpointSliceGone(second_gone));
        bench.change([bench.slice(&[a, b])])?;
        bench.change([terminating])?;
        bench.pass(&flow)?;
        ends(&flow, "a")?;
        ensure!(bench.totals().deleted == 0, "{:?}", bench.totals());
        Ok(())
    })
}

#[test]
fn a_restart_cuts_only_what_is_stale() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, b, .. } = *bench.family;
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let stale = bench.flow(vip, PORT)?;
        ends(&stale, "a")?;
        bench.change([bench.slice(&[a, b])])?;
        // Until one is found that goes to the other endpoint.
        let kept = loop {
            let flow = bench.flow(vip, PORT)?;
            if who(&flow.ask(PATIENCE)?) == "b" {
                break flow;
            }
        };
        let mut bench = bench.restart()?;
        let mut table = bench.table()?;
        let to = SocketAddr::new(vip, PORT);
        let served_by = |address| SocketAddr::new(address, TARGET);
        let entries = table.entries()?.into_iter().filter(|entry| entry.to == to);
        let (to_b, to_a): (Vec<_>, Vec<_>) =
            entries.partition(|entry| entry.served_by == served_by(b));
        ensure!(!to_a.is_empty() && !to_b.is_empty());
        bench.change([bench.dns(&[]), bench.slice(&[b])])?;
        until(&stale, "b")?;
        bench.pass(&kept)?;
        ensure!(
            bench.totals().deleted == u64::try_from(to_a.len())?,
            "{:?} of {to_a:?}",
            bench.totals()
        );
        let after = table.entries()?;
        ensure!(to_b.iter().all(|entry| after.contains(entry)), "{after:?}");
        ends(&kept, "b")
    })
}
