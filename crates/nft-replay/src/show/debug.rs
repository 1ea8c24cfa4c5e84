//! Messages as `nft --debug=netlink` shows them.

use core::fmt::Write as _;

use nl_codec::DecodeError;
use nl_codec::msg::{NfMsg, NftMsg};
use nl_codec::nft::{Chain, ElemList, Flowtable, Obj, Rule, Set, Table};
use nl_codec::pretty::{ChainText, ElemsText, FlowtableText, ObjText, RuleText, SetText};

/// Appends a message. Writing to a string cannot fail.
pub(super) fn message(out: &mut String, msg: &NfMsg<'_>) {
    let header = msg.header;
    let _ = writeln!(
        out,
        "  {} flags {:#x} seq {} family {}",
        header.kind,
        header.flags.bits(),
        header.seq,
        msg.nfgen.family
    );
    let shown = body(msg).unwrap_or_else(|error| format!("[ {error} ]"));
    for line in shown.lines().filter(|line| !line.is_empty()) {
        let _ = writeln!(out, "    {line}");
    }
}

/// The attributes alone; nothing for messages of other subsystems.
pub(super) fn body(msg: &NfMsg<'_>) -> Result<String, DecodeError> {
    let family = msg.nfgen.family;
    let Some(kind) = msg.header.kind.as_nft() else {
        return Ok(String::new());
    };
    Ok(match kind {
        NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => {
            let table = msg.body::<Table<'_>>()?;
            let flags = table.flags.map_or(0, |flags| flags.bits());
            let name = table.name.map_or_else(String::new, |name| name.to_string());
            format!("table {name} {family} flags {flags:x}")
        }
        NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => {
            let chain = &msg.body::<Chain<'_>>()?;
            ChainText { family, chain }.to_string()
        }
        NftMsg::NEW_RULE | NftMsg::GET_RULE | NftMsg::DEL_RULE | NftMsg::DESTROY_RULE => {
            let rule = &msg.body::<Rule<'_>>()?;
            RuleText { family, rule }.to_string()
        }
        NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => {
            SetText(&msg.body::<Set<'_>>()?).to_string()
        }
        NftMsg::NEW_SETELEM
        | NftMsg::GET_SETELEM
        | NftMsg::DEL_SETELEM
        | NftMsg::DESTROY_SETELEM => {
            let text = ElemsText(&msg.body::<ElemList<'_>>()?).to_string();
            text.replace('\t', "\n")
        }
        NftMsg::NEW_OBJ | NftMsg::GET_OBJ | NftMsg::DEL_OBJ | NftMsg::DESTROY_OBJ => {
            ObjText(&msg.body::<Obj<'_>>()?).to_string()
        }
        NftMsg::NEW_FLOWTABLE
        | NftMsg::GET_FLOWTABLE
        | NftMsg::DEL_FLOWTABLE
        | NftMsg::DESTROY_FLOWTABLE => FlowtableText(&msg.body::<Flowtable<'_>>()?).to_string(),
        _ => String::new(),
    })
}
