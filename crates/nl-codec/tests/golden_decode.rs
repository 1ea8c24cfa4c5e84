//! Every message nft sent is decoded into typed values, and those encode to nft's bytes again.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use nl_codec::nft::Expr;
use test_support::golden::{Golden, message_name, sorted, with_plain_list_types};

use any::Any;

mod any;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

#[test]
fn nfts_bytes_survive_decoding_and_encoding() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for golden in Golden::load_all(&folder()).unwrap() {
        for case in &golden.cases {
            for message in &case.messages {
                checked += 1;
                let expected = with_plain_list_types(message);
                let mut rebuilt = any::rebuild(message);
                // Requests for elements and flushes of sets have the set before the table in nft,
                // elements to add have them the other way round.
                let name = message_name(message);
                let expected = if ["GETSETELEM", "GETSETELEM_RESET", "DELSETELEM"].contains(&name) {
                    rebuilt = rebuilt.map(|message| sorted(&message));
                    sorted(&expected)
                } else {
                    expected
                };
                if rebuilt.as_ref() != Ok(&expected) {
                    wrong.push(format!(
                        "{}: {}: {rebuilt:02x?}\n{expected:02x?}",
                        golden.name(),
                        case.name
                    ));
                }
            }
        }
    }
    assert!(checked > 500, "{checked}");
    assert!(
        wrong.is_empty(),
        "{}\n{} wrong",
        wrong.join("\n"),
        wrong.len()
    );
}

/// The expressions that are recorded. `tunnel` is missing: none of the releases can write it.
const EXPRESSIONS: [&str; 37] = [
    "bitwise",
    "byteorder",
    "cmp",
    "connlimit",
    "counter",
    "ct",
    "dup",
    "dynset",
    "exthdr",
    "fib",
    "flow_offload",
    "fwd",
    "hash",
    "immediate",
    "inner",
    "last",
    "limit",
    "log",
    "lookup",
    "masq",
    "meta",
    "nat",
    "notrack",
    "numgen",
    "objref",
    "osf",
    "payload",
    "queue",
    "quota",
    "range",
    "redir",
    "reject",
    "rt",
    "socket",
    "synproxy",
    "tproxy",
    "xfrm",
];

#[test]
fn every_expression_is_recorded_and_known() {
    let mut seen = BTreeSet::new();
    for golden in Golden::load_all(&folder()).unwrap() {
        for case in &golden.cases {
            assert!(
                !case.messages.is_empty(),
                "{}: {}",
                golden.name(),
                case.name
            );
            for message in &case.messages {
                let view = any::view(message).unwrap();
                let Any::Rule(rule) = Any::decode(&view).unwrap() else {
                    continue;
                };
                for expr in rule.exprs.iter().flatten().map(Result::unwrap) {
                    let unknown = matches!(expr, Expr::Unknown { .. });
                    assert!(!unknown, "{}: {}: {expr}", golden.name(), case.name);
                    seen.insert(expr.name().to_string());
                }
            }
        }
    }
    assert!(seen.iter().eq(EXPRESSIONS.iter()), "{seen:?}");
}
