//! What the engine makes of a socket and a kernel that misbehave: the running kernel behind a
//! transport that loses replies, drops batches or spoils one Service's row on the way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

use core::net::IpAddr;
use std::io::IoSlice;

use kproxy::engine::{Engine, EngineError, TABLE};
use kproxy::lower::{key_bytes, nf_family};
use nft_batch::{Connection, Datagram, Errno, Socket, Transport, Wait};
use nl_codec::msg::{Messages, MsgType};
use nl_codec::nft::{Elem, Value};
use smallvec::smallvec;
use svc_planner::Config;
use svc_planner::object::{
    Algorithm, Change, Endpoint, EndpointSlice, ObjectName, Protocol, Service, ServicePort,
    SlicePort, TrafficPolicy,
};
use svc_planner::plan::{Family, Key, KeyType};
use test_support::in_new_netns;

/// Attribute type that no element has; the kernel ignores it, and then misses the key.
const NO_ATTRIBUTE: u16 = 99;

/// A short send buffer; one message of elements takes up to 8 KiB.
const LIMIT: usize = 12 << 10;

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// The kernel handles it; its replies are lost.
    RepliesLost,
    /// As before, and `recvmsg` says so.
    NoBuffer,
    /// It gets lost.
    BatchLost,
}

/// A socket with faults.
#[derive(Debug)]
struct Faulty {
    socket: Socket,
    /// For the next batches, one each.
    faults: Vec<Fault>,
    /// Elements with this key reach the kernel without a key.
    spoiled: Option<Vec<u8>>,
    /// Longest datagram that can be sent.
    limit: usize,
    /// Errors of `recv` still to come.
    errors: Vec<Errno>,
    /// Lengths of the batches handled, and of those too long to be sent.
    sent: Vec<usize>,
    refused: Vec<usize>,
}

impl Transport for Faulty {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let first = Messages::new(&datagram).next().unwrap().unwrap();
        if first.header.kind != MsgType::BATCH_BEGIN {
            return self.socket.send(&[IoSlice::new(&datagram)]);
        }
        if datagram.len() > self.limit {
            self.refused.push(datagram.len());
            return Err(Errno::EMSGSIZE);
        }
        self.sent.push(datagram.len());
        if let Some(key) = &self.spoiled {
            spoil(&mut datagram, key);
        }
        let fault = self.faults.pop();
        if fault == Some(Fault::BatchLost) {
            return Ok(datagram.len());
        }
        let sent = self.socket.send(&[IoSlice::new(&datagram)])?;
        if fault.is_some() {
            // The kernel has answered by the time it has taken the batch.
            let mut lost = vec![0; 1 << 16];
            while self.socket.recv(&mut lost, Wait::No).is_ok() {}
        }
        if fault == Some(Fault::NoBuffer) {
            self.errors.push(Errno::ENOBUFS);
        }
        Ok(sent)
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        match self.errors.pop() {
            Some(error) => Err(error),
            None => self.socket.recv(buf, wait),
        }
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        Ok(self.socket.reserve(len)?.min(self.limit))
    }
}

/// Takes the key away from every element that has it: `KEY { VALUE(key) }`, each with a header of
/// length and type.
fn spoil(datagram: &mut [u8], key: &[u8]) {
    for at in 8..datagram.len().saturating_sub(key.len()) {
        if datagram[at..].starts_with(key) {
            datagram[at - 6..at - 4].copy_from_slice(&NO_ATTRIBUTE.to_ne_bytes());
        }
    }
}

type Proxy = Engine<Faulty>;

/// An engine that serves Service 1, in a new network namespace.
fn with_engine(test: impl FnOnce(Proxy) + Send + 'static) {
    in_new_netns(|| {
        let connection = Connection::new(Faulty {
            socket: Socket::open().unwrap(),
            faults: Vec::new(),
            spoiled: None,
            limit: usize::MAX,
            errors: Vec::new(),
            sent: Vec::new(),
            refused: Vec::new(),
        });
        let mut engine = Engine::new(connection.unwrap(), |_| Config::default());
        engine.adopt(None).unwrap();
        add(&mut engine, 1);
        sync(&mut engine);
        assert!(is_served(&mut engine, 1));
        test(engine);
    });
}

