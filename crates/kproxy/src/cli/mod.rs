//! The command line. One file per command; shared options in `options`.

mod api;
mod apply;
mod check;
mod cleanup;
mod completions;
mod demo;
mod drop_in;
mod duration;
mod exit;
mod explain;
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
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use svc_planner::object::Change;

use crate::ingest::Severity;
use crate::leftovers;
use crate::manifest::{Input, Problem, Source, Stats};
use crate::netns::Netns;
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
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let in_cluster = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some();
    match Meant::by(&arguments, in_cluster) {
        Meant::Command => commands(),
        Meant::DropIn { skip } => {
            let program = arguments.first().cloned();
            let rest = arguments.into_iter().skip(skip);
            drop_in::main(program.into_iter().chain(rest))
        }
        Meant::DropInHelp => {
            let program = arguments.into_iter().take(1);
            drop_in::main(program.chain(["--help".into()]))
        }
        Meant::Help => {
            // A closed standard output is nothing to complain about.
            let _ = all().print_long_help();
            Exit::Done.into()
        }
        Meant::Nothing => {
            eprint!("{}", all().render_help());
            Exit::Usage.into()
        }
    }
}

/// What arguments ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meant {
    /// One of the commands.
    Command,
    /// To run as kube-proxy is run, by the arguments from `skip` on.
    DropIn { skip: usize },
    /// Its help.
    DropInHelp,
    /// The list of commands.
    Help,
    /// Nothing, where that means nothing.
    Nothing,
}

impl Meant {
    /// Without a command it is kube-proxy's command line; without any argument, too, in a Pod or if that is what
    /// the program is called.
    fn by(arguments: &[OsString], in_cluster: bool) -> Self {
        let program = arguments.first().map(Path::new).and_then(Path::file_name);
        let as_theirs = program.is_some_and(|name| name == "kube-proxy");
        let is_command = |word: &str| Cli::command().find_subcommand(word).is_some();
        let words: Vec<_> = arguments
            .iter()
            .skip(1)
            .filter_map(|it| it.to_str())
            .collect();
        match *words {
            [] if in_cluster || as_theirs => Self::DropIn { skip: 1 },
            [] => Self::Nothing,
            ["-h" | "--help" | "help"] if as_theirs => Self::DropInHelp,
            ["-h" | "--help" | "help"] => Self::Help,
            [drop_in::NAME, ..] => Self::DropIn { skip: 2 },
            ["help", drop_in::NAME] => Self::DropInHelp,
            ["-V", ..] => Self::Command,
            [first, ..] if first.starts_with('-') => {
                // Options of all commands may stand before one.
                let general =
                    |word: &&&str| matches!(**word, "--verbose" | "--log-json") || is_verbose(word);
                let command = words.iter().find(|word| !general(word));
                match command {
                    Some(word) if is_command(word) => Self::Command,
                    _ => Self::DropIn { skip: 1 },
                }
            }
            [first, ..] if as_theirs && first != "help" && !is_command(first) => {
                Self::DropIn { skip: 1 }
            }
            _ => Self::Command,
        }
    }
}

/// `-v`, `-vv` …
fn is_verbose(word: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| !letters.is_empty() && letters.bytes().all(|it| it == b'v'))
}

/// All there is, for help, the manual page and completions.
fn all() -> clap::Command {
    // What all commands have is not added to one that has another -v.
    let general = |argument: clap::Arg| argument.global(false);
    Cli::command()
        .mut_args(general)
        .subcommand(drop_in::command())
}

/// Prints why arguments are wrong, or the help that they ask for.
fn usage(error: &clap::Error) -> ExitCode {
    // A closed standard output or error is nothing to complain about, least of all there.
    let _ = error.print();
    if error.use_stderr() {
        Exit::Usage.into()
    } else {
        Exit::Done.into()
    }
}

fn commands() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    cli.global.start_logging();
    let result = match cli.command {
        Command::Apply(command) => command.run(),
        Command::Check(command) => command.run(),
        Command::Cleanup(command) => command.run(),
        Command::Demo(command) => command.run(),
        Command::Explain(command) => command.run(),
        Command::Completions(command) => command.run(&mut all()),
        Command::Man(command) => command.run(&all()),
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
    /// A part that works beside the engine.
    #[error(transparent)]
    Start(#[from] crate::netns::StartError),
    /// The demo.
    #[error(transparent)]
    Demo(#[from] crate::demo::DemoError),
    /// Standard output.
    #[error("standard output: {0}")]
    Output(#[from] std::io::Error),
    /// kube-proxy's flags and file.
    #[error(transparent)]
    Config(#[from] crate::config::ConfigError),
    /// A value of one of kube-proxy's flags.
    #[error(transparent)]
    Flag(#[from] crate::config::FlagError),
    /// A value of one of our own.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// A file or folder.
    #[error("{}: {error}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
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
        drop_in::command().debug_assert();
        all().debug_assert();
    }

    #[test]
    fn without_a_command_it_is_kube_proxy() {
        let meant = |line: &str, in_cluster| {
            let arguments = line.split_whitespace().map(OsString::from);
            Meant::by(&arguments.collect::<Vec<_>>(), in_cluster)
        };
        for line in [
            "kproxy --config=/c --hostname-override=a",
            "kproxy --config /c -v 2",
            "kproxy -v=2 --config /c",
            "kproxy -v 2",
            "kproxy --v=2",
            "kproxy --version",
            "kproxy --cleanup",
        ] {
            assert_eq!(meant(line, false), Meant::DropIn { skip: 1 }, "{line}");
        }
        assert_eq!(meant("kproxy proxy -h", false), Meant::DropIn { skip: 2 });
        assert_eq!(meant("kproxy", true), Meant::DropIn { skip: 1 });
        assert_eq!(meant("kproxy", false), Meant::Nothing);
        assert_eq!(meant("kproxy help proxy", false), Meant::DropInHelp);
        assert_eq!(meant("kproxy --help", true), Meant::Help);
        for line in ["", "--config=/c", "extra", "-v 2 -h"] {
            let line = format!("/usr/local/bin/kube-proxy {line}");
            assert_eq!(meant(&line, false), Meant::DropIn { skip: 1 }, "{line}");
        }
        for line in ["-h", "--help", "help", "help proxy"] {
            assert_eq!(
                meant(&format!("kube-proxy {line}"), false),
                Meant::DropInHelp
            );
        }
        assert_eq!(meant("kube-proxy cleanup", false), Meant::Command);
        for line in [
            "kproxy run --source dir:/a",
            "kproxy -v run --source dir:/a",
            "kproxy -vv --log-json apply -f x",
            "kproxy help apply",
            "kproxy -V",
            "kproxy frobnicate",
        ] {
            assert_eq!(meant(line, true), Meant::Command, "{line}");
        }
    }
}
