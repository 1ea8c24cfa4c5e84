//! The messages of `golden/` printed by this crate, against what `nft --debug=netlink` printed for
//! the same input (`golden-text/`).
//!
//! `KPROXY_RECORD=1 cargo test -p nl-codec --test pretty` writes the texts anew.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use core::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::{fs, io};

use nl_codec::msg::{Flags, Messages, NfMsg, NftMsg};
use nl_codec::nft::chain::Chain;
use nl_codec::nft::elem::ElemList;
use nl_codec::nft::flowtable::Flowtable;
use nl_codec::nft::obj::{Obj, ObjData};
use nl_codec::nft::{Rule, Set};
use nl_codec::pretty::{ChainText, ElemsText, FlowtableText, ObjText, RuleText, SetText};
use test_support::golden::{Case, Golden};
use test_support::nft::{self, Nft};
use test_support::{in_new_netns, skip};

/// The release whose text the printer follows.
const RELEASE: &str = "1.0.6";

#[test]
fn golden_messages_print_as_nft_prints_them() {
    let mut differing = Vec::new();
    let mut checked = 0;
    for golden in goldens() {
        let texts = read_texts(&text_path(&golden)).unwrap();
        for case in golden.cases.iter().filter(|case| is_compared(case)) {
            let Some((_, expected)) = texts.iter().find(|(name, _)| *name == case.name) else {
                differing.push(format!("{}: {}: no text", golden.name(), case.name));
                continue;
            };
            let printed = case.messages.iter().map(|message| print(message));
            let printed: String = printed.collect();
            checked += 1;
            if printed.trim_end() != tolerated(expected).trim_end() {
                differing.push(format!(
                    "{}: {}\n--- nft\n{expected}--- here\n{printed}",
                    golden.name(),
                    case.name
                ));
            }
        }
    }
    assert!(checked > 300, "only {checked} cases");
    assert!(
        differing.is_empty(),
        "{} of {checked} differ:\n{}",
        differing.len(),
        differing.join("\n")
    );
}

#[test]
fn nft_still_prints_the_committed_text() {
    let Some(nft) = nft::release(RELEASE) else {
        skip(&format!("no nft {RELEASE}"));
        return;
    };
    let recording = std::env::var_os("KPROXY_RECORD").is_some();
    let mut differing = Vec::new();
    for golden in goldens() {
        let cases = golden.cases.iter().filter(|case| is_compared(case));
        let texts: Vec<_> = cases
            .map(|case| (case.name.clone(), run(&nft, case)))
            .collect();
        let path = text_path(&golden);
        if recording {
            write_texts(&path, &texts).unwrap();
        } else if read_texts(&path).unwrap() != texts {
            differing.push(golden.name());
        }
    }
    assert!(differing.is_empty(), "{differing:#?}");
}

fn goldens() -> Vec<Golden> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut goldens = Golden::load_all(&folder).unwrap();
    goldens.retain(|golden| golden.cases.iter().any(is_compared));
    goldens
}

/// Texts of other releases differ, and requests are not shown by nft.
fn is_compared(case: &Case) -> bool {
    case.from == RELEASE && case.keep.is_empty()
}

/// What nft prints for one case, in a network namespace of its own.
fn run(nft: &Nft, case: &Case) -> String {
    let (send, receive) = mpsc::channel();
    let (nft, case) = (nft.clone(), case.clone());
    in_new_netns(move || {
        for line in &case.setup {
            nft.load(line).unwrap();
        }
        let script = case.nft.join("\n") + "\n";
        let out = nft.run(&["--debug=netlink", &script]).unwrap();
        send.send(String::from_utf8_lossy(&out.stdout).into_owned())
            .unwrap();
    });
    receive.recv().unwrap_or_default()
}

