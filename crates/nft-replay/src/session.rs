//! From datagrams to transactions: which messages belong together, what the kernel said to each, and
//! what became of it.

mod pairing;

use core::fmt;
use core::time::Duration;

use nft_batch::Errno;
use nl_codec::msg::{BatchBegin, Flags, Messages, MsgType, NfMsg, NftMsg};
use nl_codec::nft::Str;

use crate::capture::{Capture, Packet};

/// The conversations of a capture, in the order in which they began.
#[derive(Debug, Clone, Default)]
pub struct Session<'c> {
    /// Transactions and questions.
    pub exchanges: Vec<Exchange<'c>>,
    /// Messages from the kernel that answer nothing in the capture: events, and replies to requests
    /// before its beginning.
    pub unasked: u64,
}

/// A request and what the kernel said to it.
#[derive(Debug, Clone)]
pub struct Exchange<'c> {
    /// The datagram of the request.
    pub packet: &'c Packet,
    /// Its messages; of a transaction those between begin and end.
    pub messages: Vec<Message<'c>>,
    /// What it is.
    pub kind: Kind,
    /// Replies, in the order in which they came.
    pub replies: Vec<Reply<'c>>,
    /// Port id of the requester, as soon as a reply shows it.
    pub port: Option<u32>,
    /// Lowest sequence number.
    first_seq: u32,
    /// Highest sequence number, counted from the lowest.
    seqs: u32,
}

/// What an exchange is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A transaction.
    Transaction(Transaction),
    /// A question to nf_tables.
    Query(NftMsg),
    /// Something of another subsystem.
    Other(MsgType),
}

/// The frame of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transaction {
    /// Counted from 1.
    pub number: usize,
    /// Generation it was made for.
    pub generation: Option<u32>,
    /// It has an end message; without one the kernel only checks it.
    pub ended: bool,
    /// Bytes at its end that are no message.
    pub rest: usize,
}

/// A message of a request.
#[derive(Debug, Clone, Copy)]
pub struct Message<'c> {
    /// All of its bytes, padding included.
    pub wire: &'c [u8],
    /// Its headers and attributes.
    pub msg: NfMsg<'c>,
}

impl Message<'_> {
    /// The nf_tables message, if it is one.
    #[must_use]
    pub fn kind(&self) -> Option<NftMsg> {
        self.msg.header.kind.as_nft()
    }
}

/// A message from the kernel.
#[derive(Debug, Clone, Copy)]
pub struct Reply<'c> {
    /// Sequence number of what it answers.
    pub seq: u32,
    /// What it says.
    pub answer: Answer<'c>,
}

/// What a reply says.
#[derive(Debug, Clone, Copy)]
pub enum Answer<'c> {
    /// All is well.
    Ack,
    /// The kernel refuses.
    Error(Refusal<'c>),
    /// An object: asked for, or echoed.
    Object(NfMsg<'c>),
    /// The end of a dump, and why it ended early.
    Done(Option<Errno>),
}

/// Why the kernel refuses a message.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Refusal<'c> {
    /// Error.
    pub errno: Errno,
    /// Where in the message the bad attribute begins.
    pub offset: Option<u32>,
    /// The kernel's explanation.
    pub message: Option<Str<'c>>,
    /// Type of the refused message.
    pub kind: MsgType,
    /// Length of the refused message.
    pub len: u32,
}

/// What became of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It is in the kernel.
    Committed,
    /// The kernel refused it.
    Refused,
    /// It had no end: the kernel looked at it and dropped it.
    Checked,
    /// `sendmsg` failed.
    NotSent(Errno),
    /// The answers are not in the capture.
    Unknown,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Committed => f.write_str("committed"),
            Self::Refused => f.write_str("refused"),
            Self::Checked => f.write_str("checked only"),
            Self::NotSent(errno) => write!(f, "not sent ({errno})"),
            Self::Unknown => f.write_str("outcome unknown"),
        }
    }
}

impl<'c> Session<'c> {
    /// Puts the datagrams of a capture together.
    #[must_use]
    pub fn new(capture: &'c Capture) -> Self {
        pairing::pair(capture)
    }

    /// The transactions.
    pub fn transactions(&self) -> impl Iterator<Item = (Transaction, &Exchange<'c>)> {
        self.exchanges
            .iter()
            .filter_map(|exchange| match exchange.kind {
                Kind::Transaction(transaction) => Some((transaction, exchange)),
                _ => None,
            })
    }
}

