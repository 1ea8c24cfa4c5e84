//! The ruleset of a network namespace as text that can be compared: without handles, counters of
//! packets, and names that the kernel makes up.

use core::fmt::Write as _;
use std::collections::BTreeMap;

use nft_batch::{Connection, QueryError, Socket};
use nl_codec::msg::{Family, Flags, Head, MsgType, NfGen, NfMsg, NftMsg};
use nl_codec::nft::expr::Counter;
use nl_codec::nft::set::SetFlags;
use nl_codec::nft::{Chain, Set, Table};
use similar::TextDiff;

use crate::text::{self, Catalog, SetShape};

/// Reads the ruleset: tables by family and name, in each the sets with their elements, objects,
/// flowtables and chains by name, rules in their order.
///
/// # Errors
/// See [`QueryError`].
pub fn read(connection: &mut Connection<Socket>) -> Result<String, QueryError> {
    let mut tables = Vec::new();
    connection.dump_tables(Family::UNSPEC, |family, table| {
        let name = table.name.map(|name| name.to_string()).unwrap_or_default();
        let mut bare = Table::default();
        bare.name = table.name;
        bare.flags = table.flags.filter(|flags| !flags.is_empty());
        bare.userdata = None;
        tables.push((family.0, name, text::table(family, &bare)));
    })?;
    tables.sort();
    let mut out = String::new();
    for (family, name, heading) in tables {
        let heading = heading
            .strip_suffix(" }")
            .map_or_else(|| format!("{heading} {{"), |open| open.to_owned());
        // Writing to a string cannot fail.
        let _ = writeln!(out, "table {heading}");
        table(connection, Family(family), &name, &mut out)?;
        out.push_str("}\n");
    }
    Ok(out)
}

/// What is in one table.
fn table(
    connection: &mut Connection<Socket>,
    family: Family,
    table: &str,
    out: &mut String,
) -> Result<(), QueryError> {
    let mut catalog = Catalog::default();
    let mut sets: BTreeMap<String, (String, SetShape)> = BTreeMap::new();
    connection.dump_sets(family, table, |set| {
        learn(&mut catalog, family, set);
        let name = set.name.map(|name| name.to_string()).unwrap_or_default();
        sets.insert(name, (text::set(family, set), SetShape::of(set)));
    })?;
    let mut anonymous: Vec<(String, String)> = Vec::new();
    for (name, (heading, shape)) in &sets {
        let mut elements = Vec::new();
        connection.dump_elements(family, table, name, |elem| {
            let mut elem = *elem;
            elem.expiration = None;
            elements.push(without_counts(&text::element(&elem, Some(shape))));
        })?;
        elements.sort();
        if shape.flags.contains(SetFlags::ANONYMOUS) {
            anonymous.push((name.clone(), format!("{{ {} }}", elements.join(", "))));
            continue;
        }
        let _ = writeln!(out, "\tset {heading}");
        for element in elements {
            let _ = writeln!(out, "\t\t{element}");
        }
    }
    let mut objects = Vec::new();
    connection.dump_objects(family, table, |object| {
        let mut object = *object;
        object.in_use = None;
        objects.push(text::object(family, &object));
    })?;
    objects.sort();
    for object in objects {
        let _ = writeln!(out, "\t{}", without_counts(&object));
    }
    let mut flowtables = Vec::new();
    connection.dump_flowtables(family, table, |flowtable| {
        flowtables.push(text::flowtable(family, flowtable));
    })?;
    flowtables.sort();
    for flowtable in flowtables {
        let _ = writeln!(out, "\tflowtable {flowtable}");
    }
    let mut chains: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    connection.dump_chains(family, table, |chain| {
        let name = chain.name.map(|name| name.to_string()).unwrap_or_default();
        let mut bare: Chain<'_> = *chain;
        bare.counters = None::<Counter>;
        chains.insert(name, (text::chain(family, &bare), Vec::new()));
    })?;
    connection.dump_rules(family, table, None, |rule| {
        let name = rule.chain.map(|name| name.to_string()).unwrap_or_default();
        let line = without_counts(&text::rule(family, rule, &catalog));
        if let Some((_, rules)) = chains.get_mut(&name) {
            rules.push(line);
        }
    })?;
    let mut shown = String::new();
    for (heading, rules) in chains.values() {
        let _ = writeln!(shown, "\tchain {heading}");
        for rule in rules {
            let _ = writeln!(shown, "\t\t{rule}");
        }
    }
    // The longest name first: one may be the beginning of another.
    anonymous.sort_by_key(|(name, _)| core::cmp::Reverse(name.len()));
    for (name, content) in anonymous {
        shown = shown.replace(&format!("@{name}"), &content);
    }
    out.push_str(&numbered(&shown));
    Ok(())
}

