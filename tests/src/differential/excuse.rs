//! docs/DIFFERENCES.md: which differences from kube-proxy are meant, row by row.

use core::{cell::Cell, fmt};
use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail, ensure};

use super::observe::Outcomes;
use crate::scenario::Family;

/// Reasons there may be; each must be explained in the file.
const REASONS: [&str; 9] = [
    "decided: source ranges",
    "decided: affinity scope",
    "decided: node changes",
    "late: ServiceCIDR",
    "late: node addresses",
    "late: affinity timeout",
    "conntrack: CT-4",
    "conntrack: CT-5",
    "duplicate frontend",
];
/// First cell of the table's heading.
const HEADING: &str = "scenario";

/// A probe of which not the same became.
#[derive(Debug, Clone)]
pub struct Difference {
    /// Scenario.
    pub scenario: String,
    /// Family.
    pub family: Family,
    /// What the step was about.
    pub step: String,
    /// The probe's name.
    pub probe: String,
    /// The probe.
    pub sent: String,
    /// What became of it with kube-proxy.
    pub theirs: Outcomes,
    /// And with ours.
    pub ours: Outcomes,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            scenario,
            family,
            step,
            probe,
            sent,
            theirs,
            ours,
        } = self;
        write!(
            f,
            "{scenario} ({family}), {step}: {probe}, {sent}\n  kube-proxy: {theirs}\n  kproxy:     {ours}"
        )
    }
}

/// All rows of the file.
#[derive(Debug, Default)]
pub struct Excuses {
    rows: Vec<Row>,
}

#[derive(Debug)]
struct Row {
    scenario: String,
    family: Option<Family>,
    probe: String,
    theirs: Vec<Outcomes>,
    ours: Outcomes,
    reason: String,
    excused: Cell<usize>,
}

impl Excuses {
    /// Reads the file.
    ///
    /// # Errors
    /// When a row is malformed or gives no reason that there may be.
    pub fn read() -> Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/DIFFERENCES.md");
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).context("docs/DIFFERENCES.md")
    }

    fn parse(text: &str) -> Result<Self> {
        let cells = |line: &str| -> Option<Vec<String>> {
            let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
            Some(
                inner
                    .split('|')
                    .map(|cell| cell.trim().to_owned())
                    .collect(),
            )
        };
        let mut lines = text
            .lines()
            .skip_while(|line| cells(line).is_none_or(|cells| cells[0] != HEADING));
        lines.next().context("no table of differences")?;
        let table = lines.skip(1).map_while(cells);
        let rows = table
            .map(|cells| Row::parse(&cells).with_context(|| cells.join(" | ")))
            .collect::<Result<Vec<_>>>()?;
        for row in &rows {
            let explained = format!("`{}`", row.reason);
            ensure!(text.contains(&explained), "{} is not explained", row.reason);
        }
        Ok(Self { rows })
    }

    /// Whether a row excuses the difference; counts it.
    #[must_use]
    pub fn excuse(&self, difference: &Difference) -> bool {
        let mut rows = self.rows.iter().filter(|row| row.fits(difference));
        rows.next().is_some_and(|row| {
            row.excused.set(row.excused.get() + 1);
            true
        })
    }

    /// Whether a row would excuse the difference.
    #[must_use]
    pub fn knows(&self, difference: &Difference) -> bool {
        self.rows.iter().any(|row| row.fits(difference))
    }

    /// Counts a probe of which the same became, where kube-proxy may do either.
    pub fn witness(&self, same: &Difference) {
        let rows = self.rows.iter().filter(|row| row.theirs.len() > 1);
        for row in rows.filter(|row| row.fits(same)) {
            row.excused.set(row.excused.get() + 1);
        }
    }

    /// A line for each row: how many probes it excused.
    #[must_use]
    pub fn summary(&self) -> Vec<String> {
        let rows = self.rows.iter();
        rows.map(|row| {
            let (scenario, probe) = (&row.scenario, &row.probe);
            format!(
                "{scenario}, {probe}: excused {} ({})",
                row.excused.get(),
                row.reason
            )
        })
        .collect()
    }

    /// Rows that excused nothing.
    #[must_use]
    pub fn idle(&self) -> Vec<String> {
        let rows = self.rows.iter().filter(|row| row.excused.get() == 0);
        rows.map(|row| format!("{}, {}", row.scenario, row.probe))
            .collect()
    }
}

