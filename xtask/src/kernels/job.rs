//! What is run inside a guest, and what its output says.

use core::fmt;
use core::time::Duration;

/// A command of the guest's shell.
#[derive(Debug, Clone)]
pub(super) struct Job {
    /// One word.
    pub(super) name: String,
    /// The command, one line.
    pub(super) command: String,
    /// How long it may take.
    pub(super) limit: Duration,
    /// What it prints.
    pub(super) format: Format,
    /// The exit code that is a success.
    pub(super) expected: i32,
}

/// What a job prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// KTAP, as nft-selftest does.
    Ktap,
    /// What a Rust test program does.
    Libtest,
    /// Anything; the exit code counts.
    Text,
}

/// What became of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Outcome {
    /// The job's name.
    pub(super) job: String,
    /// Its exit code; nothing if it did not end.
    pub(super) code: Option<i32>,
    /// The exit code is the one expected.
    pub(super) good: bool,
    /// Passed, failed, skipped.
    pub(super) counts: [usize; 3],
    /// What it printed.
    pub(super) output: String,
}

impl Job {
    /// A line of the guest's list.
    pub(super) fn line(&self) -> String {
        let limit = self.limit.as_secs();
        format!("{} {limit} {}\n", self.name, self.command)
    }

    /// Finds it in what the guest sent.
    pub(super) fn outcome(&self, log: &str) -> Outcome {
        let begin = format!("\n@@ BEGIN {}\n", self.name);
        let end = format!("\n@@ END {} ", self.name);
        let rest = log.split_once(&begin).map_or("", |(_, rest)| rest);
        let (output, code) = match rest.split_once(&end) {
            Some((output, rest)) => {
                let code = rest.split_whitespace().next();
                (output, code.and_then(|code| code.parse().ok()))
            }
            None => (rest, None),
        };
        let counts = match self.format {
            Format::Ktap => ktap(output),
            Format::Libtest => libtest(output),
            Format::Text => {
                let good = code == Some(self.expected);
                [usize::from(good), usize::from(!good), 0]
            }
        };
        // kselftest's 4: everything was skipped.
        let skipped = self.format == Format::Ktap && code == Some(4);
        Outcome {
            job: self.name.clone(),
            code,
            good: code == Some(self.expected) || skipped,
            counts,
            output: output.to_owned(),
        }
    }
}

impl Outcome {
    /// Whether it ended well and did something.
    pub(super) fn is_good(&self) -> bool {
        let [passed, failed, skipped] = self.counts;
        self.good && failed == 0 && passed + skipped > 0
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [passed, failed, skipped] = self.counts;
        match self.code {
            None => f.write_str("no end"),
            Some(_) => write!(f, "{passed} passed, {failed} failed, {skipped} skipped"),
        }
    }
}

/// Counts the results of a KTAP stream.
pub(super) fn ktap(output: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for line in output.lines() {
        let which = match line {
            _ if line.starts_with("not ok ") => 1,
            _ if line.starts_with("ok ") && line.contains("# SKIP") => 2,
            _ if line.starts_with("ok ") => 0,
            _ => continue,
        };
        if let Some(count) = counts.get_mut(which) {
            *count += 1;
        }
    }
    counts
}

/// Adds up the closing lines of test programs, and what they say to have skipped.
fn libtest(output: &str) -> [usize; 3] {
    let mut counts = [0; 3];
    for line in output.lines() {
        if let Some(result) = line.strip_prefix("test result: ") {
            let words: Vec<_> = result
                .split([' ', ';'])
                .filter(|it| !it.is_empty())
                .collect();
            for (word, count) in ["passed", "failed"].into_iter().zip(&mut counts) {
                let at = words.iter().position(|it| *it == word);
                let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse::<usize>().ok());
                *count += number.unwrap_or(0);
            }
        }
        if line.starts_with("skipped: ") {
            counts[2] += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(format: Format) -> Job {
        Job {
            name: "it".into(),
            command: "/x".into(),
            limit: Duration::from_secs(60),
            format,
            expected: 0,
        }
    }

    #[test]
    fn outcomes_are_read() {
        let log = "\n@@ READY 6.1.0 3.2\n\n@@ BEGIN it\nKTAP version 1\n1..3\nok 1 a\n\
                   not ok 2 b\nok 3 c # SKIP no d\n\n@@ END it 1 9.9\n\n@@ DONE\n";
        let outcome = job(Format::Ktap).outcome(log);
        assert_eq!((outcome.code, outcome.counts), (Some(1), [1, 1, 1]));
        assert!(!outcome.is_good());
        let log = "\n@@ BEGIN it\nskipped: a: no nft\n\
                   test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out\n\
                   \n@@ END it 0 9.9\n";
        let outcome = job(Format::Libtest).outcome(log);
        assert_eq!((outcome.code, outcome.counts), (Some(0), [12, 0, 1]));
        assert!(outcome.is_good());
    }

    #[test]
    fn a_job_that_did_not_end_or_did_nothing_is_not_good() {
        let cut = job(Format::Ktap).outcome("\n@@ BEGIN it\nok 1 a\n");
        assert_eq!((cut.code, cut.is_good()), (None, false));
        let nothing = job(Format::Libtest).outcome("\n@@ BEGIN it\n\n@@ END it 0 1.0\n");
        assert!(!nothing.is_good());
        let killed = job(Format::Text).outcome("\n@@ BEGIN it\n\n@@ END it 143 1.0\n");
        assert_eq!((killed.counts, killed.is_good()), ([0, 1, 0], false));
        assert!(!job(Format::Text).outcome("").is_good());
    }
}
