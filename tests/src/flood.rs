//! Ever new UDP flows as fast as one CPU sends them, and counters where they arrive.

use core::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
    time::Duration,
};
use std::{
    io,
    os::fd::OwnedFd,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow, ensure};
use netns_lab::{Namespace, NamespaceRef};
use nix::{
    sched::{CpuSet, sched_getaffinity, sched_setaffinity},
    unistd::Pid,
};
use rustix::{
    io::Errno,
    net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, socket_with},
};

use crate::ruleset;

/// Source ports used, from 1024 up.
const PORTS: u64 = 64_000;
/// Where arrivals are counted.
const COUNTER: [&str; 6] = ["-j", "list", "counter", "inet", "arrivals", "seen"];
/// A UDP header and nothing else.
const LENGTH: u16 = 8;

/// A running flood, on a thread of its own.
#[derive(Debug)]
pub struct Flood {
    stop: Arc<AtomicBool>,
    sent: Arc<AtomicU64>,
    thread: JoinHandle<Result<Sent>>,
}

/// What a flood did.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sent {
    /// Flows sent; each was a new one.
    pub flows: u64,
    /// Of these, how many the send call refused (dropped on the way out, or no buffer).
    pub refused: u64,
    /// How long it took.
    pub time: Duration,
}

impl Flood {
    /// Starts sending from a namespace, in turn from each of `sources` to each of `targets`, until
    /// `limit` flows are sent or [`finish`](Self::finish) is called. All addresses are of one
    /// family. Never uses a pair of source address and port twice.
    ///
    /// # Errors
    /// When there are not enough sources for `limit`, or a thread cannot be started.
    pub fn start(
        namespace: NamespaceRef,
        sources: Vec<IpAddr>,
        targets: Vec<SocketAddr>,
        limit: u64,
        cpu: usize,
    ) -> Result<Self> {
        ensure!(!targets.is_empty(), "a flood needs a target");
        let room = PORTS * u64::try_from(sources.len())?;
        ensure!(
            limit <= room,
            "{limit} flows need more than {} sources",
            sources.len()
        );
        let (stop, sent) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (stopped, counter) = (Arc::clone(&stop), Arc::clone(&sent));
        let thread = thread::Builder::new().name("flood".into()).spawn(move || {
            namespace.enter()?;
            let _pinned = Pinned::to(cpu)?;
            send(&sources, &targets, limit, &stopped, &counter)
        })?;
        Ok(Self { stop, sent, thread })
    }

    /// Flows sent so far.
    #[must_use]
    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// Whether the limit is reached, or the flood failed.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the flood.
    ///
    /// # Errors
    /// When sending failed.
    pub fn finish(self) -> Result<Sent> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .map_err(|_| anyhow!("the flood panicked"))?
    }
}

/// The calling thread bound to a CPU until this is dropped.
#[derive(Debug)]
pub struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// Binds the calling thread.
    ///
    /// # Errors
    /// When there is no such CPU.
    pub fn to(cpu: usize) -> Result<Self> {
        let this_thread = Pid::from_raw(0);
        let before = sched_getaffinity(this_thread)?;
        let mut only = CpuSet::new();
        only.set(cpu)?;
        sched_setaffinity(this_thread, &only).with_context(|| format!("pin to CPU {cpu}"))?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // It was possible before; should it not be now, the thread is merely slower.
        let _ = sched_setaffinity(Pid::from_raw(0), &self.before);
    }
}

fn send(
    sources: &[IpAddr],
    targets: &[SocketAddr],
    limit: u64,
    stop: &AtomicBool,
    counter: &AtomicU64,
) -> Result<Sent> {
    let mut sockets = Vec::new();
    for source in sources {
        for target in targets {
            sockets.push((*source, *target, open(*source, target.ip())?));
        }
    }
    let started = Instant::now();
    let mut sent = Sent::default();
    'all: for port in 1024u16.. {
        // One source address and port goes to one target: which, alternates.
        for (index, pair) in sockets.chunks(targets.len()).enumerate() {
            if sent.flows == limit || stop.load(Ordering::Relaxed) {
                break 'all;
            }
            let Some((source, target, socket)) =
                pair.get((usize::from(port) + index) % targets.len())
            else {
                break 'all;
            };
            let datagram = datagram(SocketAddr::new(*source, port), *target);
            match rustix::net::send(socket, &datagram, SendFlags::empty()) {
                Ok(_) => {}
                // EPERM: dropped on the way out. The rest: what an earlier ICMP error left.
                Err(Errno::PERM | Errno::NOBUFS | Errno::CONNREFUSED) => sent.refused += 1,
                Err(errno) => return Err(errno).context("send a datagram"),
            }
            sent.flows += 1;
            counter.store(sent.flows, Ordering::Relaxed);
        }
        if u64::from(port) + 1 == PORTS + 1024 {
            break;
        }
    }
    sent.time = started.elapsed();
    Ok(sent)
}

