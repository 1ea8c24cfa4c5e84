//! The program is killed at random moments of a churn; the next one finds its way.

use core::{fmt::Write as _, net::SocketAddr, time::Duration};
use std::{
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, Output},
    thread,
    time::Instant,
};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::{
    bystander,
    dice::{self, Dice},
    folder::Folder,
    program::Program,
    requests::{topology, under_requests},
};
use netns_lab::Topology;

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");
const NODE: &str = "apiVersion: v1
kind: Node
metadata: {name: node-a}
status:
  addresses: [{type: InternalIP, address: 192.168.0.2}, {type: InternalIP, address: '2001:db8::1'}]
";
const SIGKILL: i32 = 9;
const KILLS: usize = 10;
/// Services that come, go and change; one more is always served.
const SERVICES: u64 = 40;
const PORT: u16 = 80;
/// How long it may take until all is in force.
const SETTLED: Duration = Duration::from_secs(60);

/// A Service of both families and its slices, with at least one endpoint of each if it is the one always
/// served.
fn manifest(number: u64, dice: &mut Dice) -> Result<String> {
    let sticky = number != 0 && dice.below(4) == 0;
    let affinity = if sticky { "ClientIP" } else { "None" };
    let (kind, node_port) = match dice.below(3) {
        0 => ("NodePort", format!(", nodePort: {}", 30_000 + number)),
        _ => ("ClusterIP", String::new()),
    };
    let mut text = format!(
        "apiVersion: v1
kind: Service
metadata: {{name: s{number}, namespace: default}}
spec:
  type: {kind}
  clusterIP: 172.30.1.{number}
  clusterIPs: [172.30.1.{number}, 'fd00:10:96::1:{number:x}']
  sessionAffinity: {affinity}
  ports:
    - {{name: tcp, protocol: TCP, port: 80{node_port}}}
    - {{name: udp, protocol: UDP, port: 80{node_port}}}
"
    );
    for (family, net) in [("IPv4", "10.0.1."), ("IPv6", "fd00:10::1:")] {
        write!(
            text,
            "---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata:
  name: s{number}-{name}
  namespace: default
  labels: {{kubernetes.io/service-name: s{number}}}
addressType: {family}
ports: [{{name: tcp, protocol: TCP, port: 80}}, {{name: udp, protocol: UDP, port: 80}}]
endpoints:
",
            name = family.to_lowercase()
        )?;
        let mut pods: Vec<_> = (1..=3).filter(|_| dice.below(2) == 0).collect();
        if number == 0 && pods.is_empty() {
            pods.push(1 + dice.below(3));
        }
        for pod in &pods {
            writeln!(text, "  - {{addresses: ['{net}{pod}']}}")?;
        }
        if pods.is_empty() {
            text.truncate(text.len() - 1);
            text.push_str(" []\n");
        }
    }
    Ok(text)
}

/// Changes a few files.
fn change(folder: &Folder, dice: &mut Dice) -> Result<()> {
    for _ in 0..=dice.below(5) {
        let number = dice.below(SERVICES);
        let name = format!("s{number}.yaml");
        let is_there = folder.path().join(&name).exists();
        if number != 0 && is_there && dice.below(4) == 0 {
            folder.remove(&name)?;
        } else {
            folder.write(&name, &manifest(number, dice)?)?;
        }
    }
    Ok(())
}

fn arguments(command: &mut Command, state: &Path) {
    command
        .args([
            "--node-name",
            "node-a",
            "--cluster-cidr",
            "10.0.0.0/8,fd00:10::/64",
        ])
        .arg("--state-dir")
        .arg(state);
}

fn start(topology: &Topology, manifests: &Folder, state: &Folder) -> Result<Program> {
    let mut source = std::ffi::OsString::from("dir:");
    source.push(manifests.path());
    let mut command = Command::new(KPROXY);
    command
        .args(["run", "--seccomp=kill", "--source"])
        .arg(source);
    arguments(&mut command, state.path());
    Program::start(topology.node(), command, &state.path().join("log"))
}

