//! An engine over the running kernel, behind a transport that loses replies, drops or refuses batches,
//! or spoils rows on the way.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

#[path = "../objects/mod.rs"]
mod objects;

use core::net::IpAddr;
use std::collections::VecDeque;
use std::io::IoSlice;

use kproxy::engine::{Engine, EngineError, TABLE};
use kproxy::lower::{key_bytes, nf_family};
use nft_batch::{Connection, Datagram, Errno, Socket, Transport, Wait};
use nl_codec::msg::{Messages, MsgType};
use nl_codec::nft::{Elem, Value};
use smallvec::smallvec;
use svc_planner::Config;
use svc_planner::object::{Change, Node, ObjectName, Protocol};
use svc_planner::plan::{Family, Key, KeyType};
use test_support::in_new_netns;

/// Attribute type that no element has; the kernel ignores it, and then misses the key.
pub(crate) const NO_ATTRIBUTE: u16 = 99;

/// What becomes of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The kernel handles it; its replies are lost.
    RepliesLost,
    /// As before, and `recvmsg` says so.
    NoBuffer,
    /// It gets lost.
    BatchLost,
}

/// Which batches are refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Which {
    /// All of the family.
    Of(Family),
    /// Those with these bytes in them.
    With(Vec<u8>),
    /// Those longer than this.
    Longer(usize),
}

/// How a batch is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// The kernel names no message.
    Whole(Errno),
    /// The commit fails: the kernel names the first message.
    Commit(Errno),
    /// It is not even sent.
    Send(Errno),
}

/// Batches refused, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Which, pub(crate) How);

/// A socket with faults.
#[derive(Debug)]
pub(crate) struct Faulty {
    socket: Socket,
    /// For the next batches, one each.
    pub(crate) faults: Vec<Fault>,
    /// Elements with these keys reach the kernel without a key.
    pub(crate) spoiled: Vec<Vec<u8>>,
    /// Batches that do not reach the kernel at all.
    pub(crate) refusals: Vec<Refusal>,
    /// Answers to them still to be read.
    pub(crate) answers: VecDeque<Vec<u8>>,
    /// Questions about this family's tables are answered with ENOMEM.
    pub(crate) mute: Option<Family>,
    /// Number of batches refused like that.
    pub(crate) turned_away: usize,
    /// Longest datagram that can be sent.
    pub(crate) limit: usize,
    /// Errors of `recv` still to come.
    pub(crate) errors: Vec<Errno>,
    /// Lengths of the batches handled, and of those too long to be sent.
    pub(crate) sent: Vec<usize>,
    pub(crate) refused: Vec<usize>,
}

impl Transport for Faulty {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let mut datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let first = Messages::new(&datagram).next().unwrap().unwrap();
        if first.header.kind != MsgType::BATCH_BEGIN {
            // struct nfgenmsg begins with the family.
            if self
                .mute
                .is_some_and(|mute| datagram[16] == nf_family(mute).0)
            {
                return self.refuse(&datagram, How::Whole(Errno::ENOMEM));
            }
            return self.socket.send(&[IoSlice::new(&datagram)]);
        }
        if datagram.len() > self.limit {
            self.refused.push(datagram.len());
            return Err(Errno::EMSGSIZE);
        }
        if let Some(how) = self.refusal(&datagram) {
            self.turned_away += 1;
            return self.refuse(&datagram, how);
        }
        self.sent.push(datagram.len());
        for key in &self.spoiled {
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
        if let Some(answer) = self.answers.pop_front() {
            buf[..answer.len()].copy_from_slice(&answer);
            return Ok(Datagram {
                len: answer.len(),
                truncated: false,
                sender: 0,
            });
        }
        match self.errors.pop() {
            Some(error) => Err(error),
            None => self.socket.recv(buf, wait),
        }
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        Ok(self.socket.reserve(len)?.min(self.limit))
    }
}

impl Faulty {
    fn refusal(&self, datagram: &[u8]) -> Option<How> {
        let family = datagram[datagram.len().min(36)..].first().copied();
        let found = self.refusals.iter().find(|Refusal(which, _)| match which {
            Which::Of(of) => family == Some(nf_family(*of).0),
            Which::With(bytes) => datagram.windows(bytes.len()).any(|part| part == bytes),
            Which::Longer(len) => datagram.len() > *len,
        });
        found.map(|Refusal(_, how)| *how)
    }