fn open(source: IpAddr, target: IpAddr) -> io::Result<OwnedFd> {
    let family = if source.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let socket = socket_with(
        family,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(ipproto::UDP),
    )?;
    rustix::net::bind(&socket, &SocketAddr::new(source, 0))?;
    rustix::net::connect(&socket, &SocketAddr::new(target, 0))?;
    Ok(socket)
}

/// An empty datagram: header only. IPv4 lets the checksum be zero, IPv6 does not.
fn datagram(source: SocketAddr, target: SocketAddr) -> [u8; 8] {
    let mut words = [source.port(), target.port(), LENGTH, 0];
    if let (IpAddr::V6(from), IpAddr::V6(to)) = (source.ip(), target.ip()) {
        // RFC 8200 section 8.1: pseudo header of both addresses, length and next header.
        let fields = from
            .segments()
            .into_iter()
            .chain(to.segments())
            .chain([LENGTH, 17]);
        let sum: u32 = fields.chain(words).map(u32::from).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        let folded = (folded & 0xffff) + (folded >> 16);
        words[3] = match !u16::try_from(folded & 0xffff).unwrap_or_default() {
            0 => 0xffff,
            checksum => checksum,
        };
    }
    let mut bytes = [0; 8];
    for (place, word) in bytes.chunks_exact_mut(2).zip(words) {
        place.copy_from_slice(&word.to_be_bytes());
    }
    bytes
}

/// Counts, and swallows, every UDP packet that comes into a namespace from now on.
///
/// # Errors
/// When `nft` fails.
pub fn count_arrivals(namespace: &Namespace) -> Result<()> {
    ruleset::load(
        namespace,
        "table inet arrivals {
         counter seen { }
         chain arriving { type filter hook prerouting priority -300; meta l4proto udp counter name seen drop; };
         }",
    )
}

/// Counts every UDP packet to a port that a namespace takes for its own from now on: none that is
/// translated and forwarded.
///
/// # Errors
/// When `nft` fails.
pub fn count_deliveries(namespace: &Namespace, port: u16) -> Result<()> {
    let rules = format!(
        "table inet arrivals {{
         counter seen {{ }}
         chain delivered {{ type filter hook input priority -300; udp dport {port} counter name seen; }};
         }}"
    );
    ruleset::load(namespace, &rules)
}

/// Arrivals so far, see [`count_arrivals`] and [`count_deliveries`].
///
/// # Errors
/// When `nft` fails, or there is no counter.
pub fn arrivals(namespace: &Namespace) -> Result<u64> {
    let listing: serde_json::Value = serde_json::from_str(&ruleset::nft(namespace, &COUNTER)?)?;
    listing["nftables"]
        .as_array()
        .into_iter()
        .flatten()
        .find_map(|item| item["counter"]["packets"].as_u64())
        .context("no counter")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv6_checksum_sums_to_all_ones() {
        let from: SocketAddr = "[fd00::1]:4000".parse().unwrap();
        let to: SocketAddr = "[fd00:10:96::41]:80".parse().unwrap();
        let bytes = datagram(from, to);
        let words = bytes
            .chunks(2)
            .map(|pair| u16::from_be_bytes([pair[0], pair[1]]));
        let (IpAddr::V6(source), IpAddr::V6(target)) = (from.ip(), to.ip()) else {
            unreachable!()
        };
        let mut sum: u32 = words
            .chain(source.segments())
            .chain(target.segments())
            .chain([LENGTH, 17])
            .map(u32::from)
            .sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        assert_eq!(sum, 0xffff);
    }
}
