//! What the demo found, as data and as a table.

use core::{
    fmt::{self, Write as _},
    net::SocketAddr,
    time::Duration,
};

use netns_lab::{Evenness, Transport};
use serde::{Serialize, Serializer};

use crate::engine::Applied;

/// What the demo did and found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Services programmed.
    pub services: usize,
    /// Pods answering.
    pub pods: usize,
    /// What programming them took.
    pub programming: Programming,
    /// One row per address and port of a Service.
    pub frontends: Vec<Row>,
}

/// Size and time of the transactions that programmed the Services.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Programming {
    /// Transactions committed.
    pub transactions: usize,
    /// Operations in them.
    pub operations: u64,
    /// Rows of sets and maps added and deleted.
    pub rows: usize,
    /// Bytes sent to the kernel.
    pub bytes: usize,
    /// Planning.
    #[serde(serialize_with = "microseconds", rename = "plan_us")]
    pub plan: Duration,
    /// Encoding.
    #[serde(serialize_with = "microseconds", rename = "encode_us")]
    pub encode: Duration,
    /// In the kernel, until the acknowledgement.
    #[serde(serialize_with = "microseconds", rename = "commit_us")]
    pub commit: Duration,
}

/// What became of the traffic to one address and port.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Service and port name.
    pub service: Box<str>,
    /// Protocol.
    pub transport: Transport,
    /// Address and port.
    pub address: SocketAddr,
    /// What happened.
    pub outcome: Outcome,
}

/// What happened to the flows sent to an address and port.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "result")]
#[non_exhaustive]
pub enum Outcome {
    /// All reached an endpoint, each endpoint got some.
    Balanced {
        /// How many each got.
        shares: Vec<Share>,
        /// How evenly.
        evenness: Evenness,
    },
    /// Refused at once, as it must be without endpoints.
    Refused,
    /// Anything else.
    Failed {
        /// How many each endpoint got.
        shares: Vec<Share>,
        /// Refused.
        refused: u64,
        /// Without an answer.
        lost: u64,
        /// Answered by somebody else.
        elsewhere: u64,
    },
}

/// Flows that reached a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Pod.
    pub pod: Box<str>,
    /// Flows.
    pub flows: u64,
}

impl Programming {
    pub(super) fn add(&mut self, applied: &Applied) {
        self.transactions += 1;
        self.operations += u64::from(applied.operations);
        self.rows += applied.rows;
        self.bytes += applied.bytes;
        self.plan += applied.plan;
        self.encode += applied.encode;
        self.commit += applied.commit;
    }
}

fn microseconds<S: Serializer>(time: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_secs_f64() * 1e6)
}

impl Report {
    /// Whether everything worked.
    #[must_use]
    pub fn is_success(&self) -> bool {
        !self.frontends.is_empty() && self.frontends.iter().all(Row::is_success)
    }

    /// The report as text, with colours or without.
    #[must_use]
    pub fn table(&self, colours: bool) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write_table(&mut text, colours);
        text
    }

    fn write_table(&self, out: &mut String, colours: bool) -> fmt::Result {
        let cells: Vec<_> = self.frontends.iter().map(Cells::of).collect();
        let width = |column: fn(&Cells) -> &str, title: &str| {
            cells
                .iter()
                .map(|row| column(row).len())
                .chain([title.len()])
                .max()
                .unwrap_or(0)
        };
        let service = width(|row| &row.service, "SERVICE");
        let address = width(|row| &row.address, "ADDRESS");
        let shares = width(|row| &row.shares, "FLOWS PER ENDPOINT");
        let paint = |style: &'static str| if colours { style } else { "" };
        let (bold, dim, reset) = (paint("\x1b[1m"), paint("\x1b[2m"), paint("\x1b[0m"));

        writeln!(
            out,
            "{bold}{:service$}  {:address$}  {:5}  {:shares$}  RESULT{reset}",
            "SERVICE", "ADDRESS", "PROTO", "FLOWS PER ENDPOINT"
        )?;
        for (row, cells) in self.frontends.iter().zip(&cells) {
            let colour = paint(match &row.outcome {
                Outcome::Balanced { evenness, .. } if evenness.is_even() => "\x1b[32m",
                Outcome::Refused => "\x1b[32m",
                Outcome::Balanced { .. } => "\x1b[33m",
                Outcome::Failed { .. } => "\x1b[31m",
            });
            writeln!(
                out,
                "{:service$}  {:address$}  {:5}  {:shares$}  {colour}{}{reset}",
                cells.service, cells.address, cells.transport, cells.shares, cells.result
            )?;
        }
        let Programming {
            transactions,
            operations,
            rows,
            bytes,
            plan,
            encode,
            commit,
        } = self.programming;
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        writeln!(
            out,
            "\n{dim}programmed by {transactions} transactions of {operations} operations with \
             {rows} rows, {bytes} bytes:\nplan {:.2} ms, encode {:.2} ms, commit {:.2} ms{reset}",
            milliseconds(plan),
            milliseconds(encode),
            milliseconds(commit)
        )?;
        let total = self.frontends.len();
        let failed = self
            .frontends
            .iter()
            .filter(|row| !row.is_success())
            .count();
        if failed == 0 {
            writeln!(
                out,
                "{}all {total} addresses work as they should{reset}",
                paint("\x1b[32m")
            )
        } else {
            writeln!(
                out,
                "{}{failed} of {total} addresses do not work{reset}",
                paint("\x1b[31m")
            )
        }
    }
}

