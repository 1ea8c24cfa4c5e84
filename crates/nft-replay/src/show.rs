//! Transactions for people and for programs.

mod debug;
mod filter;
mod json;
mod tree;

pub use filter::{Filter, Service, TableName};
pub use json::{JsonError, JsonExchange, JsonMessage};
pub use tree::{Node, unknown};

use core::fmt::Write as _;
use core::time::Duration;

use nl_codec::msg::MsgType;

use crate::session::{Exchange, Kind, Session};
use crate::text::{Catalog, Rows, line};

/// How messages are shown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Style {
    /// In nft's manner.
    #[default]
    Nft,
    /// As `nft --debug=netlink` does.
    Netlink,
}

/// What to show.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Options {
    /// How.
    pub style: Style,
    /// Which messages.
    pub filter: Filter,
    /// Only this transaction.
    pub only: Option<usize>,
    /// Questions, too.
    pub queries: bool,
    /// Elements shown of a message.
    pub elements: usize,
    /// Colours.
    pub colour: bool,
}

impl Options {
    /// Whether a conversation is of interest at all.
    fn wants(&self, exchange: &Exchange<'_>) -> bool {
        match (exchange.kind, self.only) {
            (Kind::Transaction(transaction), Some(only)) => transaction.number == only,
            (Kind::Transaction(_), None) => true,
            (_, only) => self.queries && only.is_none(),
        }
    }
}

/// Walks through a session, with what is known of sets at each point, and hands each conversation of
/// interest to `each`, with its messages that are.
pub fn walk<'s, 'c>(
    session: &'s Session<'c>,
    options: &Options,
    mut each: impl FnMut(&'s Exchange<'c>, &Catalog, &[usize]),
) {
    let mut catalog = Catalog::default();
    for exchange in &session.exchanges {
        catalog.begin();
        for message in &exchange.messages {
            catalog.learn(&message.msg);
        }
        for reply in &exchange.replies {
            if let crate::session::Answer::Object(msg) = &reply.answer {
                catalog.learn(msg);
            }
        }
        if !options.wants(exchange) {
            continue;
        }
        let messages: Vec<usize> = (0..exchange.messages.len())
            .filter(|index| {
                let message = exchange.messages.get(*index);
                message.is_some_and(|message| options.filter.wants(&message.msg, &catalog))
            })
            .collect();
        if !messages.is_empty() || options.filter.is_empty() {
            each(exchange, &catalog, &messages);
        }
    }
}

/// A session as text, conversation by conversation.
pub fn text(session: &Session<'_>, options: &Options, mut out: impl FnMut(&str)) {
    let start = session.exchanges.first().map(Exchange::when);
    walk(session, options, |exchange, catalog, messages| {
        let wanted = |row: &str| options.filter.wants_row(row);
        let rows = Rows {
            most: options.elements,
            wanted: &wanted,
        };
        let mut text = String::new();
        heading(&mut text, exchange, start.unwrap_or_default(), options);
        for index in messages {
            let Some(message) = exchange.messages.get(*index) else {
                continue;
            };
            match options.style {
                Style::Nft => {
                    let line = line(&message.msg, catalog, rows);
                    let _ = writeln!(text, "  {line}");
                }
                Style::Netlink => debug::message(&mut text, &message.msg),
            }
            for node in unknown(&message.msg) {
                let _ = writeln!(text, "    ? {node}");
            }
            for (_, refusal) in exchange
                .errors()
                .filter(|(seq, refusal)| exchange.refused(*seq, refusal) == Some(*index))
            {
                let _ = writeln!(text, "    ^ {}", error(&refusal, options));
            }
        }
        for (_, refusal) in exchange
            .errors()
            .filter(|(seq, refusal)| exchange.refused(*seq, refusal).is_none())
        {
            let about = match refusal.kind {
                MsgType::BATCH_BEGIN => "the transaction",
                MsgType::BATCH_END => "the end of the transaction",
                _ => "a message",
            };
            let _ = writeln!(text, "  ^ {about}: {}", error(&refusal, options));
        }
        if let Kind::Transaction(transaction) = exchange.kind
            && transaction.rest > 0
        {
            let _ = writeln!(text, "  ({} bytes that are no message)", transaction.rest);
        }
        out(&text);
    });
}

/// `#3  +1.234 s  pid 17  committed in 0.215 ms  12 messages, 3,456 bytes`. Writing to a string
/// cannot fail.
fn heading(text: &mut String, exchange: &Exchange<'_>, start: Duration, options: &Options) {
    let since = exchange.when().saturating_sub(start);
    match exchange.kind {
        Kind::Transaction(transaction) => {
            let _ = write!(text, "#{}", transaction.number);
        }
        Kind::Query(msg) => {
            let _ = write!(text, "? {msg}");
        }
        Kind::Other(kind) => {
            let _ = write!(text, "? {kind}");
        }
    }
    let _ = write!(text, "  +{:.6} s", since.as_secs_f64());
    if exchange.packet.process != 0 {
        let _ = write!(text, "  pid {}", exchange.packet.process);
    }
    if let Kind::Transaction(transaction) = exchange.kind {
        let outcome = exchange.outcome();
        let shown = outcome.to_string();
        let shown = match (options.colour, outcome) {
            (true, crate::session::Outcome::Committed) => format!("\x1b[32m{shown}\x1b[0m"),
            (true, _) => format!("\x1b[31m{shown}\x1b[0m"),
            (false, _) => shown,
        };
        let _ = write!(text, "  {shown}");
        if let Some(took) = exchange.packet.took {
            let _ = write!(text, " in {:.3} ms", took.as_secs_f64() * 1e3);
        }
        if let Some(generation) = transaction.generation {
            let _ = write!(text, "  for generation {generation}");
        }
    } else if !exchange.replies.is_empty() {
        let _ = write!(text, "  {} replies", exchange.replies.len());
    }
    let (count, len) = (exchange.messages.len(), exchange.len());
    let plural = if count == 1 { "" } else { "s" };
    let _ = writeln!(text, "  {count} message{plural}, {len} bytes");
}

fn error(refusal: &crate::session::Refusal<'_>, options: &Options) -> String {
    let mut text = refusal.errno.to_string();
    if let Some(message) = refusal.message {
        let _ = write!(text, ": {message}");
    }
    if let Some(offset) = refusal.offset {
        let _ = write!(text, " (at byte {offset})");
    }
    if options.colour {
        format!("\x1b[31m{text}\x1b[0m")
    } else {
        text
    }
}
