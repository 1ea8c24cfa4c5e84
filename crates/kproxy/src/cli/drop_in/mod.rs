//! `kproxy --config …`: the command line of kube-proxy, for its DaemonSet.

mod pflag;
mod reload;
mod usage;
mod version;

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Arg, ArgAction, Args, Command, FromArgMatches as _};
use svc_planner::plan::Family;

use self::reload::Reload;
use self::usage::UsageError;
use super::options::Beyond;
use super::recording::RecordingOptions;
use super::run::SourceSpec;
use super::{CliError, Exit, Privileges, Target, cleanup};
use crate::config::{
    Complete, ConfigError, Configz, FLAGS, Flag, FlagError, FlagKind, Given, Logging, Standing,
    boolean,
};
use crate::logging::Logs;
use crate::node::{self, NodeError, Order, Settings, SiteSettings};
use crate::startup;
use crate::statusz::Audience;
use crate::watch::Signals;

/// Name of the command when it is given.
pub(super) const NAME: &str = "proxy";

/// What kube-proxy has no name for.
#[derive(Debug, Clone, Args)]
struct Own {
    /// Where Services come from: `api`, the API server, or `dir:PATH`, a folder of YAML and JSON files,
    /// watched
    #[arg(long, value_name = "api|dir:PATH", default_value = "api")]
    source: SourceSpec,

    /// Refuse a file with fields that are unknown or there twice, instead of warning of them
    #[arg(long)]
    strict_config: bool,

    /// Who may look at /statusz of --metrics-bind-address, a page for people that lists every Service
    #[arg(
        long,
        value_enum,
        value_name = "local|all|off",
        default_value_t,
        hide_possible_values = true
    )]
    statusz: Audience,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    beyond: Beyond,

    #[command(flatten)]
    privileges: Privileges,

    #[command(flatten)]
    recording: RecordingOptions,

    /// Own the tables: whoever else changes them, nft included, is refused (EPERM). Linux 6.9
    #[arg(long)]
    table_owner: bool,
}

/// The command, for parsing, help, the manual page and completions.
pub(super) fn command() -> Command {
    let command = Command::new(NAME)
        .disable_version_flag(true)
        .args_override_self(true)
        .after_help(
            "Examples:
  kproxy --config=/var/lib/kube-proxy/config.conf --hostname-override=$(NODE_NAME)
  kproxy --kubeconfig=/etc/kubernetes/proxy.conf --cluster-cidr=10.244.0.0/16 --v=2
  kproxy --config=config.conf --write-config-to=/dev/stdout

With --config only --hostname-override, --master, flags about the log and those about what to do count;
others are named in a warning.

Exit codes:
  0   done, or asked to end
  1   failed, or wrong arguments",
        );
    let flags = FLAGS.iter().map(argument);
    let command = command.next_help_heading("kube-proxy's flags").args(flags);
    Own::augment_args(command.next_help_heading("kproxy's own")).about(
        "Run in place of kube-proxy, with its flags and its file: the command when none is given",
    )
}

/// One of kube-proxy's flags.
fn argument(flag: &'static Flag) -> Arg {
    let mut help = flag.help.to_owned();
    match flag.standing() {
        Standing::Accepted(instead) if !help.is_empty() => {
            help = format!("{help}. Changes nothing: {instead}");
        }
        _ => {}
    }
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .action(ArgAction::Append)
        .value_name(flag.kind.placeholder())
        .hide(!flag.is_shown())
        .help(help);
    let argument = match flag.short {
        Some(short) => argument.short(short),
        None => argument,
    };
    if is_switch(flag) {
        // As pflag: a value only behind an equals sign.
        let argument = argument.num_args(0..=1).require_equals(true);
        argument.default_missing_value("true")
    } else {
        argument.num_args(1).allow_hyphen_values(true)
    }
}

/// Runs with these arguments, of which the first is the program's name.
pub(super) fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let (given, own) = match Asked::by(arguments.into_iter().skip(1)) {
        Ok(Asked::Run { given, own }) => (given, *own),
        Ok(Asked::Help) => {
            // A closed standard output is nothing to complain about.
            let _ = command().name("kproxy").bin_name("kproxy").print_help();
            return Exit::Done.into();
        }
        Err(error) => return usage::tell(&error),
    };
    // Until the configuration says otherwise.
    let logs = Logs::start(Logging::default());
    match run(given, own, &logs) {
        Ok(exit) => exit.into(),
        Err(error) => {
            tracing::error!(err = %error, "command failed");
            if let CliError::Config(ConfigError::Invalid(invalid)) = &error {
                let fields: Vec<_> = invalid.0.iter().map(|it| it.field.as_str()).collect();
                tracing::error!("fields of the file that are wrong: {}", fields.join(", "));
            }
            Exit::Failed.into()
        }
    }
}

/// What a command line asks for.
#[derive(Debug)]
enum Asked {
    Run { given: Given, own: Box<Own> },
    Help,
}