/// What would change: compares with the kernel row by row.
fn plan(topology: &Topology, manifests: &Folder, state: &Folder) -> Result<Output> {
    let mut command = Command::new(KPROXY);
    command.arg("plan").arg("-f").arg(manifests.path());
    arguments(&mut command, state.path());
    Ok(topology.node().run(move || command.output())??)
}

/// Waits until nothing would change any more.
fn settle(
    topology: &Topology,
    manifests: &Folder,
    state: &Folder,
    program: &mut Program,
) -> Result<()> {
    let started = Instant::now();
    loop {
        let output = plan(topology, manifests, state)?;
        if output.status.code() == Some(0) {
            return Ok(());
        }
        if let Some(status) = program.ended()? {
            bail!("{status}: {}", program.tail()?);
        }
        ensure!(
            started.elapsed() < SETTLED,
            "still to change: {output:?}\n{}",
            program.tail()?
        );
    }
}

/// Changes, kills at some moment, starts again; at the end all is as it should be.
fn churn(topology: &Topology, manifests: &Folder, state: &Folder, dice: &mut Dice) -> Result<()> {
    let mut program = start(topology, manifests, state)?;
    settle(topology, manifests, state, &mut program)?;
    for kill in 1..=KILLS {
        let until = Instant::now() + Duration::from_millis(dice.below(600));
        while Instant::now() < until {
            change(manifests, dice)?;
            // The moment is what is random here.
            thread::sleep(Duration::from_millis(dice.below(25)));
        }
        change(manifests, dice)?;
        let status = program.kill()?;
        ensure!(
            status.signal() == Some(SIGKILL),
            "{status}: {}",
            program.tail()?
        );
        change(manifests, dice)?;
        program = start(topology, manifests, state)?;
        // Sometimes it is given the time to find its way, sometimes it is killed meanwhile.
        if kill % 3 == 0 {
            settle(topology, manifests, state, &mut program)
                .with_context(|| format!("kill {kill}"))?;
        }
    }
    settle(topology, manifests, state, &mut program)?;
    let status = program.stop()?;
    ensure!(status.success(), "{status}: {}", program.tail()?);
    // And a process that knows nothing of all that agrees with what the last one wrote down.
    let output = plan(topology, manifests, state)?;
    ensure!(output.status.code() == Some(0), "{output:?}");
    Ok(())
}

#[test]
fn killed_at_any_moment_it_goes_on_and_no_request_is_lost() -> Result<()> {
    let seed = dice::seed()?;
    println!("KPROXY_SEED={seed}");
    let mut dice = Dice::new(seed);
    let (topology, manifests, state) = (topology(PORT)?, Folder::new()?, Folder::new()?);
    manifests.write("node.yaml", NODE)?;
    for number in 0..SERVICES / 2 {
        let name = format!("s{number}.yaml");
        manifests.write(&name, &manifest(number, &mut dice)?)?;
    }
    // Served before anybody asks.
    let mut first = start(&topology, &manifests, &state)?;
    settle(&topology, &manifests, &state, &mut first)?;
    first.stop()?;
    topology.node().run(bystander::load)??;
    let others = topology.node().run(bystander::listing)??;
    let four = SocketAddr::new("172.30.1.0".parse()?, PORT);
    let six = SocketAddr::new("fd00:10:96::1:0".parse()?, PORT);
    let mut answered = [0; 2];
    answered[0] = under_requests(&topology, four, |_| {
        answered[1] = under_requests(&topology, six, |_| {
            churn(&topology, &manifests, &state, &mut dice)
        })?;
        Ok(())
    })?;
    println!("{answered:?} requests");
    ensure!(
        answered.iter().all(|it| *it > 200),
        "only {answered:?} requests"
    );
    let listing = topology.node().run(bystander::listing)??;
    ensure!(listing == others, "tables of others: {listing}");
    Ok(())
}
