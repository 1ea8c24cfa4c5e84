//! Sending a capture's transactions again, and comparing what the kernel says.
//!
//! What a transaction refers to by numbers of the kernel's is translated: the generation it was made
//! for becomes the current one, handles of rules, chains and so on become those that the same objects
//! have here. How handles here belong to those in the capture is learnt from the answers to the
//! requests from which the recorded program had them: dumps and echoes.

mod handles;
mod kinds;
mod names;
mod namespace;
mod rewrite;
mod verdict;

pub use kinds::{KindTime, Kinds};
pub use namespace::{NamespaceError, Place, in_place};
pub use verdict::{Difference, Verdict};

use core::time::Duration;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io::IoSlice;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nft_batch::record::Direction;
use nft_batch::{Errno, OpenError, Socket, Transport, Wait};
use nl_codec::ack::Control;
use nl_codec::msg::{Flags, Messages, NftMsg};
use thiserror::Error;

use self::handles::Handles;
use crate::capture::{Capture, Packet};
use crate::session::{Exchange, Kind, Outcome, Session};

/// Room for a reply: the kernel fills dump datagrams up to 32 KiB, and echoes of an error hold the
/// message that was refused.
const RECV_LEN: usize = 256 << 10;
/// How often an interrupted call is tried again.
const RETRIES: u32 = 64;

/// How fast to send.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Pace {
    /// Without pauses.
    #[default]
    Fast,
    /// With the pauses that were recorded.
    Recorded,
}

/// What to mind while playing.
#[derive(Debug, Clone, Copy, Default)]
#[non_exhaustive]
pub struct PlayOptions {
    /// How fast to send.
    pub pace: Pace,
    /// Do not send what refers to a handle whose counterpart here is not known. In a namespace with
    /// others' objects the number may be one of theirs.
    pub known_handles_only: bool,
}

/// A transaction that was played.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Played {
    /// Its number in the capture, counted from 1.
    pub number: usize,
    /// Time in `sendmsg`, that is in the kernel.
    pub took: Duration,
    /// What became of it here.
    pub outcome: Outcome,
    /// What it was compared with.
    pub verdict: Verdict,
}

/// A capture that was played.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Report {
    /// Transactions in order.
    pub transactions: Vec<Played>,
    /// What was sent and received here, as a capture of its own.
    pub capture: Capture,
    /// Handles that were sent as recorded, because their counterparts here are not known.
    pub unknown_handles: u64,
}

impl Report {
    /// Whether the kernel said everywhere what it said in the capture.
    #[must_use]
    pub fn agrees(&self) -> bool {
        self.transactions
            .iter()
            .all(|played| !matches!(played.verdict, Verdict::Differs(_)))
    }
}

/// Why a capture could not be played.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlayError {
    /// No socket.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The namespace.
    #[error(transparent)]
    Namespace(#[from] NamespaceError),
}

/// Plays captures in the network namespace it was opened in.
#[derive(Debug)]
pub struct Player {
    /// One for each that was used in the capture: tables may belong to one.
    sockets: HashMap<Option<u32>, Socket>,
    buf: Vec<u8>,
    options: PlayOptions,
}

impl Player {
    /// In the calling thread's network namespace.
    ///
    /// # Errors
    /// [`PlayError::Open`].
    pub fn open(options: PlayOptions) -> Result<Self, PlayError> {
        let first = Socket::open()?;
        Ok(Self {
            sockets: HashMap::from([(None, first)]),
            buf: vec![0; RECV_LEN],
            options,
        })
    }

    /// Plays all transactions, and the questions without whose answers handles would not be known.
    /// Each transaction is told to `each`, which may end it by returning false.
    ///
    /// # Errors
    /// [`PlayError::Open`].
    pub fn play(
        &mut self,
        session: &Session<'_>,
        mut each: impl FnMut(&Played) -> bool,
    ) -> Result<Report, PlayError> {
        let mut report = Report::default();
        let mut handles = Handles::for_session(session);
        let begun = Instant::now();
        let first = session.exchanges.first().map(Exchange::when);
        for exchange in &session.exchanges {
            let wanted = match exchange.kind {
                Kind::Transaction(_) => true,
                Kind::Query(_) => handles.wants(exchange),
                Kind::Other(_) => false,
            };
            if !wanted {
                continue;
            }
            if self.options.pace == Pace::Recorded {
                let at = exchange.when().saturating_sub(first.unwrap_or_default());
                std::thread::sleep(at.saturating_sub(begun.elapsed()));
            }
            let packets = self.exchange(exchange, &handles, &mut report)?;
            let heard = Capture {
                packets,
                ..Capture::default()
            };
            let here = Session::new(&heard);
            if let Some(answered) = here.exchanges.first() {
                handles.learn(exchange, answered);
                if let Kind::Transaction(transaction) = exchange.kind {
                    let played = Played {
                        number: transaction.number,
                        took: answered.packet.took.unwrap_or_default(),
                        outcome: answered.outcome(),
                        verdict: Verdict::of(exchange, answered),
                    };
                    let go_on = each(&played);
                    report.transactions.push(played);
                    if !go_on {
                        report.capture.packets.extend(heard.packets);
                        return Ok(report);
                    }
                }
            }
            report.capture.packets.extend(heard.packets);
        }
        Ok(report)
    }

