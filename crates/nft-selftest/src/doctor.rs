//! Whether this kernel is fit for a Service proxy: what it lacks, what that costs, what to do. Takes
//! less than two seconds.

use core::fmt;

use nft_batch::{Advice, Capabilities, Connection, Severity};
use serde::Serialize;

use crate::{Stop, all, run};

/// Cases that a proxy stands or falls with.
const ESSENTIAL: &[&str] = &[
    "reference.elements_are_added_by_name_or_by_id_in_the_same_batch",
    "replace.a_row_is_replaced_by_deleting_and_adding_its_key_in_one_batch",
    "abort.a_failed_batch_leaves_nothing",
    "numgen.a_random_number_goes_into_a_part_of_the_key",
    "scratch.the_priority_carries_a_value_from_rule_to_rule",
    "dynset.an_update_keeps_the_data_and_renews_the_timeout",
];

/// What was found.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// Release of the running kernel.
    pub kernel: String,
    /// What is not as it should be, the worst first.
    pub findings: Vec<Finding>,
}

/// One thing that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Whether Services can be served all the same.
    pub fatal: bool,
    /// What is missing or wrong.
    pub what: String,
    /// What follows from it.
    pub effect: String,
    /// What can be done.
    pub remedy: String,
}

/// The verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fitness {
    /// All is there.
    Fit,
    /// Services are served; something is slower, or less safe.
    Degraded,
    /// They are not.
    Unfit,
}

impl Fitness {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Fit => "fit",
            Self::Degraded => "degraded",
            Self::Unfit => "unfit",
        }
    }
}

impl Diagnosis {
    /// The verdict.
    #[must_use]
    pub fn fitness(&self) -> Fitness {
        match self.findings.first() {
            None => Fitness::Fit,
            _ if self.findings.iter().any(|finding| finding.fatal) => Fitness::Unfit,
            Some(_) => Fitness::Degraded,
        }
    }
}

/// Looks, in a namespace of its own.
///
/// # Errors
/// When no namespace can be made, or the kernel cannot be asked at all.
pub fn diagnose() -> Result<Diagnosis, String> {
    let namespace = netns_lab::Namespace::new("doctor").map_err(|error| error.to_string())?;
    let asked = namespace.run(|| {
        let mut connection = Connection::open().map_err(|error| error.to_string())?;
        Capabilities::probe(&mut connection).map_err(|error| error.to_string())
    });
    let can = asked.map_err(|error| error.to_string())??;
    let mut findings: Vec<_> = can.advice().into_iter().map(Finding::from).collect();
    if !netns_lab::has_ipv6() {
        findings.push(Finding {
            fatal: false,
            what: "the kernel has no IPv6".into(),
            effect: "Services are served over IPv4 alone".into(),
            remedy: "boot without ipv6.disable=1 if IPv6 is wanted".into(),
        });
    }
    // Where expressions are missing, that says it better.
    if findings.iter().all(|finding| !finding.fatal) {
        findings.extend(essentials());
    }
    findings.sort_by_key(|finding| !finding.fatal);
    Ok(Diagnosis {
        kernel: can.kernel.release,
        findings,
    })
}

fn essentials() -> impl Iterator<Item = Finding> {
    let essential = all().filter(|case| ESSENTIAL.contains(&case.full_name().as_str()));
    essential.filter_map(|case| match run(case).stop? {
        Stop::Skip(_) => None,
        Stop::Fail(reason) => Some(Finding {
            fatal: true,
            what: format!("{case} fails: {reason}"),
            effect: "rules of a Service proxy do not do what they should".into(),
            remedy: "run nft-selftest for all of it, and report it".into(),
        }),
    })
}

impl From<Advice> for Finding {
    fn from(advice: Advice) -> Self {
        Self {
            fatal: advice.severity == Severity::Fatal,
            what: advice.what,
            effect: advice.effect.into(),
            remedy: advice.remedy.into(),
        }
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Linux {}: {}", self.kernel, self.fitness().name())?;
        for finding in &self.findings {
            let mark = if finding.fatal { "unfit" } else { "degraded" };
            writeln!(f, "{mark}: {}", finding.what)?;
            writeln!(f, "    effect: {}", finding.effect)?;
            writeln!(f, "    remedy: {}", finding.remedy)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn essential_cases_exist() {
        for name in ESSENTIAL {
            assert!(all().any(|case| case.full_name() == *name), "{name}");
        }
    }

    #[test]
    fn the_worst_finding_decides() {
        let with = |findings: &[bool]| Diagnosis {
            kernel: String::new(),
            findings: findings
                .iter()
                .map(|&fatal| Finding {
                    fatal,
                    what: String::new(),
                    effect: String::new(),
                    remedy: String::new(),
                })
                .collect(),
        };
        assert_eq!(with(&[]).fitness(), Fitness::Fit);
        assert_eq!(with(&[false]).fitness(), Fitness::Degraded);
        assert_eq!(with(&[false, true]).fitness(), Fitness::Unfit);
    }
}
