//! Runs cases, each in a network namespace of its own that is gone afterwards.

use core::panic::AssertUnwindSafe;
use core::time::Duration;
use std::panic::catch_unwind;
use std::time::Instant;

use netns_lab::Namespace;

use crate::bench::Bench;
use crate::{Case, Stop};

/// What became of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Nothing if the claim holds.
    pub stop: Option<Stop>,
    /// What was found on the way.
    pub notes: Vec<String>,
    /// How long it took.
    pub time: Duration,
}

/// Runs one case.
#[must_use]
pub fn run(case: &Case) -> Outcome {
    let started = Instant::now();
    let (stop, notes) = match in_namespace(*case) {
        Ok((stop, notes)) => (stop, notes),
        Err(stop) => (Some(stop), Vec::new()),
    };
    Outcome {
        stop,
        notes,
        time: started.elapsed(),
    }
}

fn in_namespace(case: Case) -> Result<(Option<Stop>, Vec<String>), Stop> {
    let namespace = Namespace::new("selftest").map_err(|error| Stop::skip(error.to_string()))?;
    let wmem_max = std::fs::read_to_string("/proc/sys/net/core/wmem_max").ok();
    let wmem_max = wmem_max.and_then(|text| text.trim().parse().ok());
    namespace.run(move || {
        let mut bench = Bench::open(wmem_max)?;
        // A defect of one case must not keep the others from being run.
        let verdict = catch_unwind(AssertUnwindSafe(|| (case.run)(&mut bench)));
        let stop = match verdict {
            Ok(verdict) => verdict.err(),
            Err(_) => Some(Stop::Fail("the case panicked".into())),
        };
        Ok((stop, bench.notes))
    })?
}
