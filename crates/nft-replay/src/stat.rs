//! Sizes, operations and times of a capture.

use core::fmt;
use core::time::Duration;
use std::collections::BTreeMap;

use nl_codec::msg::NftMsg;
use nl_codec::nft::ElemList;
use serde::Serialize;

use crate::capture::Capture;
use crate::session::{Exchange, Kind, Outcome, Session};

/// Summary of a capture.
#[derive(Debug, Clone, Default, Serialize)]
#[non_exhaustive]
pub struct Stat {
    /// Kernel it was made on, if the file says so.
    pub system: String,
    /// Program it was made by.
    pub application: String,
    /// Seconds from the first datagram to the last.
    pub seconds: f64,
    /// Datagrams.
    pub packets: usize,
    /// Packets of other protocols in the file.
    pub ignored: u64,
    /// Transactions.
    pub transactions: usize,
    /// Of these, committed ones.
    pub committed: usize,
    /// Of these, refused ones.
    pub refused: usize,
    /// Questions.
    pub queries: usize,
    /// Bytes of transactions.
    pub bytes: usize,
    /// Messages of transactions.
    pub messages: usize,
    /// Rows in these messages.
    pub elements: usize,
    /// Time that the kernel took for transactions, where it is known.
    pub kernel: Times,
    /// By kind of message.
    pub kinds: BTreeMap<String, KindStat>,
}

/// Messages of one kind.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[non_exhaustive]
pub struct KindStat {
    /// How many.
    pub messages: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// A distribution of times, in seconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
#[non_exhaustive]
pub struct Times {
    /// How many.
    pub count: usize,
    /// All together.
    pub total: f64,
    /// Half are shorter.
    pub median: f64,
    /// One in a hundred is longer.
    pub p99: f64,
    /// The longest.
    pub max: f64,
}

impl Times {
    /// Of these times.
    #[must_use]
    pub fn of(times: &[Duration]) -> Self {
        let mut sorted: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| {
            let index = (sorted.len() * part / 100).min(sorted.len().saturating_sub(1));
            sorted.get(index).copied().unwrap_or_default()
        };
        Self {
            count: sorted.len(),
            total: sorted.iter().sum(),
            median: at(50),
            p99: at(99),
            max: sorted.last().copied().unwrap_or_default(),
        }
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:.3} ms (median {:.3} ms, p99 {:.3} ms, longest {:.3} ms)",
            self.total * 1e3,
            self.median * 1e3,
            self.p99 * 1e3,
            self.max * 1e3
        )
    }
}

impl Stat {
    /// Of a capture and its conversations.
    #[must_use]
    pub fn of(capture: &Capture, session: &Session<'_>) -> Self {
        let section = capture.sections.first().cloned().unwrap_or_default();
        let first = capture.packets.iter().map(|packet| packet.when).min();
        let last = capture.packets.iter().map(|packet| packet.when).max();
        let span = first.zip(last).map(|(first, last)| last - first);
        let mut stat = Self {
            system: section.os,
            application: section.application,
            seconds: span.unwrap_or_default().as_secs_f64(),
            packets: capture.packets.len(),
            ignored: capture.ignored,
            ..Self::default()
        };
        let mut times = Vec::new();
        for exchange in &session.exchanges {
            if !matches!(exchange.kind, Kind::Transaction(_)) {
                stat.queries += 1;
                continue;
            }
            stat.transactions += 1;
            match exchange.outcome() {
                Outcome::Committed => stat.committed += 1,
                Outcome::Refused => stat.refused += 1,
                _ => {}
            }
            times.extend(exchange.packet.took);
            stat.count(exchange);
        }
        stat.kernel = Times::of(&times);
        stat
    }

    fn count(&mut self, exchange: &Exchange<'_>) {
        self.bytes += exchange.len();
        self.messages += exchange.messages.len();
        for message in &exchange.messages {
            let kind = message.kind();
            let name = kind.map_or_else(
                || message.msg.header.kind.to_string(),
                |kind| kind.to_string(),
            );
            let entry = self.kinds.entry(name).or_default();
            entry.messages += 1;
            entry.bytes += message.wire.len();
            if matches!(
                kind,
                Some(NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM)
            ) && let Ok(list) = message.msg.body::<ElemList<'_>>()
                && let Some(elems) = list.elems
            {
                self.elements += elems.raw().map_while(Result::ok).count();
            }
        }
    }
}

impl fmt::Display for Stat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.application.is_empty() || !self.system.is_empty() {
            writeln!(f, "made by {} on {}", self.application, self.system)?;
        }
        writeln!(
            f,
            "{} datagrams in {:.3} s; {} transactions ({} committed, {} refused), {} questions",
            self.packets,
            self.seconds,
            self.transactions,
            self.committed,
            self.refused,
            self.queries
        )?;
        writeln!(
            f,
            "{} messages with {} elements, {} bytes",
            self.messages, self.elements, self.bytes
        )?;
        if self.kernel.count > 0 {
            writeln!(f, "kernel time of transactions: {}", self.kernel)?;
        }
        for (name, kind) in &self.kinds {
            writeln!(
                f,
                "  {name:<18} {:>8} {:>12} bytes",
                kind.messages, kind.bytes
            )?;
        }
        Ok(())
    }
}
