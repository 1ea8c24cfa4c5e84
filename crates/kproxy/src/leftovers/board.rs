//! What cannot be removed, for health checks, metrics and Events on other threads.

use core::fmt;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use svc_planner::plan::Family;

use crate::events::{EventType, Recorder};

/// A part of what kube-proxy leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum What {
    /// Rules in nf_tables (`iptables-nft`).
    NfTables(Family),
    /// Rules in legacy iptables.
    Legacy(Family),
    /// Virtual services and the link of mode `ipvs`.
    Ipvs,
}

impl What {
    /// A word for labels: `iptables-nft`, `iptables-legacy`, `ipvs`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::NfTables(_) => "iptables-nft",
            Self::Legacy(_) => "iptables-legacy",
            Self::Ipvs => "ipvs",
        }
    }

    /// The family, if it is about one.
    #[must_use]
    pub const fn family(self) -> Option<Family> {
        match self {
            Self::NfTables(family) | Self::Legacy(family) => Some(family),
            Self::Ipvs => None,
        }
    }
}

/// Something that is still there, and may take packets before us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remaining {
    /// What it is.
    pub what: What,
    /// Why it is still there.
    pub reason: String,
    /// What removes it, for a shell on the node.
    pub command: String,
}

impl Remaining {
    /// Reason of the Event on the own Node (action `StartKubeProxy`, Warning).
    pub const EVENT_REASON: &'static str = "LeftoversOfKubeProxy";

    pub(super) const fn new(what: What, reason: String, command: String) -> Self {
        Self {
            what,
            reason,
            command,
        }
    }
}

/// One line: what, why, and the command.
impl fmt::Display for Remaining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let label = self.what.label();
        write!(f, "cannot remove what kube-proxy left in {label}")?;
        if let Some(family) = self.what.family() {
            write!(f, " ({family})")?;
        }
        write!(
            f,
            ": {}; it may take packets before our rules do. Run on the node: {}",
            self.reason, self.command
        )
    }
}

/// What is still there, to be read on any thread.
#[derive(Debug, Clone, Default)]
pub struct Board(
    Arc<Mutex<BTreeMap<What, Remaining>>>,
    Arc<OnceLock<Recorder>>,
);

impl Board {
    /// What is still there now.
    #[must_use]
    pub fn read(&self) -> Vec<Remaining> {
        self.lock().values().cloned().collect()
    }

    /// Whether nothing is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Tells events there, of what is there already, too.
    pub fn record(&self, recorder: Recorder) {
        // The first one stays.
        let _ = self.1.set(recorder);
        for remaining in self.read() {
            self.tell(&remaining);
        }
    }

    fn tell(&self, remaining: &Remaining) {
        if let Some(recorder) = self.1.get() {
            let note = remaining.to_string();
            recorder.node(
                EventType::Warning,
                Remaining::EVENT_REASON,
                "StartKubeProxy",
                note,
            );
        }
    }

    /// Notes what became of some parts, and logs what is new. Returns whether all of them are gone.
    pub(super) fn put(&self, outcome: Vec<(What, Option<Remaining>)>) -> bool {
        let mut board = self.lock();
        let mut gone = true;
        for (what, remaining) in outcome {
            let Some(remaining) = remaining else {
                board.remove(&what);
                continue;
            };
            gone = false;
            if board.get(&what) != Some(&remaining) {
                tracing::error!("{remaining}");
                self.tell(&remaining);
                board.insert(what, remaining);
            }
        }
        gone
    }

    /// Each edit leaves it whole, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<What, Remaining>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_one_line_with_the_command() {
        let board = Board::default();
        let what = What::Legacy(Family::Ipv4);
        let remaining = || {
            let (reason, command) = ("no such program".to_owned(), "run this".to_owned());
            Some(Remaining::new(what, reason, command))
        };
        assert!(board.put(vec![(What::Ipvs, None)]) && board.is_empty());
        assert!(!board.put(vec![(what, remaining()), (What::Ipvs, None)]));
        let [left] = &*board.read() else {
            panic!("{board:?}");
        };
        let line = left.to_string();
        assert!(line.contains("iptables-legacy (ip)"), "{line}");
        assert!(
            line.ends_with("run this") && line.contains("no such program"),
            "{line}"
        );
        assert!(board.put(vec![(what, None)]) && board.is_empty());
    }
}
