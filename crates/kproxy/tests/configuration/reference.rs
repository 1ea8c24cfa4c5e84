//! docs/CONFIGURATION.md says of every flag and field what the program does with it.

use core::fmt::Write as _;
use std::fs;
use std::path::Path;

use kproxy::config::{FLAGS, FeatureGates, Field, Flag, Standing, Target, fields};

#[test]
fn the_tables_say_what_the_program_does() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/CONFIGURATION.md");
    let mut text = fs::read_to_string(&path).unwrap();
    let before = text.clone();
    for (name, table) in [
        ("fields", field_table()),
        ("flags", flag_table()),
        ("gates", gate_table()),
    ] {
        let (begin, end) = (
            format!("<!-- {name} -->\n"),
            format!("<!-- end of {name} -->"),
        );
        let start = text.find(&begin).unwrap() + begin.len();
        let stop = text.find(&end).unwrap();
        text.replace_range(start..stop, &table);
    }
    if std::env::var_os("KPROXY_RECORD").is_some() {
        fs::write(&path, &text).unwrap();
    } else {
        assert!(
            text == before,
            "docs/CONFIGURATION.md is stale: KPROXY_RECORD=1 cargo test -p kproxy --test configuration reference"
        );
    }
}

fn field_table() -> String {
    let mut table =
        String::from("| field | kind | default | what becomes of it |\n|---|---|---|---|\n");
    for field in fields() {
        let Field {
            path,
            kind,
            default,
            standing,
        } = field;
        let default = if default.is_empty() {
            String::new()
        } else {
            format!("`{default}`")
        };
        let standing = words(*standing);
        writeln!(
            table,
            "| `{path}` | {} | {default} | {standing} |",
            kind.words()
        )
        .unwrap();
    }
    table
}

fn flag_table() -> String {
    let mut table = String::from(
        "| flag | for | what becomes of it | beside `--config` |\n|---|---|---|---|\n",
    );
    for flag in FLAGS {
        let name = match flag.short {
            Some(short) => format!("`-{short}`, `--{}`", flag.name),
            None => format!("`--{}`", flag.name),
        };
        let beside = if flag.counts_with_file() {
            "counts"
        } else {
            "warned of, does not count"
        };
        writeln!(
            table,
            "| {name} | {} | {} | {beside} |",
            purpose(flag),
            words(flag.standing())
        )
        .unwrap();
    }
    table
}

fn gate_table() -> String {
    let mut table = String::from("| gate | default | effect |\n|---|---|---|\n");
    for (name, on, effect) in FeatureGates::known() {
        writeln!(table, "| `{name}` | {on} | {effect} |").unwrap();
    }
    table
}

fn purpose(flag: &Flag) -> String {
    match flag.target {
        Target::Field(path) => format!("`{path}`"),
        Target::MasqueradeAll => "`masqueradeAll` of the mode".to_owned(),
        Target::SyncPeriod { ipvs: true } => "`ipvs.syncPeriod`".to_owned(),
        Target::SyncPeriod { ipvs: false } => {
            "`syncPeriod` of modes iptables and nftables".to_owned()
        }
        Target::MinSyncPeriod { ipvs: true } => "`ipvs.minSyncPeriod`".to_owned(),
        Target::MinSyncPeriod { ipvs: false } => {
            "`minSyncPeriod` of modes iptables and nftables".to_owned()
        }
        Target::HostnameOverride => "`hostnameOverride`; wins over the file".to_owned(),
        Target::Port { address } => format!("port of `{address}`; deprecated"),
        _ => flag.help.to_owned(),
    }
}

fn words(standing: Standing) -> String {
    match standing {
        Standing::Works => "works".to_owned(),
        Standing::WorksIn(modes) => {
            let modes: Vec<_> = modes.iter().map(|mode| mode.name()).collect();
            format!("works in mode {}; warned of in others", modes.join(", "))
        }
        Standing::Accepted(instead) => format!("accepted, with a warning: {instead}"),
    }
}
