//! The results in docs/KERNEL.md.

use core::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::guest::Report;
use super::{Boot, Direct};
use crate::{apt, sh};

const BEGIN: &str = "<!-- kernels: begin -->\n";
const END: &str = "<!-- kernels: end -->\n";

/// Writes a table of all boots between the two marks.
pub(super) fn record(boots: &[Boot], reports: &[Report], running: Option<&Direct>) -> Result<()> {
    let path = sh::root().join("docs/KERNEL.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = text.split_once(BEGIN).context("no mark in KERNEL.md")?;
    let (_, after) = rest.split_once(END).context("no end mark in KERNEL.md")?;
    let date = apt::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let mut table = table(date.trim(), boots, reports)?;
    if let Some(direct) = running {
        let [passed, failed, skipped] = direct.counts;
        writeln!(
            table,
            "| {} (running directly) | {passed} / {failed} / {skipped} | with the test suite | with the test suite | – |",
            direct.release
        )?;
    }
    table.push_str(&skips(boots, reports)?);
    fs::write(&path, format!("{before}{BEGIN}{table}{END}{after}"))?;
    Ok(())
}

fn table(date: &str, boots: &[Boot], reports: &[Report]) -> Result<String> {
    let mut table = format!(
        "`cargo xtask kernels`, {date}: passed / failed / skipped.\n\n\
         | kernel | nft-selftest | packet scenarios | commands | doctor |\n|---|---|---|---|---|\n"
    );
    for (boot, report) in boots.iter().zip(reports) {
        let cell = |job: &str| {
            let outcome = report.outcomes.iter().find(|it| it.job == job);
            outcome.map_or_else(
                || "–".to_owned(),
                |it| match it.counts {
                    _ if it.code.is_none() => "no end".to_owned(),
                    [1, 0, 0] => "as it should be".to_owned(),
                    [passed, failed, skipped] => format!("{passed} / {failed} / {skipped}"),
                },
            )
        };
        let release = report.release.as_deref().unwrap_or(&boot.kernel.release);
        let about = match boot.about {
            "" => String::new(),
            about => format!(" ({about})"),
        };
        writeln!(
            table,
            "| {release}{about} | {} | {} | {} | {} |",
            cell("selftest"),
            cell("scenarios"),
            cell("commands"),
            cell("doctor")
        )?;
    }
    Ok(table)
}

/// Which cases were skipped, and why.
fn skips(boots: &[Boot], reports: &[Report]) -> Result<String> {
    let mut text = String::new();
    for (boot, report) in boots.iter().zip(reports) {
        let outcome = report.outcomes.iter().find(|it| it.job == "selftest");
        let output = outcome.map_or("", |it| &it.output);
        let skipped: Vec<_> = output.lines().filter_map(skipped).collect();
        if skipped.is_empty() {
            continue;
        }
        let release = report.release.as_deref().unwrap_or(&boot.kernel.release);
        writeln!(text, "\nSkipped on {release}:\n")?;
        for (case, reason) in skipped {
            writeln!(text, "- `{case}`: {reason}")?;
        }
    }
    Ok(text)
}

/// The case of a line `ok 7 topic.case # SKIP reason`.
fn skipped(line: &str) -> Option<(&str, &str)> {
    let (result, reason) = line.strip_prefix("ok ")?.split_once(" # SKIP ")?;
    let (_, case) = result.split_once(' ')?;
    Some((case, reason))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_cases_are_told_with_their_reason() {
        let line = "ok 7 sets.a_b # SKIP this kernel does not say";
        assert_eq!(
            skipped(line),
            Some(("sets.a_b", "this kernel does not say"))
        );
        assert_eq!(skipped("ok 7 sets.a_b"), None);
        assert_eq!(skipped("not ok 7 sets.a_b # SKIP x"), None);
    }
}
