//! `nft-replay run`.

mod report;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::{Args, ValueEnum};
use nft_batch::Connection;
use nft_batch::record::Section;

use self::report::Summary;
use super::output::{Format, Results, print, print_json};
use super::{CliError, Exit, open, progress};
use crate::bisect;
use crate::capture::Capture;
use crate::play::{self, Pace, Place, PlayOptions, Player, Report, in_place};
use crate::ruleset;
use crate::session::Session;

/// Replay the transactions of a capture and compare what the kernel says
///
/// In a new network namespace, unless told otherwise: nothing outside of it changes, and it is gone
/// afterwards. A command behind `--` is run in the namespace before that. Handles and generations are
/// translated to those that are valid here.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nft-replay run rules.pcapng
  nft-replay run rules.pcapng -- nft list ruleset
  nft-replay run rules.pcapng --times 20 -o json
  nft-replay run proxy.pcapng --netns blue --pace recorded
  nft-replay run broken.pcapng --bisect smallest.pcapng
  nft-replay run before.pcapng --diff after.pcapng

Exit codes:
  0   the kernel said what it said in the capture; with --diff: the rulesets are equal;
      with --bisect: the smallest failing part was found
  1   failed
  2   the kernel said something else; with --diff: the rulesets differ
  3   done with what could be read of a damaged capture
  64  wrong arguments
  With a command behind `--` that fails: its exit code")]
pub(super) struct Run {
    /// Captures that follow each other
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Replay in the network namespace NAME (as `ip netns` names it, or a path)
    #[arg(long, value_name = "NAME", conflicts_with_all = ["live", "bisect", "diff"])]
    netns: Option<String>,

    /// Replay in the network namespace of the caller; asks before
    #[arg(long, conflicts_with_all = ["bisect", "diff"])]
    live: bool,

    /// Do not ask
    #[arg(long, requires = "live")]
    yes: bool,

    /// How fast: as fast as possible, or with the pauses that were recorded
    #[arg(long, value_enum, default_value_t)]
    pace: PaceName,

    /// How often; times are then those of all runs
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    times: u32,

    /// Find the smallest part of the capture that the kernel still refuses, and write it to FILE
    #[arg(long, value_name = "FILE", conflicts_with = "diff")]
    bisect: Option<PathBuf>,

    /// Compare the resulting ruleset with that of another capture
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,

    /// Write what was sent and said here to FILE
    #[arg(long, value_name = "FILE")]
    save: Option<PathBuf>,

    /// List every transaction, not the slowest ones
    #[arg(long)]
    all: bool,

    #[command(flatten)]
    results: Results,

    /// A command to run in the namespace afterwards
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum PaceName {
    #[default]
    Fast,
    Recorded,
}

impl Run {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let (capture, whole) = open(&self.files)?;
        if !self.live {
            // Who is root already stays so.
            netns_lab::enter_user_namespace()?;
        }
        let session = Session::new(&capture);
        let exit = if let Some(file) = &self.bisect {
            self.bisect(&session, file)?
        } else if let Some(other) = &self.diff {
            self.diff(&session, other)?
        } else {
            self.play(&session)?
        };
        Ok(if exit == Exit::Done && !whole {
            Exit::Damaged
        } else {
            exit
        })
    }

    fn place(&self) -> Place {
        match &self.netns {
            Some(name) => Place::Named(name.clone()),
            None if self.live => Place::Current,
            None => Place::Fresh,
        }
    }

    fn play(&self, session: &Session<'_>) -> Result<Exit, CliError> {
        if self.live && !self.yes {
            agree(session)?;
        }
        let options = PlayOptions {
            pace: match self.pace {
                PaceName::Fast => Pace::Fast,
                PaceName::Recorded => Pace::Recorded,
            },
            known_handles_only: self.place() != Place::Fresh,
        };
        let count = session.transactions().count();
        let times = usize::try_from(self.times).unwrap_or(usize::MAX);
        let bar = progress::bar(count.saturating_mul(times), "replaying");
        let mut summary = Summary::new(session);
        let mut command_exit = None;
        for round in 1..=times {
            let last = round == times;
            let (report, status) = in_place(&self.place(), || {
                let mut player = Player::open(options)?;
                let report = player.play(session, |_| {
                    bar.inc(1);
                    true
                })?;
                let status = match self.command.split_first() {
                    Some((program, args)) if last => Some(follow(program, args)?),
                    _ => None,
                };
                Ok::<_, CliError>((report, status))
            })??;
            summary.add(&report, session);
            if last && let Some(file) = &self.save {
                write(file, report)?;
            }
            command_exit = status;
        }
        bar.finish_and_clear();
        match self.results.output {
            Format::Json => print_json(&summary)?,
            // Standard output is the command's.
            Format::Text if command_exit.is_some() => eprint!("{}", summary.text(self.all)),
            Format::Text => print(&summary.text(self.all))?,
        }
        Ok(match command_exit {
            Some(code) if code != 0 => Exit::Recorded(crate::trace::Ended::Code(code)),
            _ if summary.agrees() => Exit::Done,
            _ => Exit::Differs,
        })
    }