impl Asked {
    fn by(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, UsageError> {
        let options = Own::augment_args(Command::new(NAME).args_override_self(true));
        let options = options.disable_help_flag(true);
        let theirs = FLAGS.iter().map(|flag| pflag::Shape {
            name: flag.name,
            short: flag.short,
            is_switch: is_switch(flag),
        });
        let ours = options.get_arguments().filter_map(|it| {
            Some(pflag::Shape {
                name: it.get_long()?,
                short: it.get_short(),
                is_switch: !it.get_action().takes_values(),
            })
        });
        let help = pflag::Shape {
            name: "help",
            short: Some('h'),
            is_switch: true,
        };
        let shapes: Vec<_> = theirs.chain(ours).chain([help]).collect();
        let (mut given, mut own, mut is_help) = (Given::default(), Vec::new(), false);
        let rest = pflag::parse(&shapes, arguments, |name, value| {
            let on = || {
                boolean(value).ok_or_else(|| FlagError {
                    flag: name.to_owned(),
                    text: value.to_owned(),
                    why: format!("strconv.ParseBool: parsing {value:?}: invalid syntax"),
                })
            };
            if let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) {
                if name == "version" {
                    version::Form::of(value)?;
                }
                given.add(flag, value)?;
            } else if name == "help" {
                is_help = on()?;
            } else if shapes.iter().any(|it| it.name == name && it.is_switch) {
                let option = format!("--{name}");
                own.retain(|it| *it != option);
                own.extend(on()?.then_some(option));
            } else {
                own.push(format!("--{name}={value}"));
            }
            Ok::<_, UsageError>(())
        })?;
        if is_help {
            return Ok(Self::Help);
        }
        // As cobra: empty ones are passed over, if there are no others.
        if rest.iter().any(|it| !it.is_empty()) {
            return Err(UsageError::Arguments(rest));
        }
        let own = options
            .no_binary_name(true)
            .try_get_matches_from(own)
            .and_then(|matches| Own::from_arg_matches(&matches))?;
        let own = Box::new(own);
        Ok(Self::Run { given, own })
    }
}

/// Takes a value only behind an equals sign, as pflag has it.
fn is_switch(flag: &Flag) -> bool {
    flag.kind == FlagKind::Bool || flag.name == "version"
}

fn run(given: Given, own: Own, logs: &Logs) -> Result<Exit, CliError> {
    if let Some(text) = given.text("version")
        && let Some(form) = version::Form::of(text)?
    {
        form.print()?;
        return Ok(Exit::Done);
    }
    let complete = given.complete(own.strict_config)?;
    logs.change(complete.config.logging.clone());
    tell(&complete);
    if let Some(file) = given.text("write-config-to") {
        return write(&complete, Path::new(file));
    }
    let netns = own.target.netns();
    let privileges = &own.privileges;
    let leftovers = complete.config.leftovers(privileges.leftovers());
    if given.is_on("cleanup") {
        return cleanup::remove(&netns, false, leftovers);
    }
    for difference in complete.config.differences() {
        tracing::warn!("{difference}");
    }
    let plan = startup::Plan {
        settings: complete.config.startup(),
        confinement: privileges
            .confinement(&netns, complete.config.connection(None).starts_programs()),
        leftovers,
    };
    if given.is_on("init-only") {
        startup::require_kernel()?;
        warn(&startup::initialize(&netns, &plan.settings)?);
        return Ok(Exit::Done);
    }
    let node = complete.config.identity().name;
    tracing::info!(
        node,
        mode = complete.config.mode,
        "kproxy v{} begins",
        env!("CARGO_PKG_VERSION")
    );
    tracing::debug!("configuration in effect: {}", complete.config.to_object()?);
    if own.source == SourceSpec::Api {
        // Whoever cannot be told of Services leaves the node as it is.
        let connection = complete.config.connection(given.text("master"));
        connection.check().map_err(NodeError::Api)?;
    }
    let filtered = plan.confinement.seccomp.is_some();
    // While this is the only thread.
    let begun = startup::begin(&netns, &plan)?;
    warn(&begun.warnings);
    let remover = begun.leftovers.start().map_err(NodeError::Watch)?;
    let signals = Signals::new().map_err(NodeError::Watch)?;
    let logs = logs.clone();
    let warnings = begun.warnings;
    let mut orders = Reload::new(signals, given, own, complete, logs, filtered, warnings)?;
    loop {
        let settings = orders.settings();
        match node::run(&settings, Some(&remover), &mut orders)? {
            Order::End => return Ok(Exit::Done),
            Order::Restart => tracing::info!("begins anew with the changed configuration"),
        }
    }
}

/// Logs what is to be warned about.
fn tell(complete: &Complete) {
    for warning in &complete.warnings {
        tracing::warn!("{warning}");
    }
}

fn warn(warnings: &[startup::Warning]) {
    for warning in warnings {
        tracing::warn!(reason = warning.reason, "{}", warning.message);
    }
}

fn write(complete: &Complete, file: &Path) -> Result<Exit, CliError> {
    let yaml = complete.config.to_yaml()?;
    let written = std::fs::File::create(file).and_then(|mut it| it.write_all(yaml.as_bytes()));
    written.map_err(|error| CliError::File {
        file: file.to_owned(),
        error,
    })?;
    tracing::info!(file = %file.display(), "Wrote configuration");
    Ok(Exit::Done)
}

impl Own {
    /// What the proxy is told by a configuration.
    fn settings(&self, complete: &Complete, master: Option<&str>, shown: &Configz) -> Settings {
        let config = &complete.config;
        let planner = |family| config.planner(family, self.beyond.base());
        Settings {
            netns: self.target.netns(),
            source: self.source.settings(|| config.connection(master)),
            node: config.identity(),
            ipv4: planner(Family::Ipv4),
            ipv6: planner(Family::Ipv6),
            periods: config.periods(),
            state_dir: PathBuf::from(self.beyond.state_dir()),
            own_tables: self.table_owner,
            recording: self.recording.recording(),
            hard_fail: config.bind_address_hard_fail,
            guard: config.guard(),
            sites: SiteSettings {
                configuration: Some(shown.clone()),
                statusz: self.statusz,
                ..config.sites()
            },
            warnings: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
