//! The Kernel Test Anything Protocol (Documentation/dev-tools/ktap.rst), as far as a flat list of
//! tests needs it.

use std::io::{self, Write};

use crate::tally::Tally;
use crate::{Case, Outcome, Stop};

/// Version and plan.
pub(crate) fn plan(out: &mut impl Write, cases: usize) -> io::Result<()> {
    writeln!(out, "KTAP version 1\n1..{cases}")?;
    out.flush()
}

/// One result, after its diagnostics.
pub(crate) fn result(
    out: &mut impl Write,
    number: usize,
    case: &Case,
    outcome: &Outcome,
) -> io::Result<()> {
    for note in &outcome.notes {
        diagnostic(out, case, note)?;
    }
    match &outcome.stop {
        None => writeln!(out, "ok {number} {case}")?,
        Some(Stop::Skip(reason)) => {
            writeln!(out, "ok {number} {case} # SKIP {}", one_line(reason))?;
        }
        Some(Stop::Fail(reason)) => {
            diagnostic(out, case, reason)?;
            writeln!(out, "not ok {number} {case}")?;
        }
    }
    // Whoever watches sees where it is.
    out.flush()
}

/// The closing line of kselftest programs.
pub(crate) fn totals(out: &mut impl Write, tally: Tally) -> io::Result<()> {
    let Tally {
        passed,
        failed,
        skipped,
    } = tally;
    writeln!(
        out,
        "# Totals: pass:{passed} fail:{failed} xfail:0 xpass:0 skip:{skipped} error:0"
    )
}

fn diagnostic(out: &mut impl Write, case: &Case, text: &str) -> io::Result<()> {
    for line in text.lines() {
        writeln!(out, "# {case}: {line}")?;
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_stream_reads_as_the_protocol_wants_it() {
        let case = Case {
            topic: "topic",
            name: "claim",
            run: |_| Ok(()),
        };
        let outcome = |stop, notes: &[&str]| Outcome {
            stop,
            notes: notes.iter().map(|&note| note.into()).collect(),
            time: Duration::ZERO,
        };
        let mut out = Vec::new();
        plan(&mut out, 3).unwrap();
        result(&mut out, 1, &case, &outcome(None, &["12 µs"])).unwrap();
        let skip = Stop::Skip("no\nsuch thing".into());
        result(&mut out, 2, &case, &outcome(Some(skip), &[])).unwrap();
        let fail = Stop::Fail("is 1,\nnot 2".into());
        result(&mut out, 3, &case, &outcome(Some(fail), &[])).unwrap();
        let tally = Tally {
            passed: 1,
            failed: 1,
            skipped: 1,
        };
        totals(&mut out, tally).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "KTAP version 1\n1..3\n# topic.claim: 12 µs\nok 1 topic.claim\n\
             ok 2 topic.claim # SKIP no such thing\n\
             # topic.claim: is 1,\n# topic.claim: not 2\nnot ok 3 topic.claim\n\
             # Totals: pass:1 fail:1 xfail:0 xpass:0 skip:1 error:0\n"
        );
    }
}