    /// Sends one request, and returns it as sent, followed by its replies.
    fn exchange(
        &mut self,
        exchange: &Exchange<'_>,
        handles: &Handles,
        report: &mut Report,
    ) -> Result<Vec<Packet>, PlayError> {
        let generation = match exchange.kind {
            Kind::Transaction(transaction) if transaction.generation.is_some() => self.generation(),
            _ => None,
        };
        let rewritten = rewrite::rewrite(exchange, handles, generation);
        report.unknown_handles += rewritten.unknown_handles;
        let (bytes, len) = (rewritten.bytes, exchange.packet.len);
        let refuse = self.options.known_handles_only && rewritten.unknown_handles > 0;
        let cut = exchange.packet.is_cut();
        let key = exchange.port;
        let socket = match self.sockets.entry(key) {
            Entry::Occupied(entry) => entry.into_mut(),
            Entry::Vacant(entry) => entry.insert(Socket::open()?),
        };
        let mut request = Packet::new(Direction::ToKernel, bytes);
        request.port = Some(socket.port());
        request.process = std::process::id();
        request.when = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        request.send_error = if refuse {
            Some(Errno::ENOENT)
        } else if cut || exchange.packet.send_error.is_some() {
            exchange.packet.send_error.or(Some(Errno::EINVAL))
        } else {
            None
        };
        if request.send_error.is_some() {
            request.len = len;
            return Ok(vec![request]);
        }
        // What does not fit is refused by the kernel.
        let _ = socket.reserve(request.bytes.len());
        let parts = [IoSlice::new(&request.bytes)];
        let started = Instant::now();
        let mut sent = Err(Errno::EINTR);
        for _ in 0..RETRIES {
            sent = socket.send(&parts);
            if sent != Err(Errno::EINTR) {
                break;
            }
        }
        request.took = Some(started.elapsed());
        request.send_error = sent.err();
        let port = socket.port();
        let dump = matches!(exchange.kind, Kind::Query(_));
        let mut packets = vec![request];
        receive(socket, &mut self.buf, port, dump, &mut packets);
        Ok(packets)
    }

    /// The current generation.
    fn generation(&mut self) -> Option<u32> {
        let socket = self.sockets.get_mut(&None)?;
        let mut request = [0; 20];
        let mut cursor = nl_codec::SliceCursor::new(&mut request);
        let head = nl_codec::msg::Head::nft(NftMsg::GET_GEN, nl_codec::msg::Family::UNSPEC);
        nl_codec::msg::Message::begin(&mut cursor, &head)
            .and_then(nl_codec::msg::Message::end)
            .ok()?;
        socket.send(&[IoSlice::new(&request)]).ok()?;
        let datagram = socket.recv(&mut self.buf, Wait::No).ok()?;
        let bytes = self.buf.get(..datagram.len)?;
        let msg = Messages::new(bytes).next()?.ok()?.nfnetlink().ok()?;
        msg.body::<nl_codec::nft::Generation<'_>>().ok()?.id
    }
}

/// Reads what is queued. A dump goes on as long as it is read, until its end.
fn receive(socket: &mut Socket, buf: &mut [u8], port: u32, dump: bool, packets: &mut Vec<Packet>) {
    let mut interrupted = 0;
    loop {
        match socket.recv(buf, Wait::No) {
            Ok(datagram) if datagram.sender == 0 => {
                let bytes = buf.get(..datagram.len).unwrap_or_default();
                let ended = dump && ends(bytes);
                let mut packet = Packet::new(Direction::ToUser, bytes.to_vec());
                packet.port = Some(port);
                packet.when = SystemTime::now()
                    .duration_since(UNIX_EPOCH)
                    .unwrap_or_default();
                packets.push(packet);
                if ended {
                    return;
                }
            }
            Ok(_) => {}
            // ENOBUFS: replies were lost, and there are more.
            Err(Errno::EINTR | Errno::ENOBUFS) if interrupted < RETRIES => interrupted += 1,
            Err(_) => return,
        }
    }
}

/// Whether a datagram is the last one of an answer.
fn ends(bytes: &[u8]) -> bool {
    let mut messages = Messages::new(bytes).map_while(Result::ok);
    messages.any(|msg| match Control::decode(&msg) {
        Ok(Some(Control::Ack(_) | Control::Done(_))) => true,
        Ok(None) => !msg.header.flags.contains(Flags::MULTI),
        _ => false,
    })
}
