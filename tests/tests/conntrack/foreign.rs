//! Flows of others, however many.

use core::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail, ensure};
use e2e::objects;
use kproxy::conntrack::Counters;
use netns_lab::{SINK, Transport, Verdict};
use svc_planner::{object::Protocol, plan};

use crate::bench::{Family, NODE_PORT, PATIENCE, PORT, TARGET, WEB, ends, on_each, until};

#[test]
fn foreign_flows_to_the_same_numbers_stay() -> Result<()> {
    on_each(|mut bench| {
        let Family {
            client,
            node,
            external,
            a,
            b,
            ..
        } = *bench.family;
        // Another port of the same address; the node port's number at other hosts; a process of the
        // node itself, from before the Service.
        bench.topology.serve("b", Transport::Udp, NODE_PORT)?;
        bench.change([bench.dns(&[external]), bench.slice(&[a, b])])?;
        let foreign = [
            (bench.flow(external, PORT + 1)?, SINK),
            (bench.flow(external, NODE_PORT)?, SINK),
            (bench.flow(b, NODE_PORT)?, "b"),
            (bench.flow(b, TARGET)?, "b"),
        ];
        for (flow, by) in &foreign {
            ends(flow, by)?;
        }
        let mut table = bench.table()?;
        // Never translated, to the frontend's own number, in great number.
        let from = |port| SocketAddr::new(client, port);
        let numbers = (1..2000_u16).filter(|port| *port != PORT);
        let flows = numbers.map(|port| (from(port), SocketAddr::new(external, port)));
        table.fill(Protocol::Udp, flows)?;
        let tcp = [(from(7), SocketAddr::new(node, NODE_PORT))];
        table.fill(Protocol::Tcp, tcp)?;
        let before = table.entries()?;

        let flow = bench.flow(external, PORT)?;
        let Verdict::Answered(answer) = flow.ask(PATIENCE)? else {
            bail!("no answer");
        };
        let (left, other) = if &*answer.by == "a" {
            (b, "b")
        } else {
            (a, "a")
        };
        bench.change([bench.slice(&[left])])?;
        until(&flow, other)?;
        bench.pass(&flow)?;
        ensure!(bench.totals().deleted == 1, "{:?}", bench.totals());
        let after = table.entries()?;
        for entry in &before {
            ensure!(after.contains(entry), "{entry:?} is gone");
        }
        for (flow, by) in &foreign {
            ends(flow, by)?;
        }
        Ok(())
    })
}

/// Entries beside the one that is stale; fewer where the kernel has room for fewer.
const MANY: usize = 500_000;
/// What they may cost.
const MEMORY: u64 = 64 << 20;

#[test]
fn memory_does_not_grow_with_foreign_flows() -> Result<()> {
    let limit = std::fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let many = MANY.min(limit.trim().parse::<usize>()? / 10 * 9);
    on_each(|mut bench| {
        let Family {
            client,
            external,
            a,
            b,
            ..
        } = *bench.family;
        bench.change([bench.dns(&[external]), bench.slice(&[a])])?;
        let flow = bench.flow(external, PORT)?;
        ends(&flow, "a")?;
        let mut table = bench.table()?;
        // Of one address to all ports of another, and of further ports.
        let ports = 1..=u16::MAX;
        let flows = ports
            .clone()
            .flat_map(|from| ports.clone().map(move |to| (from, to)));
        let flows = flows.filter(|(_, to)| ![PORT, WEB].contains(to));
        let socket = |(from, to)| (SocketAddr::new(client, from), SocketAddr::new(external, to));
        let mut flows = flows.take(many).map(socket).peekable();
        while flows.peek().is_some() {
            table.fill(Protocol::Udp, flows.by_ref().take(many / 16))?;
            // Idle for half a minute, its entry would be gone.
            ends(&flow, "a")?;
        }
        // All of them are looked at: two ports are concerned.
        let web = objects::service("web", external, &[Protocol::Udp], WEB);
        let memory = Peak::begin()?;
        bench.change([web, bench.slice(&[b])])?;
        until(&flow, "b")?;
        bench.pass(&flow)?;
        let (grown, totals) = (memory.growth()?, bench.totals());
        println!(
            "{}: {many} foreign entries: {} seen in {} passes, {:?} in all, {} KiB more at most",
            bench.family.family,
            totals.seen,
            totals.passes,
            totals.busy,
            grown >> 10
        );
        ensure!(totals.seen >= u64::try_from(many)?, "{totals:?}");
        ensure!((totals.deleted, totals.failures) == (1, 0), "{totals:?}");
        ensure!(grown < MEMORY, "{grown} bytes");
        Ok(())
    })
}

/// The most memory of this process since a moment, beyond what it took then.
struct Peak(u64);

impl Peak {
    fn begin() -> Result<Self> {
        // Resets VmHWM, see proc(5).
        std::fs::write("/proc/self/clear_refs", "5")?;
        Ok(Self(Self::read("VmRSS:")?))
    }

    fn growth(&self) -> Result<u64> {
        Ok(Self::read("VmHWM:")?.saturating_sub(self.0))
    }

    fn read(name: &str) -> Result<u64> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        Ok(kibibytes.context("no such line")?.trim().parse::<u64>()? << 10)
    }
}

#[test]
fn a_pass_is_counted_for_its_family_only() -> Result<()> {
    on_each(|mut bench| {
        let Family { vip, a, .. } = *bench.family;
        let counters: Arc<Counters> = bench.reconciler.counters();
        bench.change([bench.dns(&[]), bench.slice(&[a])])?;
        let flow = bench.flow(vip, PORT)?;
        bench.pass(&flow)?;
        let other = match bench.family.family {
            plan::Family::Ipv4 => plan::Family::Ipv6,
            plan::Family::Ipv6 => plan::Family::Ipv4,
        };
        ensure!(counters.of(bench.family.family).passes > 0);
        ensure!(counters.of(other).seen == 0, "{:?}", counters.of(other));
        // Ends when it has looked into what it was told.
        bench.reconciler.finish();
        Ok(())
    })
}