    /// Answers as the kernel would.
    fn refuse(&mut self, datagram: &[u8], how: How) -> Result<usize, Errno> {
        let (message, errno) = match how {
            How::Send(errno) => return Err(errno),
            How::Whole(errno) => (0, errno),
            How::Commit(errno) => (1, errno),
        };
        let message = Messages::new(datagram).nth(message).unwrap().unwrap();
        // struct nlmsghdr, then struct nlmsgerr: the error and the header of what failed.
        let mut answer = Vec::new();
        answer.extend_from_slice(&36_u32.to_ne_bytes());
        answer.extend_from_slice(&2_u16.to_ne_bytes());
        answer.extend_from_slice(&0x100_u16.to_ne_bytes());
        answer.extend_from_slice(&message.header.seq.to_ne_bytes());
        answer.extend_from_slice(&self.port().to_ne_bytes());
        answer.extend_from_slice(&(-errno.0).to_ne_bytes());
        answer.extend_from_slice(&[0; 16]);
        self.answers.push_back(answer);
        Ok(datagram.len())
    }
}

/// Takes the key away from every element that has it: `KEY { VALUE(key) }`, each with a header of
/// length and type.
pub(crate) fn spoil(datagram: &mut [u8], key: &[u8]) {
    for at in 8..datagram.len().saturating_sub(key.len()) {
        if datagram[at..].starts_with(key) {
            datagram[at - 6..at - 4].copy_from_slice(&NO_ATTRIBUTE.to_ne_bytes());
        }
    }
}

pub(crate) type Proxy = Engine<Faulty>;

/// An engine that serves Service 1, in a new network namespace.
pub(crate) fn with_engine(test: impl FnOnce(Proxy) + Send + 'static) {
    with_engine_as(Config::default, test);
}

/// The same with other settings.
pub(crate) fn with_engine_as(config: fn() -> Config, test: impl FnOnce(Proxy) + Send + 'static) {
    in_new_netns(move || {
        let connection = Connection::new(Faulty {
            socket: Socket::open().unwrap(),
            faults: Vec::new(),
            spoiled: Vec::new(),
            refusals: Vec::new(),
            answers: VecDeque::new(),
            mute: None,
            turned_away: 0,
            limit: usize::MAX,
            errors: Vec::new(),
            sent: Vec::new(),
            refused: Vec::new(),
        });
        let mut engine = Engine::new(connection.unwrap(), |_| config());
        engine.adopt(None).unwrap();
        add(&mut engine, 1);
        sync(&mut engine);
        assert!(is_served(&mut engine, 1));
        test(engine);
    });
}

pub(crate) fn faulty(engine: &mut Proxy) -> &mut Faulty {
    engine.connection().transport_mut()
}

/// Sends everything, what waits for new chains to settle included; returns the number of
/// transactions.
pub(crate) fn sync(engine: &mut Proxy) -> usize {
    try_sync(engine).unwrap()
}

pub(crate) fn try_sync(engine: &mut Proxy) -> Result<usize, EngineError> {
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

pub(crate) fn name(number: u8) -> ObjectName {
    objects::name(number.into())
}

pub(crate) fn add(engine: &mut Proxy, number: u8) {
    for change in service(number) {
        engine.apply(change);
    }
}

pub(crate) fn add_endpoint(engine: &mut Proxy, number: u8, host: u8) {
    engine.apply(endpoint(number, host));
}

/// A Service with one endpoint.
pub(crate) fn service(number: u8) -> [Change; 2] {
    [objects::service(number.into()), endpoint(number, 1)]
}

fn endpoint(number: u8, host: u8) -> Change {
    objects::slice(number.into(), IpAddr::from([10, 1, number, host]))
}

pub(crate) fn frontend(number: u8) -> Vec<u8> {
    let key = Key::Frontend {
        address: objects::cluster_ip(number.into()),
        protocol: Protocol::Tcp,
        port: 80,
    };
    let bytes = key_bytes(Family::Ipv4, KeyType::Frontend, &key).unwrap();
    bytes.as_slice().to_vec()
}

/// Names and handles of the sets that hold frontends, oldest first.
pub(crate) fn services_maps(engine: &mut Proxy) -> Vec<(u64, String)> {
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
pub(crate) fn is_served(engine: &mut Proxy, number: u8) -> bool {
    let (_, map) = services_maps(engine).pop().unwrap();
    let key = frontend(number);
    let elem = Elem::new(Value::new(&key));
    let family = nf_family(Family::Ipv4);
    let found = engine
        .connection()
        .element(family, TABLE, &map, &elem, |_| ());
    found.unwrap().is_some()
}

pub(crate) fn reports(engine: &Proxy) -> Vec<String> {
    let reports = engine.reports().into_iter();
    reports
        .map(|(family, report)| format!("{family}: {}: {}", report.port, report.reason))
        .collect()
}

/// The own Node with these addresses.
pub(crate) fn node(addresses: &[&str]) -> Change {
    Change::Node(Node {
        name: "own".into(),
        addresses: addresses.iter().map(|it| it.parse().unwrap()).collect(),
        pod_cidrs: smallvec![],
        zone: None,
        eligible: true,
    })
}
