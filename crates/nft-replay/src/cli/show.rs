//! `nft-replay show`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::output::{coloured, print};
use super::{CliError, Exit, open};
use crate::session::Session;
use crate::show::{self, Filter, JsonExchange, Options, Service, Style, TableName};

/// Show the transactions of a capture
///
/// What is not understood is shown, too: as attribute number and bytes. Several files that follow
/// each other, such as the two of a ring, are shown as one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  nft-replay show rules.pcapng
  nft-replay show rules.pcapng --style netlink --set services
  nft-replay show proxy.pcapng.1 proxy.pcapng --service default/web
  nft-replay show rules.pcapng --style json | jq .outcome

Exit codes:
  0   done
  1   failed
  3   done with what could be read of a damaged capture
  64  wrong arguments")]
pub(super) struct Show {
    /// Captures
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// How messages are shown; json is one document per line and transaction
    #[arg(long, short, value_enum, default_value_t, value_name = "STYLE")]
    style: StyleName,

    /// Only what is about this table
    #[arg(long, value_name = "[FAMILY/]NAME")]
    table: Option<TableName>,

    /// Only what is about the set, map, chain or object of this name, or uses that set
    #[arg(long, value_name = "NAME")]
    set: Option<String>,

    /// Only what is about this Service: by the name in comments and names of chains, or by address
    #[arg(long, value_name = "NAMESPACE/NAME|ADDRESS[:PORT]")]
    service: Option<Service>,

    /// Only the transaction of this number
    #[arg(long, short = 'n', value_name = "N")]
    transaction: Option<usize>,

    /// Questions to the kernel, too
    #[arg(long)]
    queries: bool,

    /// How many elements of a message are shown
    #[arg(long, value_name = "N", default_value_t = 16)]
    elements: usize,
}

#[derive(Debug, Clone, Copy, Default, ValueEnum)]
enum StyleName {
    /// In nft's manner
    #[default]
    Nft,
    /// As nft --debug=netlink does
    Netlink,
    /// For programs
    Json,
}

impl Show {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let (capture, whole) = open(&self.files)?;
        let session = Session::new(&capture);
        let style = match self.style {
            StyleName::Netlink => Style::Netlink,
            StyleName::Nft | StyleName::Json => Style::Nft,
        };
        let options = Options {
            style,
            filter: Filter {
                table: self.table,
                set: self.set,
                service: self.service,
            },
            only: self.transaction,
            queries: self.queries,
            elements: self.elements,
            colour: coloured(),
        };
        let mut failed = None;
        match self.style {
            StyleName::Json => show::walk(&session, &options, |exchange, catalog, messages| {
                let value = JsonExchange::new(exchange, catalog, messages, &options);
                let printed = serde_json::to_string(&value)
                    .map_err(CliError::from)
                    .and_then(|line| print(&(line + "\n")));
                if let (Err(error), None) = (printed, &failed) {
                    failed = Some(error);
                }
            }),
            StyleName::Nft | StyleName::Netlink => {
                show::text(&session, &options, |text| {
                    if failed.is_none() {
                        failed = print(text).err();
                    }
                });
            }
        }
        match failed {
            Some(error) => Err(error),
            None if whole => Ok(Exit::Done),
            None => Ok(Exit::Damaged),
        }
    }
}