impl Row {
    /// Whether it worked. Chance may make an even balance look uneven, so that is no failure.
    #[must_use]
    pub const fn is_success(&self) -> bool {
        !matches!(self.outcome, Outcome::Failed { .. })
    }
}

/// A row's text.
struct Cells {
    service: String,
    address: String,
    transport: String,
    shares: String,
    result: String,
}

impl Cells {
    fn of(row: &Row) -> Self {
        let list = |shares: &[Share]| {
            let digits = |share: &Share| share.flows.to_string().len();
            let width = shares.iter().map(digits).max().unwrap_or(0);
            let shares: Vec<_> = shares
                .iter()
                .map(|share| format!("{} {:>width$}", share.pod, share.flows))
                .collect();
            shares.join("  ")
        };
        let (shares, result) = match &row.outcome {
            Outcome::Refused => ("no endpoints".to_owned(), "refused at once".to_owned()),
            Outcome::Balanced { shares, .. } if shares.len() == 1 => {
                (list(shares), "reached".to_owned())
            }
            Outcome::Balanced { shares, evenness } => {
                let word = if evenness.is_even() { "even" } else { "uneven" };
                (
                    list(shares),
                    format!("{word} (χ² {:.1})", evenness.chi_square),
                )
            }
            Outcome::Failed {
                shares,
                refused,
                lost,
                elsewhere,
            } => (
                list(shares),
                format!("FAILED: {refused} refused, {lost} lost, {elsewhere} went elsewhere"),
            ),
        };
        Self {
            service: row.service.to_string(),
            address: row.address.to_string(),
            transport: row.transport.to_string().to_uppercase(),
            shares,
            result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(outcome: Outcome) -> Report {
        let row = |transport, address: &str, outcome| Row {
            service: "shop/web:http".into(),
            transport,
            address: address.parse().unwrap(),
            outcome,
        };
        Report {
            services: 2,
            pods: 2,
            programming: Programming {
                transactions: 2,
                operations: 80,
                rows: 60,
                bytes: 7000,
                plan: Duration::from_micros(120),
                encode: Duration::from_micros(40),
                commit: Duration::from_micros(900),
            },
            frontends: vec![
                row(Transport::Tcp, "10.96.0.10:80", outcome),
                row(Transport::Udp, "[fd00:96::99]:53", Outcome::Refused),
            ],
        }
    }

    fn shares() -> Vec<Share> {
        vec![
            Share {
                pod: "web-1".into(),
                flows: 52,
            },
            Share {
                pod: "web-2".into(),
                flows: 48,
            },
        ]
    }

    #[test]
    fn table_of_a_success() {
        let report = report(Outcome::Balanced {
            shares: shares(),
            evenness: Evenness::of(&[52, 48]),
        });
        assert!(report.is_success());
        assert_eq!(
            report.table(false),
            "\
SERVICE        ADDRESS           PROTO  FLOWS PER ENDPOINT  RESULT
shop/web:http  10.96.0.10:80     TCP    web-1 52  web-2 48  even (χ² 0.2)
shop/web:http  [fd00:96::99]:53  UDP    no endpoints        refused at once

programmed by 2 transactions of 80 operations with 60 rows, 7000 bytes:
plan 0.12 ms, encode 0.04 ms, commit 0.90 ms
all 2 addresses work as they should
"
        );
        assert!(report.table(true).contains("\x1b[32meven"));
    }

    #[test]
    fn table_of_a_failure() {
        let report = report(Outcome::Failed {
            shares: shares(),
            refused: 0,
            lost: 3,
            elsewhere: 1,
        });
        assert!(!report.is_success());
        let table = report.table(false);
        assert!(
            table.contains("FAILED: 0 refused, 3 lost, 1 went elsewhere"),
            "{table}"
        );
        assert!(table.contains("1 of 2 addresses do not work"), "{table}");
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["frontends"][0]["outcome"]["result"], "failed");
        assert_eq!(json["programming"]["plan_us"], 120.0);
    }
}
