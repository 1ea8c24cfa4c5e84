//! Requests to a Service that is served all the time, while something happens to the proxy.

use core::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::{
    fs,
    thread::{self, ScopedJoinHandle},
};

use anyhow::{Result, anyhow, bail};
use netns_lab::{Namespace, Probe, Topology, Transport, Verdict};

/// The hosts that answer.
pub const PODS: [&str; 3] = ["pod-1", "pod-2", "pod-3"];
/// Longest wait for an answer; passes only when a test fails.
const PATIENCE: Duration = Duration::from_secs(10);
/// Who asks, and how.
const WAYS: [(&str, Transport); 4] = [
    ("client", Transport::Tcp),
    ("node", Transport::Tcp),
    ("client", Transport::Udp),
    ("node", Transport::Udp),
];

/// Has nothing wait after its connection has ended, at these hosts and the node. Where several frontends
/// lead a client to the same few sockets, its ports are soon used again: an endpoint that still waits for
/// the end of a former connection would not answer.
///
/// # Errors
/// When the kernel refuses.
pub fn forget_ended(topology: &Topology, hosts: &[&str]) -> Result<()> {
    let forget = |namespace: &Namespace| -> Result<()> {
        Ok(namespace.run(|| fs::write("/proc/sys/net/ipv4/tcp_max_tw_buckets", "0"))??)
    };
    for host in hosts {
        forget(topology.host(host)?.namespace())?;
    }
    forget(topology.node())?;
    topology.node().run(|| {
        let path = "/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait";
        fs::write(path, "1")
    })??;
    Ok(())
}

/// A node, a client, and pods 10.0.1.1 to 10.0.1.3, `fd00:10::1:1` to `fd00:10::1:3`, that answer on
/// `port`.
///
/// # Errors
/// When the namespaces cannot be made.
pub fn topology(port: u16) -> Result<Topology> {
    let mut builder = Topology::builder()
        .node(["192.168.0.2".parse()?, "2001:db8::1".parse()?])
        .host("client", ["10.0.9.1".parse()?, "fd00:10::9:1".parse()?]);
    for (number, pod) in (1..).zip(PODS) {
        let addresses = [
            format!("10.0.1.{number}").parse()?,
            format!("fd00:10::1:{number}").parse()?,
        ];
        builder = builder.host(pod, addresses);
    }
    let topology = builder.build()?;
    for pod in PODS {
        topology.serve(pod, Transport::Tcp, port)?;
        topology.serve(pod, Transport::Udp, port)?;
    }
    Ok(topology)
}

/// Requests that go on.
#[derive(Debug)]
pub struct Requests<'s> {
    answered: &'s AtomicUsize,
    thread: &'s ScopedJoinHandle<'s, Result<()>>,
}

impl Requests<'_> {
    /// Waits until so many more are answered, or one failed.
    pub fn more(&self, count: usize) {
        let until = self.answered.load(Ordering::Relaxed) + count;
        while self.answered.load(Ordering::Relaxed) < until && !self.thread.is_finished() {
            thread::yield_now();
        }
    }
}

/// Runs `events` while requests go on, from the client and from the node itself, none of which may
/// fail; gives how many there were.
///
/// # Errors
/// The first request that no pod answered, else those of `events`.
pub fn under_requests(
    topology: &Topology,
    to: SocketAddr,
    events: impl FnOnce(&Requests<'_>) -> Result<()>,
) -> Result<usize> {
    let (stop, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        let thread = scope.spawn(|| request_until(topology, to, &stop, &answered));
        let done = events(&Requests {
            answered: &answered,
            thread: &thread,
        });
        stop.store(true, Ordering::Relaxed);
        let requested = thread.join().map_err(|_| anyhow!("requests panicked"))?;
        requested.and(done)
    })?;
    Ok(answered.into_inner())
}

fn request_until(
    topology: &Topology,
    to: SocketAddr,
    stop: &AtomicBool,
    answered: &AtomicUsize,
) -> Result<()> {
    for (from, transport) in WAYS.into_iter().cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        match topology.probe(from, Probe { transport, to }, PATIENCE)? {
            Verdict::Answered(answer) if PODS.contains(&&*answer.by) => {
                answered.fetch_add(1, Ordering::Relaxed);
            }
            other => bail!("{transport} from {from}: {other:?}"),
        }
    }
    Ok(())
}
