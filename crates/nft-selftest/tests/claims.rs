//! docs/KERNEL.md and the cases name each other.

use std::collections::BTreeSet;

use nft_selftest::all;

const DOCUMENT: &str = include_str!("../../../docs/KERNEL.md");

/// Everything in backquotes that looks like the name of a case.
fn named(document: &str) -> BTreeSet<String> {
    let topics: BTreeSet<_> = all().map(|case| case.topic).collect();
    let parts = document.split('`').skip(1).step_by(2);
    parts
        .filter(|part| {
            part.split_once('.').is_some_and(|(topic, name)| {
                topics.contains(topic) && name.contains('_') && !name.contains(['(', '/', ' '])
            })
        })
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_case_is_a_claim_of_the_document_and_every_claim_is_a_case() {
    let cases: BTreeSet<_> = all().map(|case| case.full_name()).collect();
    let claims = named(DOCUMENT);
    let missing: Vec<_> = cases.difference(&claims).collect();
    let unknown: Vec<_> = claims.difference(&cases).collect();
    assert!(missing.is_empty(), "not in docs/KERNEL.md: {missing:#?}");
    assert!(unknown.is_empty(), "no such cases: {unknown:#?}");
}

/// Rows of tables that name a case.
#[test]
fn every_claim_has_a_source() {
    let cases: BTreeSet<_> = all().map(|case| case.full_name()).collect();
    let links: BTreeSet<_> = DOCUMENT
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("]: https://github.com/"))
        .map(|(name, _)| name)
        .collect();
    let mut rows = 0;
    for line in DOCUMENT.lines().filter(|line| line.starts_with('|')) {
        if !cases.iter().any(|case| line.contains(&format!("`{case}`"))) {
            continue;
        }
        rows += 1;
        let has_link = links
            .iter()
            .any(|link| line.contains(&format!("][{link}]")));
        assert!(has_link, "no link to the kernel's source: {line}");
    }
    assert!(rows > 50, "only {rows} rows");
}
