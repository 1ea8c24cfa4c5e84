//! `kproxy plan`.

use core::fmt::Write as _;
use core::time::Duration;
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use svc_planner::plan::Datum;

use super::{CliError, Exit, Printer, ProxyOptions, Results, Target, host_addresses, load};
use crate::engine::{Engine, RowChange, StateDir, TABLE, WouldChange};
use crate::watch::{self, FolderWatch};

/// Show what `apply` would change, without changing it
///
/// Reads the rows in question from the kernel one by one and shows what they hold now beside what
/// they would hold. Takes no lock and writes nothing; while `kproxy run` is at work in the same network
/// namespace, it goes by what that saved last in the same --state-dir.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy plan -f manifests/
  kproxy plan -f cluster.json -o json | jq '.[].rows[] | .service'
  kproxy plan -f manifests/; [ $? -eq 2 ] && echo 'something would change'

Exit codes:
  0   nothing would change
  1   failed
  2   something would change
  3   nothing would change, but part of the input was left out; standard error says what
  64  wrong arguments")]
pub(super) struct Plan {
    /// Manifests: files or folders of YAML or JSON, `-` for standard input
    #[arg(long, short, required = true, value_name = "FILE|DIR")]
    filename: Vec<PathBuf>,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    results: Results,

    #[command(flatten)]
    proxy: ProxyOptions,
}

impl Plan {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let netns = self.target.netns();
        let mut engine = Engine::open(&netns, |family| self.proxy.config(family))?;
        let state = self.proxy.state_to_read(&netns)?;
        adopt(&mut engine, &state)?;
        let host = host_addresses(&netns)?;
        let loaded = load(&self.filename, &self.proxy, host, |change| {
            engine.apply(change);
        })?;
        let loaded = loaded.with_node(&self.proxy)?;
        let changes = engine.dry_run()?;
        self.results.printer().print(&changes, |out, changes| {
            let colours = Printer::coloured();
            for family in changes {
                text(out, family, colours);
            }
        })?;
        Ok(if !changes.is_empty() {
            Exit::WouldChange
        } else if !loaded.complete {
            Exit::Incomplete
        } else {
            Exit::Done
        })
    }
}

/// Longest wait for a process at work to save its state; it does so at least every ten seconds
/// while it is idle.
const PATIENCE: Duration = Duration::from_secs(12);

/// Finds out what the tables stand for. A process at work saves that shortly after each change, not
/// with it, so it may have to be waited for.
fn adopt(engine: &mut Engine, state: &StateDir) -> Result<(), CliError> {
    let deadline = Instant::now() + PATIENCE;
    let mut watch: Option<FolderWatch> = None;
    while !engine.resume(state)? {
        if !state.in_use()? {
            // Nobody will save anything: what is there is what would be taken over.
            return Ok(engine.adopt(Some(state))?);
        }
        let Some(watch) = &mut watch else {
            // Watched first, then looked at once more: a save in between is not missed.
            let new = FolderWatch::new(state.folder()).map_err(CliError::Watch)?;
            watch = Some(new);
            continue;
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(CliError::Behind);
        }
        watch::wait([watch.as_fd()], Some(left)).map_err(CliError::Watch)?;
        watch.drain().map_err(CliError::Watch)?;
    }
    Ok(())
}

const RED: &str = "\x1b[31m";
const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const PLAIN: &str = "\x1b[0m";

fn text(out: &mut String, changes: &WouldChange, colours: bool) {
    let family = changes.family;
    // Writing to a string cannot fail.
    let _ = if changes.rebuild {
        writeln!(
            out,
            "table {family} {TABLE}: made anew, whatever is there is taken over"
        )
    } else {
        writeln!(out, "table {family} {TABLE}:")
    };
    for transaction in &changes.transactions {
        let mut objects = transaction.clone();
        objects.elements.clear();
        for line in objects.to_string().lines() {
            let deletes = line.starts_with("delete") || line.starts_with("flush");
            let (sign, colour) = if deletes { ('-', RED) } else { ('+', GREEN) };
            line_of(out, sign, colour, line, colours);
        }
    }
    for row in &changes.rows {
        let (sign, colour) = match (&row.live, &row.wanted) {
            (Some(live), Some(wanted)) if live == wanted => (' ', PLAIN),
            (Some(_), Some(_)) => ('~', YELLOW),
            (_, None) => ('-', RED),
            (None, Some(_)) => ('+', GREEN),
        };
        line_of(out, sign, colour, &row_text(row), colours);
    }
}

fn line_of(out: &mut String, sign: char, colour: &str, text: &str, colours: bool) {
    let _ = if colours {
        writeln!(out, "{colour}{sign} {text}{PLAIN}")
    } else {
        writeln!(out, "{sign} {text}")
    };
}

fn row_text(row: &RowChange) -> String {
    let mut text = format!("{} {{ {}", row.set, row.key);
    let datum = |datum: &Option<Datum>| match datum {
        Some(Datum::None) | None => None,
        Some(datum) => Some(datum.to_string()),
    };
    match (datum(&row.live), datum(&row.wanted)) {
        (Some(live), Some(wanted)) if live != wanted => {
            let _ = write!(text, " : {live} -> {wanted}");
        }
        (_, Some(only)) | (Some(only), None) => {
            let _ = write!(text, " : {only}");
        }
        (None, None) => {}
    }
    text.push_str(" }");
    if let Some(service) = &row.service {
        let _ = write!(text, "  # {service}");
    }
    text
}

#[cfg(test)]
mod tests {
    use svc_planner::plan::{Key, Route};

    use super::*;

    #[test]
    fn rows_show_what_is_and_what_would_be() {
        let mut row = RowChange {
            set: "services".into(),
            key: Key::Group(1),
            live: Some(Datum::Route(Route(0x10_0001))),
            wanted: Some(Datum::Route(Route(0x20_0001))),
            service: Some("shop/web:http/TCP".to_owned()),
        };
        let text = row_text(&row);
        assert!(text.starts_with("services { "), "{text}");
        assert!(text.contains(" -> "), "{text}");
        assert!(text.ends_with("# shop/web:http/TCP"), "{text}");
        row.wanted = None;
        row.service = None;
        assert!(!row_text(&row).contains("->"));
    }
}
