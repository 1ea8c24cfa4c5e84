//! Every message nft sent is decoded into typed values, and those encode to nft's bytes again.

use std::path::{Path, PathBuf};

use test_support::golden::{Golden, message_name, sorted, with_plain_list_types};

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
