//! What is run inside guests when nothing else is asked for.

use core::time::Duration;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::build::Built;
use super::guest::COMMANDS;
use super::job::{Format, Job};
use crate::sh;

/// Scenarios that are sent through other kernels, too: one for each part of the rules.
const SCENARIOS: [&str; 8] = [
    "affinity-everywhere",
    "cluster-ip",
    "endpoint-changes",
    "external-policy",
    "load-balancer-mode",
    "masquerade-detector",
    "no-endpoints",
    "node-ports-primary",
];

const SCENARIO_TESTS: &str = "e2e:scenarios";
const KPROXY: &str = "e2e/kproxy-under-test";

/// The programs.
pub(super) struct Suite {
    selftest: PathBuf,
    packets: Option<Packets>,
}

struct Packets {
    built: Built,
    scenarios: PathBuf,
    kproxy: PathBuf,
}

impl Suite {
    /// Builds them; `packets` with those that send packets through kproxy's rules.
    pub(super) fn build(packets: bool) -> Result<Self> {
        let selftest = Built::selftest()?;
        let packets = packets.then(|| {
            let built = Built::build(&[SCENARIO_TESTS])?;
            let scenarios = built.program(SCENARIO_TESTS)?.to_path_buf();
            let kproxy = built.program(KPROXY)?.to_path_buf();
            Ok::<_, anyhow::Error>(Packets {
                built,
                scenarios,
                kproxy,
            })
        });
        Ok(Self {
            selftest,
            packets: packets.transpose()?,
        })
    }

    /// nft-selftest, which runs without libraries.
    pub(super) fn selftest(&self) -> &Path {
        &self.selftest
    }

    /// What a guest must have.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.selftest.clone()];
        if let Some(packets) = &self.packets {
            paths.extend(packets.built.paths());
            paths.push(sh::root().join("tests/scenarios"));
        }
        paths
    }

    /// What is run on a kernel that kproxy is made for.
    pub(super) fn jobs(&self) -> Vec<Job> {
        let selftest = self.selftest.display();
        let mut jobs = vec![
            job("doctor", format!("{selftest} --doctor"), 60, Format::Text),
            job("selftest", selftest.to_string(), 600, Format::Ktap),
        ];
        if let Some(packets) = &self.packets {
            let program = packets.scenarios.display();
            let names = SCENARIOS.join(" ");
            // Those with the program itself need more than busybox; the commands run it.
            let each = format!("KPROXY_SCENARIO=$s {program} scenarios_ || failed=1");
            jobs.push(job(
                "scenarios",
                format!("failed=0; for s in {names}; do {each}; done; exit $failed"),
                900,
                Format::Libtest,
            ));
        }
        jobs.extend(self.commands());
        jobs
    }

    /// What is run on a kernel that is too old.
    pub(super) fn refusals(&self) -> Vec<Job> {
        let mut doctor = job(
            "doctor",
            format!("{} --doctor", self.selftest.display()),
            60,
            Format::Text,
        );
        doctor.expected = 1;
        let check = self.packets.as_ref().map(|packets| {
            let mut check = job(
                "check",
                format!("{} check", packets.kproxy.display()),
                60,
                Format::Text,
            );
            check.expected = 2;
            check
        });
        [doctor].into_iter().chain(check).collect()
    }

    /// What is run on a kernel without IPv6.
    pub(super) fn without_ipv6(&self) -> Vec<Job> {
        let doctor = format!("{} --doctor", self.selftest.display());
        let mut jobs = vec![job("doctor", doctor, 60, Format::Text)];
        jobs.extend(self.commands());
        jobs
    }

    fn commands(&self) -> Option<Job> {
        let kproxy = self.packets.as_ref()?.kproxy.display();
        Some(job(
            "commands",
            format!("sh {COMMANDS} {kproxy}"),
            300,
            Format::Text,
        ))
    }
}

fn job(name: &str, command: String, limit: u64, format: Format) -> Job {
    Job {
        name: name.to_owned(),
        command,
        limit: Duration::from_secs(limit),
        format,
        expected: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scenarios_exist() {
        for name in SCENARIOS {
            let file = sh::root().join(format!("tests/scenarios/{name}.yaml"));
            assert!(file.is_file(), "{name}");
        }
    }
}
