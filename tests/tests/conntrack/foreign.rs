//! Flows of others, however many.

use core::{
    net::{IpAddr, SocketAddr},
    time::Duration,
};
use std::{collections::BTreeMap, env, ffi::OsString, fs, sync::Arc, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{conntrack::Table, objects};
use kproxy::conntrack::Counters;
use netns_lab::{SINK, Transport, Verdict};
use svc_planner::{object::Protocol, plan};

use crate::bench::{Family, NODE_PORT, PATIENCE, PORT, TARGET, WEB, ends, nf, on_each, until};

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

/// What looking at them may cost.
const MEMORY: u64 = 64 << 20;
/// CPU time of a look at one of them, with the kernel's part, without optimisation.
const TIME: Duration = Duration::from_micros(20);

/// Entries beside the one that is stale. The kernel has one table for all namespaces and a limit for
/// each: what the node's does not take is in another one.
fn many() -> usize {
    match env::var_os("KPROXY_LONG") {
        Some(_) => 500_000,
        None => 120_000,
    }
}

/// Untranslated flows of one address to all ports of another, and of further ports, but for two.
fn foreign(from: IpAddr, to: IpAddr) -> impl Iterator<Item = (SocketAddr, SocketAddr)> {
    let ports = 1..=u16::MAX;
    let flows = ports
        .clone()
        .flat_map(move |from| ports.clone().map(move |to| (from, to)));
    let flows = flows.filter(|(_, to)| ![PORT, WEB].contains(to));
    flows.map(move |ports| (SocketAddr::new(from, ports.0), SocketAddr::new(to, ports.1)))
}

#[test]
fn foreign_flows_cost_neither_memory_nor_syncs() -> Result<()> {
    let limit = fs::read_to_string("/proc/sys/net/netfilter/nf_conntrack_max")?;
    let own = many().min(limit.trim().parse::<usize>()? / 10 * 9);
    on_each(|mut bench| {
        let Family {
            client,
            external,
            other_vip,
            a,
            b,
            ..
        } = *bench.family;
        let tcp = |endpoint| objects::slice("tcp", &[endpoint], &[Protocol::Tcp], TARGET);
        bench.change([
            bench.dns(&[external]),
            bench.slice(&[a]),
            objects::service("tcp", other_vip, &[Protocol::Tcp], WEB),
            tcp(a),
        ])?;
        let flow = bench.flow(external, PORT)?;
        ends(&flow, "a")?;
        let mut elsewhere = many() - own;
        for host in [SINK, "a", "b"] {
            let part = elsewhere.min(own);
            let namespace = bench.topology.host(host)?.namespace();
            Table::open(namespace, nf(bench.family.family))?
                .fill(Protocol::Udp, foreign(client, external).take(part))?;
            elsewhere -= part;
        }
        let mut table = bench.table()?;
        let mut flows = foreign(client, external).take(own).peekable();
        while flows.peek().is_some() {
            table.fill(Protocol::Udp, flows.by_ref().take(own / 16))?;
            // Idle for half a minute, its entry would be gone.
            ends(&flow, "a")?;
        }
        // All of them are looked at: two ports are concerned.
        let web = objects::service("web", external, &[Protocol::Udp], WEB);
        let memory = Peak::begin()?;
        let before = (bench.totals(), cpu_times(bench.family.family)?);
        bench.change([web, bench.slice(&[b])])?;
        // Meanwhile TCP endpoints come and go, which is none of its business.
        let mut syncs = Vec::new();
        let begun = Instant::now();
        while bench.totals().passes == before.0.passes {
            let sync = Instant::now();
            bench.change([tcp(if syncs.len() % 2 == 0 { b } else { a })])?;
            syncs.push(sync.elapsed());
            ensure!(begun.elapsed() < PATIENCE * 5, "{:?}", bench.totals());
        }
        let pass = begun.elapsed();
        let took = |(task, time): (&OsString, &Duration)| {
            time.saturating_sub(before.1.get(task).copied().unwrap_or_default())
        };
        let after = cpu_times(bench.family.family)?;
        let cpu = after.iter().map(took).max().unwrap_or_default();
        syncs.sort_unstable();
        let (median, slowest) = (syncs[syncs.len() / 2], syncs[syncs.len() - 1]);
        until(&flow, "b")?;
        bench.pass(&flow)?;
        let (grown, totals) = (memory.growth()?, bench.totals());
        println!(
            "{}: {own} foreign entries, {} elsewhere: {} seen in {} passes, {:?} in all, \
             {} KiB more at most; the first took {cpu:?} of a CPU, {pass:?} in all; \
             {} syncs meanwhile: {median:?}, {slowest:?} at most",
            bench.family.family,
            many() - own,
            totals.seen,
            totals.passes,
            totals.busy,
            grown >> 10,
            syncs.len(),
        );
        let seen = totals.seen - before.0.seen;
        ensure!(seen >= u64::try_from(own)?, "{totals:?}");
        ensure!((totals.deleted, totals.failures) == (1, 0), "{totals:?}");
        ensure!(grown < MEMORY, "{grown} bytes");
        ensure!(
            cpu > Duration::ZERO && cpu < TIME * u32::try_from(many())?,
            "{cpu:?} for one pass"
        );
        ensure!(
            syncs.len() > 4 && median < pass / 4,
            "changes wait for it: {median:?} of {pass:?}"
        );
        Ok(())
    })
}

/// CPU time so far of the threads that look at the connections of a family, those of other tests
/// included, see `Documentation/scheduler/sched-stats.rst`.
fn cpu_times(family: plan::Family) -> Result<BTreeMap<OsString, Duration>> {
    let mut times = BTreeMap::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?;
        let read = |name| fs::read_to_string(task.path().join(name));
        // One that has ended by now is of no interest.
        let (Ok(name), Ok(stat)) = (read("comm"), read("schedstat")) else {
            continue;
        };
        if name.trim() == format!("conntrack-{family}") {
            let on_cpu = stat.split_whitespace().next().context("schedstat")?;
            times.insert(task.file_name(), Duration::from_nanos(on_cpu.parse()?));
        }
    }
    Ok(times)
}

/// The most memory of this process since a moment, beyond what it took then.
struct Peak(u64);

impl Peak {
    fn begin() -> Result<Self> {
        // Resets VmHWM, see proc(5).
        fs::write("/proc/self/clear_refs", "5")?;
        Ok(Self(Self::read("VmRSS:")?))
    }

    fn growth(&self) -> Result<u64> {
        Ok(Self::read("VmHWM:")?.saturating_sub(self.0))
    }

    fn read(name: &str) -> Result<u64> {
        let status = fs::read_to_string("/proc/self/status")?;
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