fn faulty(engine: &mut Proxy) -> &mut Faulty {
    engine.connection().transport_mut()
}

/// Sends everything, what waits for new chains to settle included; returns the number of
/// transactions.
fn sync(engine: &mut Proxy) -> usize {
    try_sync(engine).unwrap()
}

fn try_sync(engine: &mut Proxy) -> Result<usize, EngineError> {
    let mut transactions = 0;
    let settled = engine.clock().now() + 2 * Config::default().settle;
    loop {
        let wait = engine.sync(|_, _| transactions += 1)?;
        match wait {
            kproxy::engine::Wait::Until(time) if time <= settled => {
                while engine.clock().now() < time {
                    std::thread::yield_now();
                }
            }
            _ => return Ok(transactions),
        }
    }
}

fn name(number: u8) -> ObjectName {
    ObjectName {
        namespace: "shop".into(),
        name: format!("s{number}").into(),
    }
}

fn add(engine: &mut Proxy, number: u8) {
    engine.apply(Change::Service(Service {
        name: name(number),
        created: None,
        cluster_ips: smallvec![IpAddr::from([10, 96, 0, number])],
        external_ips: smallvec![],
        load_balancer_ips: smallvec![],
        source_ranges: smallvec![],
        internal_policy: TrafficPolicy::Cluster,
        external_policy: TrafficPolicy::Cluster,
        affinity: None,
        health_check_node_port: 0,
        algorithm: Algorithm::Random,
        ports: smallvec![ServicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 80,
            node_port: 0,
        }],
    }));
    add_endpoint(engine, number, 1);
}

fn add_endpoint(engine: &mut Proxy, number: u8, host: u8) {
    engine.apply(Change::EndpointSlice(EndpointSlice {
        name: name(number),
        service: name(number).name,
        ports: smallvec![SlicePort {
            name: "http".into(),
            protocol: Protocol::Tcp,
            port: 8080,
        }],
        endpoints: vec![Endpoint {
            address: IpAddr::from([10, 1, number, host]),
            ready: true,
            serving: true,
            terminating: false,
            node: None,
            zone_hints: smallvec![],
            node_hints: smallvec![],
            weight: 1,
        }],
    }));
}

fn frontend(number: u8) -> Vec<u8> {
    let key = Key::Frontend {
        address: IpAddr::from([10, 96, 0, number]),
        protocol: Protocol::Tcp,
        port: 80,
    };
    let bytes = key_bytes(Family::Ipv4, KeyType::Frontend, &key).unwrap();
    bytes.as_slice().to_vec()
}

/// Names and handles of the sets that hold frontends, oldest first.
fn services_maps(engine: &mut Proxy) -> Vec<(u64, String)> {
    let mut maps = Vec::new();
    let family = nf_family(Family::Ipv4);
    let read = engine.connection().dump_sets(family, TABLE, |set| {
        let name = set.name.unwrap().to_str().unwrap();
        if name.starts_with("services") {
            maps.push((set.handle.unwrap(), name.to_owned()));
        }
    });
    read.unwrap();
    maps.sort();
    maps
}

/// Whether the newest map has the Service's frontend.
fn is_served(engine: &mut Proxy, number: u8) -> bool {
    let (_, map) = services_maps(engine).pop().unwrap();
    let key = frontend(number);
    let elem = Elem::new(Value::new(&key));
    let family = nf_family(Family::Ipv4);
    let found = engine
        .connection()
        .element(family, TABLE, &map, &elem, |_| ());
    found.unwrap().is_some()
}

fn reports(engine: &Proxy) -> Vec<String> {
    let reports = engine.reports().into_iter();
    reports
        .map(|(family, report)| format!("{family}: {}: {}", report.port, report.reason))
        .collect()
}