fn learn(catalog: &mut Catalog, family: Family, set: &Set<'_>) {
    // The catalog learns from messages.
    let mut bytes = vec![0; 64 << 10];
    let mut cursor = nl_codec::SliceCursor::new(&mut bytes);
    if set.encode_attrs(&mut cursor).is_err() {
        return;
    }
    let msg = NfMsg {
        header: nl_codec::msg::Header {
            len: 0,
            kind: MsgType::nft(NftMsg::NEW_SET),
            flags: Flags::empty(),
            seq: 0,
            port: 0,
        },
        nfgen: NfGen {
            family: Head::nft(NftMsg::NEW_SET, family).family,
            version: 0,
            res_id: 0,
        },
        attrs: cursor.written(),
    };
    catalog.learn(&msg);
}

/// Counters and quotas count packets that are none of the ruleset's.
fn without_counts(text: &str) -> String {
    let mut out = String::new();
    let mut words = text.split(' ').peekable();
    while let Some(word) = words.next() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
        if matches!(word, "packets" | "bytes" | "pkts")
            && words
                .peek()
                .is_some_and(|next| next.chars().all(|c| c.is_ascii_digit()))
        {
            words.next();
            out.push_str(" N");
        }
    }
    out
}

/// Numbers the chains that the kernel named (`__chain17`) in the order in which they are mentioned.
fn numbered(text: &str) -> String {
    const PREFIX: &str = "__chain";
    let mut names: Vec<&str> = Vec::new();
    for (at, _) in text.match_indices(PREFIX) {
        let rest = text.get(at..).unwrap_or_default();
        let digits = rest.get(PREFIX.len()..).unwrap_or_default();
        let len = digits.find(|c: char| !c.is_ascii_digit());
        let end = PREFIX.len() + len.unwrap_or(digits.len());
        let name = rest.get(..end).unwrap_or_default();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let mut order: Vec<(usize, &str)> = names.into_iter().enumerate().collect();
    order.sort_by_key(|(_, name)| core::cmp::Reverse(name.len()));
    let mut out = text.to_owned();
    for (index, name) in order {
        out = out.replace(name, &format!("(anonymous chain {index})"));
    }
    out
}

/// What differs between two rulesets, as a unified diff; empty if nothing does.
#[must_use]
pub fn diff(old: &str, new: &str, old_name: &str, new_name: &str) -> String {
    if old == new {
        return String::new();
    }
    TextDiff::from_lines(old, new)
        .unified_diff()
        .context_radius(3)
        .header(old_name, new_name)
        .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_left_out() {
        assert_eq!(
            without_counts("ip saddr 1.2.3.4 counter packets 5 bytes 60 accept"),
            "ip saddr 1.2.3.4 counter packets N bytes N accept"
        );
        assert_eq!(
            without_counts("limit rate 5 bytes/second"),
            "limit rate 5 bytes/second"
        );
    }

    #[test]
    fn chains_are_numbered_as_they_come() {
        assert_eq!(
            numbered("jump __chain12 jump __chain1 chain __chain12"),
            "jump (anonymous chain 0) jump (anonymous chain 1) chain (anonymous chain 0)"
        );
    }

    #[test]
    fn differences_are_lines() {
        assert_eq!(diff("a\n", "a\n", "A", "B"), "");
        let shown = diff("a\nb\n", "a\nc\n", "A", "B");
        assert!(shown.contains("-b") && shown.contains("+c"), "{shown}");
    }
}