impl<'c> Exchange<'c> {
    /// What became of it.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        if let Some(errno) = self.packet.send_error {
            return Outcome::NotSent(errno);
        }
        let ended = match self.kind {
            Kind::Transaction(transaction) => transaction.ended,
            _ => true,
        };
        if self.errors().next().is_some() {
            Outcome::Refused
        } else if !ended {
            Outcome::Checked
        } else if self.wants_ack() && self.replies.is_empty() {
            Outcome::Unknown
        } else {
            Outcome::Committed
        }
    }

    /// The errors, with the sequence numbers of what was refused.
    pub fn errors(&self) -> impl Iterator<Item = (u32, Refusal<'c>)> {
        self.replies.iter().filter_map(|reply| match reply.answer {
            Answer::Error(refusal) => Some((reply.seq, refusal)),
            _ => None,
        })
    }

    /// The message that a refusal is about; `None` if it is about the whole transaction. Several
    /// messages may have one number: nft gives those of a command the same.
    #[must_use]
    pub fn refused(&self, seq: u32, refusal: &Refusal<'_>) -> Option<usize> {
        self.messages.iter().position(|message| {
            let header = message.msg.header;
            header.seq == seq && header.kind == refusal.kind && header.len == refusal.len
        })
    }

    /// Bytes sent.
    #[must_use]
    pub fn len(&self) -> usize {
        self.packet.len
    }

    /// Whether nothing was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.packet.len == 0
    }

    /// Whether the kernel was asked to say that all is well.
    #[must_use]
    pub fn wants_ack(&self) -> bool {
        let mut messages = Messages::new(&self.packet.bytes).map_while(Result::ok);
        messages.any(|msg| {
            // Before Linux 6.10 the frame is not acknowledged.
            let framed = matches!(msg.header.kind, MsgType::BATCH_BEGIN | MsgType::BATCH_END);
            msg.header.flags.contains(Flags::ACK) && !framed
        })
    }

    /// Whether a sequence number is one of its own.
    fn has_seq(&self, seq: u32) -> bool {
        seq.wrapping_sub(self.first_seq) <= self.seqs
    }

    /// What the requester was told, as far as it can be compared: sequence number and error, or none,
    /// and where the error is.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        let told = self.replies.iter().filter_map(|reply| match reply.answer {
            Answer::Ack => Some(Told {
                seq: reply.seq,
                errno: None,
                offset: None,
            }),
            Answer::Error(refusal) => Some(Told {
                seq: reply.seq,
                errno: Some(refusal.errno),
                offset: refusal.offset,
            }),
            _ => None,
        });
        told.collect()
    }

    /// When it was sent, since the epoch.
    #[must_use]
    pub fn when(&self) -> Duration {
        self.packet.when
    }

    /// Splits a request into its messages. `None` if it is no request.
    fn of(packet: &'c Packet, number: usize) -> Option<Self> {
        let mut transaction: Option<Transaction> = None;
        let mut messages = Vec::new();
        let mut first = None;
        let mut seqs = 0;
        let mut walk = Messages::new(&packet.bytes);
        let mut rest = 0;
        while let Some(msg) = walk.next() {
            let Ok(msg) = msg else {
                rest = packet.bytes.len().saturating_sub(messages_end(&messages));
                break;
            };
            let seq = msg.header.seq;
            let from = *first.get_or_insert(seq);
            seqs = seqs.max(seq.wrapping_sub(from));
            let Ok(nf) = msg.nfnetlink() else { continue };
            match msg.header.kind {
                MsgType::BATCH_BEGIN => {
                    let begin = nf.body::<BatchBegin>().unwrap_or_default();
                    transaction = Some(Transaction {
                        number,
                        generation: begin.generation,
                        ended: false,
                        rest: 0,
                    });
                }
                MsgType::BATCH_END => {
                    if let Some(transaction) = &mut transaction {
                        transaction.ended = true;
                    }
                    // The kernel looks at nothing behind it.
                    break;
                }
                _ => {
                    let end = packet.bytes.len() - walk.rest().len();
                    let wire = packet.bytes.get(msg.offset..end).unwrap_or_default();
                    messages.push(Message { wire, msg: nf });
                }
            }
        }
        let kind = match (transaction, messages.first()) {
            (Some(transaction), _) => Kind::Transaction(Transaction {
                rest,
                ..transaction
            }),
            (None, Some(message)) => match message.kind() {
                Some(kind) => Kind::Query(kind),
                None => Kind::Other(message.msg.header.kind),
            },
            (None, None) => return None,
        };
        Some(Self {
            packet,
            messages,
            kind,
            replies: Vec::new(),
            port: packet.port,
            first_seq: first?,
            seqs,
        })
    }
}

/// What a requester was told about one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Told {
    /// Sequence number of the message.
    pub seq: u32,
    /// Error, or none.
    pub errno: Option<Errno>,
    /// Where in the message it is.
    pub offset: Option<u32>,
}

fn messages_end(messages: &[Message<'_>]) -> usize {
    messages.iter().map(|message| message.wire.len()).sum()
}
