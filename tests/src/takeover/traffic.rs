//! New connections all the while.

use core::{
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    time::Duration,
};
use std::thread;

use anyhow::{Result, anyhow, bail, ensure};
use netns_lab::{Probe, Topology, Transport, Verdict};

const PATIENCE: Duration = Duration::from_secs(5);
/// Always served, whichever proxy it is: ClusterIPs, external IPs, VIPs and node ports of policy Local.
const SERVED: [(Transport, &str); 12] = [
    (Transport::Tcp, "172.30.2.1:80"),
    (Transport::Udp, "172.30.2.1:53"),
    (Transport::Sctp, "172.30.2.1:53"),
    (Transport::Tcp, "192.0.2.1:80"),
    (Transport::Tcp, "198.18.0.1:80"),
    (Transport::Tcp, "192.168.0.2:30080"),
    (Transport::Tcp, "[fd00:10:96::2:1]:80"),
    (Transport::Udp, "[fd00:10:96::2:1]:53"),
    (Transport::Sctp, "[fd00:10:96::2:1]:53"),
    (Transport::Tcp, "[2001:db8:e::1]:80"),
    (Transport::Tcp, "[2001:db8:f::1]:80"),
    (Transport::Tcp, "[2001:db8::1]:30080"),
];
const CLIENTS: [&str; 3] = ["pod", "external", "node"];

/// What is done while clients connect.
#[derive(Debug)]
pub struct Traffic;

impl Traffic {
    /// Does `work` while clients connect to what is served all the time; every one of them must
    /// reach an endpoint.
    ///
    /// # Errors
    /// Those of `work`, or a connection that did not.
    pub fn during<T>(topology: &Topology, work: impl FnOnce() -> Result<T>) -> Result<T> {
        let (stop, sent) = (AtomicBool::new(false), AtomicUsize::new(0));
        thread::scope(|scope| {
            let threads = CLIENTS.map(|client| {
                let (stop, sent) = (&stop, &sent);
                scope.spawn(move || connect_until(topology, client, stop, sent))
            });
            let done = work();
            stop.store(true, Ordering::Relaxed);
            for thread in threads {
                thread
                    .join()
                    .map_err(|_| anyhow!("a connecting thread panicked"))??;
            }
            ensure!(sent.load(Ordering::Relaxed) > 0, "nobody connected");
            done
        })
    }
}

fn connect_until(
    topology: &Topology,
    client: &str,
    stop: &AtomicBool,
    sent: &AtomicUsize,
) -> Result<()> {
    for (transport, to) in SERVED.iter().cycle() {
        let probe = Probe {
            transport: *transport,
            to: to.parse()?,
        };
        match topology.probe(client, probe, PATIENCE)? {
            Verdict::Answered(answer) if matches!(&*answer.by, "near" | "far") => {}
            verdict => bail!("{client} to {transport} {to}: {verdict:?}"),
        }
        sent.fetch_add(1, Ordering::Relaxed);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}
