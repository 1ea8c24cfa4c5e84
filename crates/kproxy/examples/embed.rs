//! The engine in another program: manifests in, the kernel programmed, a connection explained.
//!
//! `unshare -rn cargo run -p kproxy --example embed`: in a network namespace that goes with it.

use core::error::Error;

use kproxy::engine::{self, Engine, Wait};
use kproxy::explain::LiveState;
use kproxy::manifest::Source;
use kproxy::netns::Netns;
use svc_planner::Config;
use svc_planner::fake::{Host, Packet};
use svc_planner::object::Protocol;

const MANIFESTS: &str = "
apiVersion: v1
kind: Service
metadata: {name: web, namespace: default}
spec:
  clusterIP: 10.96.0.1
  ports: [{port: 80, protocol: TCP}]
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: web-1
  namespace: default
  labels: {kubernetes.io/service-name: web}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}]
endpoints:
  - {addresses: [10.244.0.1]}
  - {addresses: [10.244.0.2]}
";

fn main() -> Result<(), Box<dyn Error>> {
    for line in embed()? {
        println!("{line}");
    }
    Ok(())
}

/// What happened, a line each.
pub(crate) fn embed() -> Result<Vec<String>, Box<dyn Error>> {
    let mut told = Vec::new();
    let mut engine = Engine::open(&Netns::Current, |_| Config::default())?;
    // What an earlier process left is taken over; here there is nothing.
    engine.adopt(None)?;

    let mut source = Source::new("node-a");
    source.load_text("manifests", MANIFESTS.to_owned(), |change| {
        engine.apply(change)
    });
    told.extend(source.take_problems().iter().map(ToString::to_string));

    // Some transactions are due at once, some a moment later.
    while let Wait::Until(time) = engine.sync(|applied, _| told.push(applied.to_string()))? {
        if engine.is_complete() {
            break;
        }
        std::thread::sleep(time.saturating_sub(engine.clock().now()));
    }

    // What the kernel does with a connection now, read by key.
    let host = Host::new([]);
    let (pod, service) = ("10.244.0.9".parse()?, "10.96.0.1".parse()?);
    let packet = Packet::arriving("cni0", pod, service, Protocol::Tcp, 80);
    let live = LiveState::read(engine.connection(), &packet, &host)?;
    for (outcome, share) in live.kernel.outcomes(&packet, &host) {
        told.push(format!(
            "{packet}: {} ({:.0} %)",
            outcome.verdict,
            share * 100.0
        ));
    }

    drop(engine);
    engine::cleanup(&Netns::Current)?;
    Ok(told)
}
