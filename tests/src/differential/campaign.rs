//! Many trials with one control plane.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail, ensure};
use proptest::{
    strategy::{Strategy as _, ValueTree as _},
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};
use svc_planner::config::NoLocalEndpoint;

use super::{Excuses, History, Kproxy, Report, Trial, histories, run};
use crate::{control_plane::ControlPlane, scenario::Family};

/// How many smaller histories are tried when one shows a difference.
const SHRINKS: u32 = 40;
/// One or the other.
const FAMILIES: [Family; 2] = [Family::Ipv4, Family::Ipv6];

/// A control plane, what is excused, and what came of the trials so far.
#[derive(Debug)]
pub struct Campaign {
    control: ControlPlane,
    kproxy: Option<Kproxy>,
    /// Prints what became of every probe.
    pub verbose: bool,
    excuses: Excuses,
    compared: usize,
    excused: usize,
    failures: Vec<String>,
}

impl Campaign {
    /// Starts a control plane. With the program `kproxy`, both proxies watch its API server; else
    /// ours reads copies of what is there.
    ///
    /// # Errors
    /// When it does not start, or docs/DIFFERENCES.md is malformed.
    pub fn start(kproxy: Option<Kproxy>) -> Result<Self> {
        Ok(Self {
            kproxy,
            verbose: false,
            excuses: Excuses::read()?,
            control: ControlPlane::start()?,
            compared: 0,
            excused: 0,
            failures: Vec::new(),
        })
    }

    /// Runs scenario files, each for both families. One that cannot be run is a failure, too.
    pub fn scenarios(&mut self, files: &[PathBuf]) {
        for file in files {
            for family in FAMILIES {
                if let Err(error) = self.scenario(file, family) {
                    self.fail(format!("{} ({family}): {error:#}", file.display()));
                }
            }
        }
    }

    fn scenario(&mut self, file: &Path, family: Family) -> Result<()> {
        let started = Instant::now();
        let trial = Trial::read(file, family)?;
        if trial.node.no_local_endpoint != NoLocalEndpoint::default() {
            println!(
                "{} ({family}): kube-proxy cannot be so configured",
                trial.name
            );
            return Ok(());
        }
        let report = self.run(&trial)?;
        println!(
            "{} ({family}): {} compared, {} excused, {} differ, {} objects refused, {:.1} s",
            trial.name,
            report.compared,
            report.excused,
            report.differences.len(),
            report.refused.len(),
            started.elapsed().as_secs_f32()
        );
        for refused in &report.refused {
            println!("  refused by the API server: {refused}");
        }
        for same in report.same.iter().filter(|_| self.verbose) {
            println!(
                "  {}: {}, {}: {}",
                same.step, same.probe, same.sent, same.ours
            );
        }
        self.count(&report);
        for difference in &report.differences {
            self.fail(difference.to_string());
        }
        Ok(())
    }

    /// Says it at once, as a run is long, and again at the end.
    fn fail(&mut self, failure: String) {
        println!("{failure}");
        self.failures.push(failure);
    }

    /// Runs `count` made-up histories; `seed` makes the first, the number after it the next. One
    /// that shows a difference is made smaller.
    pub fn random(&mut self, count: u64, seed: u64) {
        for seed in seed..seed.saturating_add(count) {
            let started = Instant::now();
            let before = self.compared;
            let family = FAMILIES[usize::from(seed % 2 == 1)];
            if let Err(error) = self.history(seed, family) {
                self.fail(format!("random, seed {seed} ({family}): {error:#}"));
            }
            println!(
                "random, seed {seed} ({family}): {} compared, {:.1} s",
                self.compared - before,
                started.elapsed().as_secs_f32()
            );
        }
    }

    fn history(&mut self, seed: u64, family: Family) -> Result<()> {
        let config = Config {
            failure_persistence: None,
            max_shrink_iters: SHRINKS,
            ..Config::default()
        };
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let mut runner = TestRunner::new_with_rng(config, random);
        let tree = histories()
            .new_tree(&mut runner)
            .map_err(|reason| anyhow::anyhow!("no history: {reason}"))?;
        let whole = self.one(&tree.current(), family)?;
        self.count(&whole);
        if whole.differences.is_empty() {
            return Ok(());
        }
        println!("random, seed {seed} ({family}): differs, is made smaller");
        for difference in &whole.differences {
            println!("{difference}");
        }
        let smallest = runner.run_one(tree, |history| {
            let report = self.one(&history, family);
            let report = report.map_err(|error| TestCaseError::reject(format!("{error:#}")))?;
            if report.differences.is_empty() {
                return Ok(());
            }
            let differences = report.differences.iter().map(ToString::to_string);
            Err(TestCaseError::fail(
                differences.collect::<Vec<_>>().join("\n"),
            ))
        });
        let found = match smallest {
            Err(TestError::Fail(reason, history)) => {
                format!("{reason}\n{}", shown(&history.trial(family)?))
            }
            // It does not come back every time.
            _ => {
                let differences = whole.differences.iter().map(ToString::to_string);
                differences.collect::<Vec<_>>().join("\n")
            }
        };
        self.fail(format!("random, seed {seed} ({family}): {found}"));
        Ok(())
    }

    fn one(&self, history: &History, family: Family) -> Result<Report> {
        self.run(&history.trial(family)?)
    }

    fn run(&self, trial: &Trial) -> Result<Report> {
        run(&self.control, self.kproxy.as_ref(), trial, &self.excuses)
    }

    const fn count(&mut self, report: &Report) {
        self.compared += report.compared;
        self.excused += report.excused;
    }

    /// The verdict; with `whole`, a row of docs/DIFFERENCES.md that excused nothing is a failure.
    ///
    /// # Errors
    /// All differences.
    pub fn finish(self, whole: bool) -> Result<()> {
        for line in self.excuses.summary() {
            println!("{line}");
        }
        let Self {
            compared,
            excused,
            failures,
            excuses,
            ..
        } = self;
        println!(
            "{compared} probes compared, {excused} excused, {} differ",
            failures.len()
        );
        if !failures.is_empty() {
            bail!("{}", failures.join("\n\n"));
        }
        ensure!(compared > 0, "nothing was compared");
        let idle = excuses.idle();
        ensure!(
            !whole || idle.is_empty(),
            "rows of docs/DIFFERENCES.md that excuse nothing: {}",
            idle.join("; ")
        );
        Ok(())
    }
}

/// Scenario files by name, all without names.
///
/// # Errors
/// When there is none of a name.
pub fn scenario_files(names: &[String]) -> Result<Vec<PathBuf>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    if names.is_empty() {
        let entries = fs::read_dir(&folder)?;
        let mut files = entries
            .map(|entry| Ok(entry?.path()))
            .collect::<Result<Vec<_>>>()?;
        files.sort();
        return Ok(files);
    }
    let files = names
        .iter()
        .map(|name| folder.join(name).with_extension("yaml"));
    let files: Vec<_> = files.collect();
    for file in &files {
        ensure!(file.is_file(), "no scenario {}", file.display());
    }
    Ok(files)
}

/// A history as steps of a scenario file.
fn shown(trial: &Trial) -> String {
    let mut text = format!("node: {:?}\n", trial.node);
    for step in &trial.steps {
        for (file, manifest) in &step.write {
            text.push_str(&format!("--- write {file}\n{manifest}"));
        }
        for file in &step.remove {
            text.push_str(&format!("--- remove {file}\n"));
        }
    }
    text
}