    fn bisect(&self, session: &Session<'_>, file: &Path) -> Result<Exit, CliError> {
        let messages = session
            .transactions()
            .map(|(_, exchange)| exchange.messages.len())
            .sum();
        let bar = progress::bar(messages, "messages left");
        let found = bisect::bisect(session, |left| {
            bar.set_position(u64::try_from(left).unwrap_or(u64::MAX));
        })?;
        bar.finish_and_clear();
        let found = found.ok_or(CliError::NothingFails)?;
        write_capture(file, &found.capture)?;
        let value = report::BisectSummary {
            transaction: found.transaction,
            errno: found.errno.to_string(),
            prefix_messages: found.prefix,
            messages: found.messages,
            trials: found.trials,
        };
        match self.results.output {
            Format::Json => print_json(&value)?,
            Format::Text => print(&format!(
                "transaction {} is refused with {}; {} of the {} messages up to it are enough \
                 ({} trials), now in {}\n",
                value.transaction,
                value.errno,
                value.messages,
                value.prefix_messages,
                value.trials,
                file.display()
            ))?,
        }
        Ok(Exit::Done)
    }

    fn diff(&self, session: &Session<'_>, other: &Path) -> Result<Exit, CliError> {
        let (capture, whole) = open(&[other.to_owned()])?;
        let ours = resulting(session)?;
        let theirs = resulting(&Session::new(&capture))?;
        let names: Vec<_> = self
            .files
            .iter()
            .map(|file| file.display().to_string())
            .collect();
        let shown = ruleset::diff(
            &ours,
            &theirs,
            &names.join(" "),
            &other.display().to_string(),
        );
        match self.results.output {
            Format::Json => print_json(&report::DiffSummary {
                equal: shown.is_empty(),
                diff: shown.lines().map(str::to_owned).collect(),
            })?,
            Format::Text => print(&shown)?,
        }
        Ok(match (shown.is_empty(), whole) {
            (false, _) => Exit::Differs,
            (true, true) => Exit::Done,
            (true, false) => Exit::Damaged,
        })
    }
}

/// The ruleset that a capture leads to.
fn resulting(session: &Session<'_>) -> Result<String, CliError> {
    in_place(&Place::Fresh, || {
        let mut player = Player::open(PlayOptions::default())?;
        player.play(session, |_| true)?;
        Ok(ruleset::read(&mut Connection::open()?)?)
    })?
}

/// Runs a command in the calling thread's network namespace.
fn follow(program: &OsString, args: &[OsString]) -> Result<i32, CliError> {
    let status = Command::new(program).args(args).status();
    let status = status.map_err(|error| CliError::Command {
        what: program.to_string_lossy().into_owned(),
        error,
    })?;
    Ok(status.code().unwrap_or(1))
}

/// Asks whether to go on.
fn agree(session: &Session<'_>) -> Result<(), CliError> {
    if !io::stdin().is_terminal() {
        return Err(CliError::NotAgreed);
    }
    let count = session.transactions().count();
    eprint!(
        "This sends {count} transactions to the ruleset of this network namespace. Go on? [y/N] "
    );
    let mut answer = String::new();
    io::stderr().flush().map_err(CliError::Output)?;
    io::stdin()
        .read_line(&mut answer)
        .map_err(CliError::Output)?;
    if answer.trim().eq_ignore_ascii_case("y") {
        Ok(())
    } else {
        Err(CliError::NotAgreed)
    }
}

fn write(file: &Path, report: Report) -> Result<(), CliError> {
    let mut capture = report.capture;
    let application = concat!("nft-replay ", env!("CARGO_PKG_VERSION"));
    capture.sections.push(Section::here(application));
    write_capture(file, &capture)
}

fn write_capture(file: &Path, capture: &Capture) -> Result<(), CliError> {
    let fail = |error| CliError::File {
        path: file.to_owned(),
        error,
    };
    let out = BufWriter::new(File::create(file).map_err(fail)?);
    capture.write(out).map_err(fail)
}

/// What is compared, for the summary.
type Verdict = play::Verdict;