impl Row {
    fn parse(cells: &[String]) -> Result<Self> {
        let [scenario, probe, theirs, ours, reason] = cells else {
            bail!("five cells are wanted");
        };
        let (scenario, family) = match scenario.split_once(' ') {
            None => (scenario.as_str(), None),
            Some((scenario, "IPv4")) => (scenario, Some(Family::Ipv4)),
            Some((scenario, "IPv6")) => (scenario, Some(Family::Ipv6)),
            Some((_, other)) => bail!("no family is named {other}"),
        };
        let reason = reason.trim_matches('`');
        ensure!(REASONS.contains(&reason), "no reason is named {reason}");
        Ok(Self {
            scenario: scenario.to_owned(),
            family,
            probe: probe.clone(),
            theirs: theirs.split(" or ").map(Outcomes::parse).collect(),
            ours: Outcomes::parse(ours),
            reason: reason.to_owned(),
            excused: Cell::new(0),
        })
    }

    /// kube-proxy may happen to do the same where it may do either.
    fn fits(&self, difference: &Difference) -> bool {
        self.scenario == difference.scenario
            && self.family.is_none_or(|family| family == difference.family)
            && self.probe == difference.probe
            && self.ours == difference.ours
            && self.theirs.contains(&difference.theirs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
# Differences
`duplicate frontend`: either may win

| scenario | probe | kube-proxy | kproxy | reason |
|---|---|---|---|---|
| shared | A1 | a 80 from pod or b 80 from pod | a 80 from pod | `duplicate frontend` |
| shared IPv6 | A2 | silent | rejected by node | `duplicate frontend` |

| other | table |
";

    fn difference(probe: &str, family: Family, theirs: &str, ours: &str) -> Difference {
        Difference {
            scenario: "shared".to_owned(),
            family,
            step: String::new(),
            probe: probe.to_owned(),
            sent: String::new(),
            theirs: Outcomes::parse(theirs),
            ours: Outcomes::parse(ours),
        }
    }

    #[test]
    fn rows_excuse_what_they_name_and_nothing_else() {
        let excuses = Excuses::parse(FILE).unwrap();
        let excused =
            |probe, family, theirs, ours| excuses.excuse(&difference(probe, family, theirs, ours));
        assert!(excused(
            "A1",
            Family::Ipv4,
            "b 80 from pod",
            "a 80 from pod"
        ));
        assert!(!excused(
            "A1",
            Family::Ipv4,
            "b 80 from pod",
            "b 80 from pod"
        ));
        assert!(!excused(
            "A1",
            Family::Ipv4,
            "c 80 from pod",
            "a 80 from pod"
        ));
        assert!(!excused(
            "A3",
            Family::Ipv4,
            "b 80 from pod",
            "a 80 from pod"
        ));
        assert!(!excused("A2", Family::Ipv4, "silent", "rejected by node"));
        assert_eq!(excuses.idle(), ["shared, A2"]);
        assert!(excused("A2", Family::Ipv6, "silent", "rejected by node"));
        assert!(excuses.idle().is_empty());
    }

    #[test]
    fn reasons_are_known_and_explained() {
        let unknown = FILE.replace("duplicate frontend", "it is better");
        Excuses::parse(&unknown).unwrap_err();
        let unexplained = FILE.replace("`duplicate frontend`: ", "");
        assert!(
            Excuses::parse(&unexplained).is_ok(),
            "the rows themselves name it"
        );
        Excuses::parse("nothing").unwrap_err();
    }
}
