//! The command line.

use std::io::{self, Write as _};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};

use crate::doctor::{self, Fitness};
use crate::tally::{FAIL, PASS, SKIP, Tally};
use crate::{Case, all, json, ktap, run};

#[derive(Debug, Parser)]
#[command(
    name = "nft-selftest",
    version,
    about = "Selftests of nf_tables in the running kernel, in kselftest's format",
    after_help = "\
Examples:
  nft-selftest                     all cases, as KTAP
  nft-selftest reference. owner.   the cases of two topics
  nft-selftest --list
  nft-selftest -o json | jq '.results[] | select(.result == \"fail\")'
  nft-selftest --doctor            is this kernel fit for a Service proxy?

Each case runs in a network namespace of its own, which is gone afterwards: nothing of the host is
touched. Needs root, or user namespaces.

Exit codes: 0 all passed (some may be skipped), 1 something failed, 2 bad arguments, 4 nothing could
be run. With --doctor: 0 fit, perhaps with something to know about, 1 unfit, 4 the kernel cannot be
asked."
)]
struct Cli {
    /// Run the cases whose name (topic.case) contains one of these
    filters: Vec<String>,
    /// Print the names of the cases
    #[arg(long, conflicts_with = "doctor")]
    list: bool,
    /// Say whether this kernel is fit for a Service proxy, what is degraded, and what to do
    #[arg(long, conflicts_with = "filters")]
    doctor: bool,
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Text)]
    output: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people and for kselftest: KTAP
    Text,
    /// One object
    Json,
}

/// Runs the program.
#[must_use]
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match act(&cli) {
        Ok(code) => ExitCode::from(code),
        // Whoever read has enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::from(PASS),
        Err(error) => {
            eprintln!("nft-selftest: {error}");
            ExitCode::from(FAIL)
        }
    }
}

fn act(cli: &Cli) -> io::Result<u8> {
    let cases = chosen(&cli.filters);
    let mut out = io::stdout().lock();
    if cli.list {
        match cli.output {
            Format::Text => {
                for case in cases {
                    writeln!(out, "{case}")?;
                }
            }
            Format::Json => {
                let names: Vec<_> = cases.iter().map(|case| case.full_name()).collect();
                serde_json::to_writer_pretty(&mut out, &names)?;
                writeln!(out)?;
            }
        }
        return Ok(PASS);
    }
    if let Err(error) = netns_lab::enter_user_namespace() {
        eprintln!("nft-selftest: {error}");
        if cli.output == Format::Text && !cli.doctor {
            writeln!(out, "KTAP version 1\n1..0 # SKIP {error}")?;
        }
        return Ok(SKIP);
    }
    if cli.doctor {
        return diagnose(cli.output, &mut out);
    }
    if cases.is_empty() {
        eprintln!("nft-selftest: no case has such a name (--list prints them)");
        return Ok(2);
    }
    let mut tally = Tally::default();
    match cli.output {
        Format::Text => {
            ktap::plan(&mut out, cases.len())?;
            for (number, case) in (1..).zip(&cases) {
                let outcome = run(case);
                tally.add(&outcome);
                ktap::result(&mut out, number, case, &outcome)?;
            }
            ktap::totals(&mut out, tally)?;
        }
        Format::Json => {
            let mut results = Vec::new();
            for case in &cases {
                let outcome = run(case);
                tally.add(&outcome);
                results.push(json::result(case, &outcome));
            }
            writeln!(out, "{:#}", json::report(results, tally))?;
        }
    }
    Ok(tally.code())
}

fn diagnose(format: Format, out: &mut impl io::Write) -> io::Result<u8> {
    let diagnosis = match doctor::diagnose() {
        Ok(diagnosis) => diagnosis,
        Err(error) => {
            eprintln!("nft-selftest: {error}");
            return Ok(SKIP);
        }
    };
    match format {
        Format::Text => write!(out, "{diagnosis}")?,
        Format::Json => writeln!(out, "{:#}", json::diagnosis(&diagnosis))?,
    }
    Ok(match diagnosis.fitness() {
        Fitness::Fit | Fitness::Degraded => PASS,
        Fitness::Unfit => FAIL,
    })
}

fn chosen(filters: &[String]) -> Vec<Case> {
    let mut cases: Vec<_> = all().copied().collect();
    if !filters.is_empty() {
        cases.retain(|case| {
            let name = case.full_name();
            filters.iter().any(|filter| name.contains(filter.as_str()))
        });
    }
    cases
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn filters_are_parts_of_names() {
        let some = chosen(&["reference.".into()]);
        assert!(!some.is_empty() && some.len() < chosen(&[]).len());
        assert!(some.iter().all(|case| case.topic == "reference"));
        assert!(chosen(&["no such case".into()]).is_empty());
    }
}