#[test]
fn a_refused_service_is_named_and_costs_no_other() {
    with_engine(|mut engine| {
        let maps = services_maps(&mut engine);
        for number in [2, 66, 3] {
            add(&mut engine, number);
        }
        faulty(&mut engine).spoiled = Some(frontend(66));
        sync(&mut engine);
        let name = "shop/s66:http/TCP: refused by the kernel";
        let [report] = reports(&engine).try_into().unwrap();
        assert!(report.ends_with(name), "{report}");
        let served = [1, 2, 3, 66].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true, true, false]);
        assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");

        // Not tried again before it changes.
        assert_eq!(sync(&mut engine), 0);
        faulty(&mut engine).spoiled = None;
        add_endpoint(&mut engine, 66, 2);
        sync(&mut engine);
        assert_eq!(reports(&engine), [""; 0]);
        assert!(is_served(&mut engine, 66));
    });
}

#[test]
fn lost_replies_to_a_committed_transaction_are_found_out() {
    for fault in [Fault::RepliesLost, Fault::NoBuffer] {
        with_engine(move |mut engine| {
            let maps = services_maps(&mut engine);
            add(&mut engine, 2);
            let before = engine.connection().generation().unwrap();
            faulty(&mut engine).faults.push(fault);
            let transactions = sync(&mut engine);
            assert!(faulty(&mut engine).faults.is_empty());
            assert!(is_served(&mut engine, 2));
            let after = engine.connection().generation().unwrap();
            let commits = usize::try_from(after - before).unwrap();
            assert_eq!(commits, transactions, "{fault:?}: each was sent once");
            assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");
        });
    }
}

#[test]
fn a_lost_transaction_is_made_good() {
    with_engine(|mut engine| {
        let maps = services_maps(&mut engine);
        add(&mut engine, 2);
        faulty(&mut engine).faults.push(Fault::BatchLost);
        sync(&mut engine);
        let served = [1, 2].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true]);
        assert_ne!(services_maps(&mut engine), maps, "rebuilt beside");
    });
}

#[test]
fn when_every_transaction_gets_lost_the_caller_may_pause() {
    with_engine(|mut engine| {
        add(&mut engine, 2);
        faulty(&mut engine).faults = vec![Fault::BatchLost; 2];
        let error = try_sync(&mut engine).unwrap_err();
        assert!(
            matches!(&error, EngineError::NotCommitted(why) if why.contains("no ack")),
            "{error}"
        );
        assert!(is_served(&mut engine, 1), "what was there is still there");
        sync(&mut engine);
        let served = [1, 2].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true]);
    });
}

#[test]
fn a_refusal_that_gets_lost_is_heard_the_next_time() {
    with_engine(|mut engine| {
        add(&mut engine, 2);
        add(&mut engine, 66);
        let faulty = faulty(&mut engine);
        faulty.spoiled = Some(frontend(66));
        faulty.faults.push(Fault::NoBuffer);
        sync(&mut engine);
        let [report] = reports(&engine).try_into().unwrap();
        assert!(report.contains("shop/s66:http/TCP"), "{report}");
        let served = [1, 2, 66].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true, false]);
    });
}

#[test]
fn transactions_are_cut_only_if_they_do_not_fit() {
    with_engine(|mut engine| {
        for number in 2..250 {
            add(&mut engine, number);
        }
        assert_eq!(faulty(&mut engine).refused, [0; 0]);
        faulty(&mut engine).limit = LIMIT;
        faulty(&mut engine).sent.clear();
        let transactions = sync(&mut engine);
        let sent = faulty(&mut engine).sent.clone();
        assert!(sent.len() > transactions, "{sent:?}, {transactions}");
        assert!(sent.iter().all(|len| *len <= LIMIT), "{sent:?}");
        assert!((1..250).all(|number| is_served(&mut engine, number)));
        assert_eq!(reports(&engine), [""; 0]);

        // From the start, with new sets.
        let maps = services_maps(&mut engine);
        engine.adopt(None).unwrap();
        for number in 1..250 {
            add(&mut engine, number);
        }
        sync(&mut engine);
        assert_ne!(services_maps(&mut engine), maps, "rebuilt beside");
        assert!((1..250).all(|number| is_served(&mut engine, number)));
    });
}
