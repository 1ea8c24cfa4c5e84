//! The program with too little memory: killed wherever it is, in the middle of a transaction too, and
//! started again, with a little more each time. A limit that lets it live but not get on ends with a
//! kill as well.

use core::{fmt::Write as _, time::Duration};
use std::{process::Command, thread, time::Instant};

use anyhow::{Result, bail, ensure};
use e2e::{bystander, folder::Folder, memory_cgroup::MemoryCgroup, program::Program};
use netns_lab::Namespace;

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const SERVICES: u16 = 2_000;
const MIB: u64 = 1 << 20;
/// Too little to begin with.
const LIMITS: [u64; 7] = [8, 10, 12, 14, 16, 20, 24];
/// How long it may take with each.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long it may take with enough.
const BOUND: Duration = Duration::from_secs(120);

fn manifests() -> Result<Folder> {
    let folder = Folder::new()?;
    let mut text = String::new();
    for number in 0..SERVICES {
        let [high, low] = number.to_be_bytes();
        write!(
            text,
            "apiVersion: v1
kind: Service
metadata: {{name: s{number}, namespace: default}}
spec: {{clusterIP: 10.96.{high}.{low}, ports: [{{port: 80}}]}}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {{name: s{number}, namespace: default, labels: {{kubernetes.io/service-name: s{number}}}}}
addressType: IPv4
ports: [{{port: 80}}]
endpoints: [{{addresses: [10.1.{high}.{low}]}}, {{addresses: [10.2.{high}.{low}]}}]
---
"
        )?;
    }
    folder.write("services.yaml", &text)?;
    Ok(folder)
}

fn command(words: &[&str], state: &Folder) -> Command {
    let mut command = Command::new(KPROXY);
    command.args(words).arg("--no-node");
    command.arg("--state-dir").arg(state.path());
    command
}

/// Whether the kernel holds exactly what the manifests say.
fn is_settled(node: &Namespace, manifests: &Folder, state: &Folder) -> Result<bool> {
    let folder = manifests.path().display().to_string();
    let mut plan = command(&["plan", "-f", &folder], state);
    let output = node.run(move || plan.output())??;
    match output.status.code() {
        Some(0) => Ok(true),
        Some(2) => Ok(false),
        // In between, the table changes faster than it can be read.
        Some(1) => Ok(false),
        _ => bail!("{output:?}"),
    }
}

#[test]
fn killed_for_want_of_memory_it_goes_on_when_there_is_more() -> Result<()> {
    let cgroup = match MemoryCgroup::new("little") {
        Ok(cgroup) => cgroup,
        Err(error) => {
            test_support::skip(&format!("{error:#}"));
            return Ok(());
        }
    };
    let node = Namespace::new("little-memory")?;
    let (manifests, state) = (manifests()?, Folder::new()?);
    node.run(bystander::load)??;
    let others = node.run(bystander::listing)??;
    let source = format!("dir:{}", manifests.path().display());
    let start = || -> Result<Program> {
        let run = command(&["run", "--source", &source], &state);
        let log = state.path().join("log");
        Program::start(&node, cgroup.holding(&run), &log)
    };
    for limit in LIMITS {
        cgroup.limit(limit * MIB)?;
        let mut program = start()?;
        let started = Instant::now();
        // Its end is seen by nobody but who asks.
        while program.ended()?.is_none() && started.elapsed() < PATIENCE {
            thread::sleep(Duration::from_millis(20));
        }
        program.kill()?;
        println!("{limit} MiB: {} killed so far", cgroup.kills()?);
    }
    ensure!(cgroup.kills()? > 0, "no limit of {LIMITS:?} MiB is too low");
    cgroup.limit(1024 * MIB)?;
    let mut program = start()?;
    let started = Instant::now();
    while !is_settled(&node, &manifests, &state)? {
        let ended = program.ended()?;
        ensure!(
            ended.is_none() && started.elapsed() < BOUND,
            "{ended:?}: {}",
            program.tail()?
        );
    }
    let status = program.stop()?;
    ensure!(status.success(), "{status}: {}", program.tail()?);
    ensure!(is_settled(&node, &manifests, &state)?, "not as planned");
    let listing = node.run(bystander::listing)??;
    ensure!(listing == others, "tables of others: {listing}");
    Ok(())
}