/// One message as nft shows it: nothing for most kinds.
fn print(message: &[u8]) -> String {
    let message = Messages::new(message).next().unwrap().unwrap();
    let message = message.nfnetlink().unwrap();
    let family = message.nfgen.family;
    match message.header.kind.as_nft() {
        Some(NftMsg::NEW_RULE) => {
            let mut rule: Rule<'_> = message.body().unwrap();
            if message.header.flags.contains(Flags::REPLACE) {
                // nft shows it before the handle is in it.
                rule.handle = None;
            }
            format!(
                "{}\n",
                RuleText {
                    family,
                    rule: &rule
                }
            )
        }
        Some(NftMsg::NEW_SET) => {
            let set: Set<'_> = message.body().unwrap();
            format!("{}\n", SetText(&set))
        }
        Some(NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM) => {
            let list: ElemList<'_> = message.body().unwrap();
            format!("{}\n", ElemsText(&list))
        }
        Some(NftMsg::NEW_CHAIN) => print_chain(&message),
        Some(NftMsg::NEW_OBJ) => print_obj(&message),
        Some(NftMsg::NEW_FLOWTABLE) => print_flowtable(&message),
        _ => String::new(),
    }
}

/// nft shows it before names and policy are in it, unless it renames it.
fn print_chain(message: &NfMsg<'_>) -> String {
    let mut chain: Chain<'_> = message.body().unwrap();
    if chain.handle.is_none() {
        (chain.table, chain.name, chain.policy) = (None, None, None);
    }
    let family = message.nfgen.family;
    let chain = &chain;
    format!("{}\n", ChainText { family, chain })
}

/// nft shows it before names are in it.
fn print_obj(message: &NfMsg<'_>) -> String {
    let mut obj: Obj<'_> = message.body().unwrap();
    (obj.table, obj.name) = (None, None);
    if let Some(ObjData::CtTimeout(timeout)) = &mut obj.data {
        // Numbers here, names there.
        timeout.timeouts = None;
    }
    format!("{}\n", ObjText(&obj))
}

/// nft shows it before names are in it.
fn print_flowtable(message: &NfMsg<'_>) -> String {
    let mut flowtable: Flowtable<'_> = message.body().unwrap();
    (flowtable.table, flowtable.name) = (None, None);
    format!("{}\n", FlowtableText(&flowtable))
}

/// nft's text without what it shows beside the messages it sends, and with the differences evened
/// out that the module's documentation names.
fn tolerated(text: &str) -> String {
    // The rule that `position` or `index` refers to, looked up first.
    let text = text.strip_prefix(LOOKED_UP_RULE).unwrap_or(text);
    // A meter's elements, of which there are none yet.
    let text = text.replace("x t 21\nx t 0\n", "x t 21\n");
    let mut out = String::new();
    let mut looking_up = false;
    for line in text.lines() {
        // A set's elements, looked up first: `ip t @s`, one line each.
        let named = !line.starts_with([' ', '\t']) && line.contains(" @");
        looking_up = named || (looking_up && line.starts_with('\t'));
        if looking_up {
            continue;
        }
        let line = match line.split_once("policy = {") {
            Some((start, _)) if start.contains("[ ct_timeout ") => format!("{start}]"),
            _ => line.to_owned(),
        };
        let line = match line.split(' ').next() {
            Some("flow") => line.replace(" hook prerouting ", " hook ingress "),
            Some("inet") => line.replace(" hook unknown ", " hook ingress "),
            Some("netdev") => line.replace(" hook unknown ", " hook egress "),
            _ => line.replace("[ ct load unknown ", "[ ct load id "),
        };
        writeln!(out, "{line}").unwrap();
    }
    out
}

const LOOKED_UP_RULE: &str = "ip t c 2\n  [ immediate reg 0 accept ]\n\n";

fn text_path(golden: &Golden) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden-text");
    folder.join(format!("{}.txt", golden.name()))
}

/// Lines `case NAME` and below each the text, every line behind a bar.
fn read_texts(path: &Path) -> io::Result<Vec<(String, String)>> {
    let mut texts: Vec<(String, String)> = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        if let Some(name) = line.strip_prefix("case   ") {
            texts.push((name.to_owned(), String::new()));
        } else if let (Some(text), Some((_, last))) = (line.strip_prefix('|'), texts.last_mut()) {
            last.push_str(text);
            last.push('\n');
        }
    }
    Ok(texts)
}

fn write_texts(path: &Path, texts: &[(String, String)]) -> io::Result<()> {
    let mut out = format!("# Printed by nft {RELEASE} --debug=netlink.\n");
    for (name, text) in texts {
        write!(out, "\ncase   {name}\n").map_err(io::Error::other)?;
        for line in text.lines() {
            writeln!(out, "|{line}").map_err(io::Error::other)?;
        }
    }
    fs::write(path, out)
}
