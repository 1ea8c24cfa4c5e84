//! `kproxy plan`.

use core::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use svc_planner::plan::Datum;

use super::{CliError, Exit, Printer, ProxyOptions, Results, Target, load};
use crate::engine::{Engine, RowChange, TABLE, WouldChange};

/// Show what `apply` would change, without changing it
///
/// Reads the rows in question from the kernel one by one and shows what they hold now beside what
/// they would hold. Not to be asked while `kproxy run` is at work in the same network namespace: what
/// its rows stand for is known to it alone.
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
        let mut engine = Engine::open(&self.target.netns(), |family| self.proxy.config(family))?;
        let state = self.proxy.state(&self.target.netns())?;
        engine.adopt(state.as_ref())?;
        let loaded = load(&self.filename, &self.proxy, |change| engine.apply(change))?;
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
