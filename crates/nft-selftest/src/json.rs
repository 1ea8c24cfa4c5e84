//! Results for machines.

use nft_batch::KernelVersion;
use serde_json::{Value, json};

use crate::doctor::Diagnosis;
use crate::tally::Tally;
use crate::{Case, Outcome, Stop};

/// One result.
pub(crate) fn result(case: &Case, outcome: &Outcome) -> Value {
    let (result, reason) = match &outcome.stop {
        None => ("pass", None),
        Some(Stop::Fail(reason)) => ("fail", Some(reason)),
        Some(Stop::Skip(reason)) => ("skip", Some(reason)),
    };
    json!({
        "name": case.full_name(),
        "result": result,
        "reason": reason,
        "notes": outcome.notes,
        "milliseconds": u64::try_from(outcome.time.as_millis()).unwrap_or(u64::MAX),
    })
}

/// All of them.
pub(crate) fn report(results: Vec<Value>, tally: Tally) -> Value {
    json!({
        "kernel": KernelVersion::running().release,
        "passed": tally.passed,
        "failed": tally.failed,
        "skipped": tally.skipped,
        "results": results,
    })
}

/// What the doctor says.
pub(crate) fn diagnosis(diagnosis: &Diagnosis) -> Value {
    json!({
        "kernel": diagnosis.kernel,
        "verdict": diagnosis.fitness().name(),
        "findings": diagnosis.findings,
    })
}
