//! Kernel time by kind of message.
//!
//! The kernel handles a transaction inside one system call, so only whole transactions can be timed.
//! What a message of each kind costs is estimated: the costs that, times the numbers of messages
//! (of elements: rows), come closest to the times measured, in least squares without negative
//! costs. It begins with costs in proportion to bytes, and stays there as far as the transactions do
//! not say otherwise: a single mixed one is divided by bytes.

use std::collections::BTreeMap;

use nl_codec::msg::NftMsg;
use nl_codec::nft::ElemList;
use serde::Serialize;

use crate::session::{Exchange, Message};

/// Steps of the estimate; each is a pass over the measurements.
const STEPS: usize = 500;

/// Kind of message → messages or rows, bytes.
type Counts = BTreeMap<String, (f64, f64)>;

/// Transactions and their times.
#[derive(Debug, Default)]
pub struct Kinds {
    /// With the seconds that each took.
    rows: Vec<(Counts, f64)>,
}

/// Time that a kind of message took.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct KindTime {
    /// Such as `newrule`.
    pub kind: String,
    /// Messages; of elements rows.
    pub count: u64,
    /// Seconds for all of them, estimated.
    pub seconds: f64,
}

impl Kinds {
    /// Adds a transaction that took so many seconds.
    pub fn add(&mut self, exchange: &Exchange<'_>, seconds: f64) {
        let mut counts = Counts::new();
        for message in &exchange.messages {
            let (name, count) = weight(message);
            let entry = counts.entry(name).or_default();
            entry.0 += count;
            #[allow(clippy::cast_precision_loss, reason = "an estimate")]
            let bytes = message.wire.len() as f64;
            entry.1 += bytes;
        }
        if !counts.is_empty() {
            self.rows.push((counts, seconds));
        }
    }

    /// The estimate, the dearest kind first.
    #[must_use]
    pub fn estimate(&self) -> Vec<KindTime> {
        let mut cost: BTreeMap<&str, f64> = BTreeMap::new();
        let mut total: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for (counts, _) in &self.rows {
            for (name, (count, bytes)) in counts {
                let entry = total.entry(name).or_default();
                entry.0 += count;
                entry.1 += bytes;
            }
        }
        let all_bytes: f64 = total.values().map(|(_, bytes)| bytes).sum();
        let all_seconds: f64 = self.rows.iter().map(|(_, seconds)| seconds).sum();
        for (name, (count, bytes)) in &total {
            cost.insert(
                name,
                all_seconds / all_bytes.max(1.0) * bytes / count.max(1.0),
            );
        }
        // Multiplicative steps keep costs positive (Lee and Seung, for one factor).
        for _ in 0..STEPS {
            let mut gain: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
            for (counts, seconds) in &self.rows {
                let guess: f64 = counts
                    .iter()
                    .map(|(name, (count, _))| count * cost.get(name.as_str()).unwrap_or(&0.0))
                    .sum();
                for (name, (count, _)) in counts {
                    let entry = gain.entry(name).or_default();
                    entry.0 += count * seconds;
                    entry.1 += count * guess;
                }
            }
            for (name, (measured, guessed)) in gain {
                if let Some(cost) = cost.get_mut(name)
                    && guessed > 0.0
                {
                    *cost *= measured / guessed;
                }
            }
        }
        let mut times: Vec<KindTime> = total
            .iter()
            .map(|(name, (count, _))| KindTime {
                kind: (*name).to_owned(),
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a sum of counts"
                )]
                count: *count as u64,
                seconds: count * cost.get(name).unwrap_or(&0.0),
            })
            .collect();
        times.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
        times
    }
}

/// Kind of a message, and how much of it there is.
fn weight(message: &Message<'_>) -> (String, f64) {
    let Some(kind) = message.kind() else {
        return (message.msg.header.kind.to_string(), 1.0);
    };
    let rows = match kind {
        NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM => {
            let list = message.msg.body::<ElemList<'_>>().ok();
            let elems = list.and_then(|list| list.elems);
            elems.map_or(1, |elems| elems.raw().map_while(Result::ok).count().max(1))
        }
        _ => 1,
    };
    #[allow(clippy::cast_precision_loss, reason = "an estimate")]
    let rows = rows as f64;
    (kind.to_string(), rows)
}
