//! The command line. One file per command; shared options in `options`.

mod api;
mod apply;
mod check;
mod cleanup;
mod completions;
mod demo;
mod duration;
mod exit;
mod explain;
mod feature_gates;
mod man;
mod options;
mod output;
mod plan;
mod privileges;
mod recording;
mod run;

pub use exit::Exit;
pub use options::{Global, ProxyOptions, Results, Target};
pub use output::{Format, Printer};
pub use privileges::Privileges;

use core::net::IpAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use svc_planner::object::Change;

use crate::engine::Netns;
use crate::ingest::Severity;
use crate::leftovers;
use crate::manifest::{Input, Problem, Source, Stats};
use crate::watch::AddressWatch;

/// Kubernetes Service proxy that programs nf_tables over netlink.
#[derive(Debug, Parser)]
#[command(
    name = "kproxy",
    version,
    about,
    arg_required_else_help = true,
    after_help = exit::HELP,
)]
pub struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Apply(apply::Apply),
    Check(check::CheckNode),
    Cleanup(cleanup::Cleanup),
    Completions(completions::Completions),
    Demo(demo::Demo),
    Explain(explain::Explain),
    Man(man::Man),
    Plan(plan::Plan),
    /// What `run` starts before it gives up its privileges (see `leftovers`).
    #[command(name = leftovers::HELPER_COMMAND, hide = true)]
    RemoveLegacyLeftovers,
    Run(run::Run),
}

/// Runs the program: parses the arguments, sets logging up, and returns the exit code.
#[must_use]
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed standard output or error is nothing to complain about, least of all there.
            let _ = error.print();
            return if error.use_stderr() {
                Exit::Usage.into()
            } else {
                Exit::Done.into()
            };
        }
    };
    cli.global.start_logging();
    let result = match cli.command {
        Command::Apply(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Cleanup(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Completions(command) => command.run(&mut Cli::command()),
        Command::Man(command) => command.run(&Cli::command()),
        Command::Plan(command) => command.run(),
        Command::RemoveLegacyLeftovers => leftovers::serve_helper()
            .map(|()| Exit::Done)
            .map_err(CliError::Output),
        Command::Run(command) => command.run(),
    };
    match result {
        Ok(exit) => exit.into(),
        Err(error) => {
            eprintln!("kproxy: {error}");
            Exit::Failed.into()
        }
    }
}

/// Reads manifests after the addresses of the host, and complains to standard error about what is wrong with them.
///
/// # Errors
/// [`CliError::Input`] for what cannot be read at all: to go on would be to remove everything that
/// may be in it.
fn load(
    paths: &[PathBuf],
    proxy: &ProxyOptions,
    host: Vec<IpAddr>,
    mut on_change: impl FnMut(Change),
) -> Result<Loaded, CliError> {
    let node = proxy.identity();
    for change in node.host(host) {
        on_change(change);
    }
    let mut source = Source::new(&node.name);
    let mut has_node = !node.is_needed;
    for path in paths {
        source.load(&Input::from(path.as_path()), |change| {
            has_node |= matches!(change, Change::Node(_));
            on_change(change);
        });
    }
    if !has_node && source.stats().nodes == 0 {
        eprintln!(
            "warning: no Node among the manifests: node ports are served on all addresses, as with --no-node"
        );
        on_change(node.stand_in());
        has_node = true;
    }
    let mut loaded = Loaded {
        stats: source.stats(),
        problems: 0,
        complete: true,
        has_node,
    };
    for problem in source.take_problems() {
        if problem.is_of_input() && paths.contains(&problem.file) {
            return Err(CliError::Input(Box::new(problem)));
        }
        loaded.complete &= problem.fault.severity() == Severity::Warning;
        loaded.problems += 1;
        eprintln!("{problem}");
    }
    // The process ends soon, and that returns the memory faster than piece by piece.
    core::mem::forget(source);
    Ok(loaded)
}

/// What was read.
struct Loaded {
    stats: Stats,
    /// Problems of any severity.
    problems: usize,
    /// Nothing was left out.
    complete: bool,
    /// The own Node is known, or need not be.
    has_node: bool,
}

impl Loaded {
    /// Refuses to guess what is local.
    ///
    /// # Errors
    /// [`CliError::NoNode`].
    fn with_node(self, proxy: &ProxyOptions) -> Result<Self, CliError> {
        if self.has_node {
            Ok(self)
        } else {
            Err(CliError::NoNode(proxy.identity().name))
        }
    }
}

/// The addresses of the interfaces in a network namespace.
fn host_addresses(netns: &Netns) -> Result<Vec<IpAddr>, CliError> {
    let read = AddressWatch::new(netns).and_then(|mut watch| watch.read());
    read.map_err(CliError::Addresses)
}

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CliError {
    /// The kernel.
    #[error(transparent)]
    Engine(#[from] crate::engine::EngineError),
    /// The demo.
    #[error(transparent)]
    Demo(#[from] crate::demo::DemoError),
    /// Standard output.
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
    /// The proxy of a node.
    #[error(transparent)]
    Node(#[from] crate::node::NodeError),
    /// Waiting for changes and signals.
    #[error("cannot wait for changes: {0}")]
    Watch(std::io::Error),
    /// The addresses of the host's interfaces.
    #[error("cannot read the host's addresses: {0}")]
    Addresses(std::io::Error),
    /// The manifests do not hold the own Node.
    #[error(
        "no Node {0} among the manifests (--node-name names another one, --no-node does without); nothing was changed"
    )]
    NoNode(String),
    /// A file or folder named on the command line that cannot be read.
    #[error("{}: {}; nothing was changed", .0.file.display(), .0.fault)]
    Input(Box<Problem>),
    /// `plan` beside a process at work whose saved state stays behind the tables.
    #[error(
        "a kproxy at work in this network namespace changes it faster than it saves its state; try again"
    )]
    Behind,
    /// What is done before the proxy begins.
    #[error(transparent)]
    Startup(#[from] crate::startup::StartupError),
    /// The node.
    #[error(transparent)]
    Check(#[from] crate::check::CheckError),
    /// `explain` from one IP family to the other.
    #[error("--from and --to are of different IP families")]
    Families,
    /// The planned state.
    #[error(transparent)]
    Planned(#[from] crate::explain::PlannedError),
    /// The live state.
    #[error(transparent)]
    Live(#[from] crate::explain::LiveError),
    /// A value that cannot be printed as JSON.
    #[error("JSON: {0}")]
    Json(#[from] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
