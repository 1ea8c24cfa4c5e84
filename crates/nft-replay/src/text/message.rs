//! A message as a line.

use nl_codec::DecodeError;
use nl_codec::msg::{Body, Flags, NfMsg, NftMsg};
use nl_codec::nft::{Chain, ElemList, Flowtable, Obj, Rule, Set, Str, Table};

use super::catalog::Catalog;
use super::object::{called, name};
use super::{Rows, chain, elements, flowtable, object, set, table};

/// A message: what nft's command would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// `add table`, `delete rule` …
    pub command: String,
    /// What follows.
    pub object: String,
}

impl core::fmt::Display for Line {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} {}", self.command, self.object)
    }
}

/// Shows a message, and of its elements `rows`.
#[must_use]
pub fn line(msg: &NfMsg<'_>, catalog: &Catalog, rows: Rows<'_>) -> Line {
    let Some(kind) = msg.header.kind.as_nft() else {
        return Line {
            command: msg.header.kind.to_string(),
            object: format!("({} bytes)", msg.attrs.len()),
        };
    };
    let shown = match subject(kind) {
        Subject::Table => body(msg, |it: &Table<'_>| table(msg.nfgen.family, it)),
        Subject::Chain => body(msg, |it: &Chain<'_>| chain_line(msg, it)),
        Subject::Rule => body(msg, |it: &Rule<'_>| rule_line(msg, it, catalog)),
        Subject::Set => body(msg, |it: &Set<'_>| set(msg.nfgen.family, it)),
        Subject::Element => body(msg, |it: &ElemList<'_>| {
            element_line(msg, it, catalog, rows)
        }),
        Subject::Object => body(msg, |it: &Obj<'_>| object(msg.nfgen.family, it)),
        Subject::Flowtable => body(msg, |it: &Flowtable<'_>| flowtable(msg.nfgen.family, it)),
        Subject::Other => Ok(format!("({} bytes)", msg.attrs.len())),
    };
    let object = shown.unwrap_or_else(|error| {
        format!(
            "{} [ {error}; {} bytes ]",
            msg.nfgen.family,
            msg.attrs.len()
        )
    });
    Line {
        command: command(kind, msg.header.flags),
        object,
    }
}

fn body<'a, B: Body<'a>>(
    msg: &NfMsg<'a>,
    show: impl FnOnce(&B) -> String,
) -> Result<String, DecodeError> {
    msg.body::<B>().map(|body| show(&body))
}

fn chain_line(msg: &NfMsg<'_>, it: &Chain<'_>) -> String {
    let mut text = chain(msg.nfgen.family, it);
    if let (Some(handle), Some(_)) = (it.handle, it.name) {
        text += &format!(" # handle {handle}");
    }
    text
}

fn rule_line(msg: &NfMsg<'_>, rule: &Rule<'_>, catalog: &Catalog) -> String {
    let family = msg.nfgen.family;
    let mut text = format!("{family} {}", name(rule.table));
    match (rule.chain, rule.chain_id) {
        (Some(chain), _) => text += &format!(" {chain}"),
        (None, Some(id)) => text += &format!(" (chain id {id})"),
        (None, None) => {}
    }
    if let Some(handle) = rule.handle {
        text += &format!(" handle {handle}");
    }
    if let Some(position) = rule.position {
        text += &format!(" position {position}");
    }
    if let Some(id) = rule.position_id {
        text += &format!(" position id {id}");
    }
    let body = super::rule(family, rule, catalog);
    if !body.is_empty() {
        text += &format!(" {body}");
    }
    text
}

fn element_line(msg: &NfMsg<'_>, list: &ElemList<'_>, catalog: &Catalog, rows: Rows<'_>) -> String {
    let family = msg.nfgen.family;
    let table = list.table.unwrap_or(Str::new(b""));
    let set = list.set.map(|set| set.as_bytes());
    let shape = catalog.find(family, table.as_bytes(), set, list.set_id);
    let set = match (list.set, list.set_id) {
        (Some(set), _) if !set.as_bytes().is_empty() => called(Some(set), None),
        (_, Some(id)) => format!("(id {id})"),
        _ => "?".to_owned(),
    };
    let shown = if list.elems.is_some() {
        elements(list, shape.as_ref(), rows)
    } else {
        String::new()
    };
    format!("{family} {} {set} {shown}", name(list.table))
        .trim_end()
        .to_owned()
}

/// Kinds of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Subject {
    Table,
    Chain,
    Rule,
    Set,
    Element,
    Object,
    Flowtable,
    Other,
}

fn subject(kind: NftMsg) -> Subject {
    match kind {
        NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => {
            Subject::Table
        }
        NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => {
            Subject::Chain
        }
        NftMsg::NEW_RULE
        | NftMsg::GET_RULE
        | NftMsg::DEL_RULE
        | NftMsg::DESTROY_RULE
        | NftMsg::GET_RULE_RESET => Subject::Rule,
        NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => Subject::Set,
        NftMsg::NEW_SETELEM
        | NftMsg::GET_SETELEM
        | NftMsg::DEL_SETELEM
        | NftMsg::DESTROY_SETELEM
        | NftMsg::GET_SETELEM_RESET => Subject::Element,
        NftMsg::NEW_OBJ
        | NftMsg::GET_OBJ
        | NftMsg::DEL_OBJ
        | NftMsg::DESTROY_OBJ
        | NftMsg::GET_OBJ_RESET => Subject::Object,
        NftMsg::NEW_FLOWTABLE
        | NftMsg::GET_FLOWTABLE
        | NftMsg::DEL_FLOWTABLE
        | NftMsg::DESTROY_FLOWTABLE => Subject::Flowtable,
        _ => Subject::Other,
    }
}

fn command(kind: NftMsg, flags: Flags) -> String {
    let noun = match subject(kind) {
        Subject::Table => "table",
        Subject::Chain => "chain",
        Subject::Rule => "rule",
        Subject::Set => "set",
        Subject::Element => "element",
        // The kind of object follows.
        Subject::Object => "",
        Subject::Flowtable => "flowtable",
        Subject::Other => return kind.to_string(),
    };
    let name = kind.name().unwrap_or_default();
    let verb = if name.starts_with("get") {
        "list"
    } else if name.starts_with("destroy") {
        "destroy"
    } else if name.starts_with("del") {
        "delete"
    } else {
        match subject(kind) {
            Subject::Rule if flags.contains(Flags::REPLACE) => "replace",
            Subject::Rule if !flags.contains(Flags::APPEND) => "insert",
            _ if flags.contains(Flags::EXCL) => "create",
            _ => "add",
        }
    };
    format!("{verb} {noun}").trim_end().to_owned()
}
