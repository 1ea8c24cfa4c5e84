//! The program with too little memory: killed wherever it is, in the middle of a transaction too, and
//! started again, with a little more each time.

use core::{fmt::Write as _, time::Duration};
use std::{process::Command, time::Instant};

use anyhow::{Result, bail, ensure};
use e2e::{bystander, folder::Folder, memory_cgroup::MemoryCgroup, program::Program};
use netns_lab::Namespace;

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const SERVICES: u16 = 6_000;
const MIB: u64 = 1 << 20;
/// Too little to begin with, enough in the end.
const LIMITS: [u64; 10] = [4, 8, 12, 16, 20, 24, 32, 48, 96, 1024];
/// How long one may take to be killed or to be done.
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
    let mut done = None;
    for limit in LIMITS {
        cgroup.limit(limit * MIB)?;
        let run = command(&["run", "--source", &source], &state);
        let log = state.path().join("log");
        let mut program = Program::start(&node, cgroup.holding(&run), &log)?;
        let started = Instant::now();
        while program.ended()?.is_none() {
            if is_settled(&node, &manifests, &state)? {
                done = Some(limit);
                break;
            }
            ensure!(started.elapsed() < BOUND, "{}", program.tail()?);
        }
        println!("{limit} MiB: {} killed so far", cgroup.kills()?);
        if done.is_some() {
            program.stop()?;
            break;
        }
    }
    let done = done.is_some();
    ensure!(done, "not even with {LIMITS:?} MiB");
    ensure!(cgroup.kills()? > 1, "{} killed", cgroup.kills()?);
    ensure!(is_settled(&node, &manifests, &state)?, "not as planned");
    let listing = node.run(bystander::listing)??;
    ensure!(listing == others, "tables of others: {listing}");
    Ok(())
}
