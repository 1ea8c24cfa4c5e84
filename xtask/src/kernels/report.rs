//! The results in docs/KERNEL.md.

use core::fmt::Write as _;
use std::fs;
use std::process::Command;

use anyhow::{Context, Result};

use super::Boot;
use super::guest::Report;
use crate::{apt, sh};

const BEGIN: &str = "<!-- kernels: begin -->\n";
const END: &str = "<!-- kernels: end -->\n";

/// Writes a table of all boots between the two marks.
pub(super) fn record(boots: &[Boot], reports: &[Report]) -> Result<()> {
    let path = sh::root().join("docs/KERNEL.md");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let (before, rest) = text.split_once(BEGIN).context("no mark in KERNEL.md")?;
    let (_, after) = rest.split_once(END).context("no end mark in KERNEL.md")?;
    let date = apt::output(Command::new("date").args(["-u", "+%Y-%m-%d"]))?;
    let table = table(date.trim(), boots, reports)?;
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
