//! Conversations as JSON.

use nl_codec::msg::NfMsg;
use serde::Serialize;

use super::tree::hex;
use super::{Node, Options, debug, unknown};
use crate::session::{Answer, Exchange, Kind};
use crate::text::{Catalog, Rows, line};

/// A transaction or a question.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct JsonExchange {
    /// Number of a transaction, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transaction: Option<usize>,
    /// What a question asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub query: Option<String>,
    /// When it was sent, in nanoseconds since the epoch.
    pub time_ns: u128,
    /// Process, 0 if not known.
    pub process: u32,
    /// Port id of the requester, if known.
    pub port: Option<u32>,
    /// Nanoseconds in `sendmsg`, if known.
    pub took_ns: Option<u128>,
    /// Generation it was made for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<u32>,
    /// What became of it.
    pub outcome: String,
    /// Bytes sent.
    pub bytes: usize,
    /// Messages asked for.
    pub messages: Vec<JsonMessage>,
    /// Errors that are about no message.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<JsonError>,
    /// Objects in the replies.
    pub replies: usize,
}

/// A message.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct JsonMessage {
    /// Type, such as `newrule`.
    pub kind: String,
    /// Family of the table.
    pub family: String,
    /// `NLM_F_*`.
    pub flags: u16,
    /// Sequence number.
    pub seq: u32,
    /// In nft's manner.
    pub nft: String,
    /// As `nft --debug=netlink` shows it.
    pub netlink: Vec<String>,
    /// The attributes, in hex.
    pub attributes: String,
    /// Attributes that are not understood.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<Node>,
    /// What the kernel says against it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<JsonError>,
}

/// An error of the kernel's.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct JsonError {
    /// Name, or number.
    pub errno: String,
    /// Where in the message.
    pub offset: Option<u32>,
    /// The kernel's explanation.
    pub message: Option<String>,
}

impl JsonExchange {
    /// An exchange, with those of its messages that are asked for.
    #[must_use]
    pub fn new(
        exchange: &Exchange<'_>,
        catalog: &Catalog,
        messages: &[usize],
        options: &Options,
    ) -> Self {
        let errors = |about: Option<usize>| {
            exchange
                .errors()
                .filter(|(seq, refusal)| exchange.refused(*seq, refusal) == about)
                .map(|(_, refusal)| JsonError {
                    errno: refusal.errno.to_string(),
                    offset: refusal.offset,
                    message: refusal.message.map(|message| message.to_string()),
                })
                .collect()
        };
        let shown = messages.iter().filter_map(|index| {
            let message = exchange.messages.get(*index)?;
            let mut shown = JsonMessage::new(&message.msg, catalog, options);
            shown.errors = errors(Some(*index));
            Some(shown)
        });
        let (transaction, query) = match exchange.kind {
            Kind::Transaction(transaction) => (Some(transaction), None),
            Kind::Query(msg) => (None, Some(msg.to_string())),
            Kind::Other(kind) => (None, Some(kind.to_string())),
        };
        let objects = exchange.replies.iter();
        Self {
            transaction: transaction.map(|transaction| transaction.number),
            query,
            time_ns: exchange.when().as_nanos(),
            process: exchange.packet.process,
            port: exchange.port,
            took_ns: exchange.packet.took.map(|took| took.as_nanos()),
            generation: transaction.and_then(|transaction| transaction.generation),
            outcome: exchange.outcome().to_string(),
            bytes: exchange.len(),
            messages: shown.collect(),
            errors: errors(None),
            replies: objects
                .filter(|reply| matches!(reply.answer, Answer::Object(_)))
                .count(),
        }
    }
}

impl JsonMessage {
    fn new(msg: &NfMsg<'_>, catalog: &Catalog, options: &Options) -> Self {
        let kind = msg.header.kind;
        let netlink = debug::body(msg).unwrap_or_else(|error| format!("[ {error} ]"));
        let wanted = |row: &str| options.filter.wants_row(row);
        let rows = Rows {
            most: options.elements,
            wanted: &wanted,
        };
        let lines = netlink.lines().filter(|line| !line.is_empty());
        Self {
            kind: kind
                .as_nft()
                .map_or_else(|| kind.to_string(), |kind| kind.to_string()),
            family: msg.nfgen.family.to_string(),
            flags: msg.header.flags.bits(),
            seq: msg.header.seq,
            nft: line(msg, catalog, rows).to_string(),
            netlink: lines.map(str::to_owned).collect(),
            attributes: hex(msg.attrs),
            unknown: unknown(msg),
            errors: Vec::new(),
        }
    }
}
