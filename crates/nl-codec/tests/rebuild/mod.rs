//! A message decoded into typed values and encoded anew from them.
//!
//! A list that came off the wire encodes as the bytes it came from, which would prove nothing; so
//! every list, however deep, is rebuilt here from its decoded entries.

use nl_codec::msg::{BatchBegin, Body, Head, Header, Message, Messages, MsgType, NfMsg, NftMsg};
use nl_codec::nft::expr::{Expr, ExprRef, Exprs, NestedExprs};
use nl_codec::nft::obj::{Obj, ObjData};
use nl_codec::nft::{Chain, Elem, ElemList, Flowtable, Generation, List, Rule, Set, Table};
use nl_codec::{AttrValue, DecodeError, SliceCursor};

/// Decodes one message and encodes it again. `Err` holds what went wrong.
pub(crate) fn rebuild(message: &[u8]) -> Result<Vec<u8>, String> {
    let view = Messages::new(message).next().ok_or("empty")?;
    let view = view.and_then(|view| view.nfnetlink());
    let view = view.map_err(|error| error.to_string())?;
    let kind = view.header.kind;
    if kind == MsgType::BATCH_BEGIN {
        return body(&view, |begin: BatchBegin| Ok(begin));
    }
    if kind == MsgType::BATCH_END {
        return encode::<BatchBegin>(&view, &BatchBegin::default());
    }
    match kind.as_nft().ok_or("not of nf_tables")? {
        NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => {
            body(&view, |table: Table<'_>| Ok(table))
        }
        NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => {
            body(&view, chain)
        }
        NftMsg::NEW_RULE
        | NftMsg::GET_RULE
        | NftMsg::DEL_RULE
        | NftMsg::GET_RULE_RESET
        | NftMsg::DESTROY_RULE => body(&view, rule),
        NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => {
            body(&view, set)
        }
        NftMsg::NEW_SETELEM
        | NftMsg::GET_SETELEM
        | NftMsg::DEL_SETELEM
        | NftMsg::GET_SETELEM_RESET
        | NftMsg::DESTROY_SETELEM => body(&view, elems),
        NftMsg::NEW_GEN | NftMsg::GET_GEN => {
            body(&view, |generation: Generation<'_>| Ok(generation))
        }
        NftMsg::NEW_OBJ
        | NftMsg::GET_OBJ
        | NftMsg::DEL_OBJ
        | NftMsg::GET_OBJ_RESET
        | NftMsg::DESTROY_OBJ => body(&view, obj),
        NftMsg::NEW_FLOWTABLE
        | NftMsg::GET_FLOWTABLE
        | NftMsg::DEL_FLOWTABLE
        | NftMsg::DESTROY_FLOWTABLE => body(&view, flowtable),
        other => Err(format!("no body type for {other}")),
    }
}

/// What libnftnl numbers and the kernel does not look at: the attribute types of the entries in an
/// element message's list, 1, 2, 3 …, where the kernel's headers say `NFTA_LIST_ELEM` for all.
pub(crate) fn with_plain_list_types(message: &[u8]) -> Vec<u8> {
    let mut message = message.to_vec();
    let Some(&[kind, 10]) = message.get(4..6) else {
        return message;
    };
    if !matches!(kind, 12..=14 | 30 | 33) {
        return message;
    }
    let mut at = 20;
    while let Some((len, kind)) = attr_at(&message, at) {
        if kind == 0x8003 {
            let (mut inner, end) = (at + 4, at + len);
            while inner < end
                && let Some((len, _)) = attr_at(&message, inner)
            {
                message[inner + 2..inner + 4].copy_from_slice(&0x8001_u16.to_ne_bytes());
                inner += len.next_multiple_of(4);
            }
        }
        at += len.next_multiple_of(4);
    }
    message
}

/// The same attributes with siblings in order of their types. libnftnl and nft put them in several
/// orders, and the kernel takes any.
pub(crate) fn sorted(message: &[u8]) -> Vec<u8> {
    let (head, attrs) = message.split_at(message.len().min(20));
    [head, &sorted_attrs(attrs)].concat()
}

fn sorted_attrs(mut attrs: &[u8]) -> Vec<u8> {
    let mut entries = Vec::new();
    while let Some((len, kind)) = attr_at(attrs, 0) {
        let (attr, rest) = attrs.split_at(len.next_multiple_of(4).min(attrs.len()));
        let mut attr = attr.to_vec();
        if kind & 0x8000 != 0 {
            let inner = sorted_attrs(&attr[4..]);
            attr.splice(4.., inner);
        }
        entries.push((kind & 0x3fff, attr));
        attrs = rest;
    }
    entries.sort_by_key(|(kind, _)| *kind);
    let mut out = entries
        .into_iter()
        .flat_map(|(_, attr)| attr)
        .collect::<Vec<_>>();
    out.extend(attrs);
    out
}

fn attr_at(message: &[u8], at: usize) -> Option<(usize, u16)> {
    let header = message.get(at..)?.first_chunk::<4>()?;
    let len = usize::from(u16::from_ne_bytes([header[0], header[1]]));
    (len >= 4).then_some((len, u16::from_ne_bytes([header[2], header[3]])))
}

fn body<'a, B: Body<'a>>(
    view: &NfMsg<'a>,
    rebuilt: impl Fn(B) -> Result<B, DecodeError>,
) -> Result<Vec<u8>, String> {
    let decoded = view.body::<B>().and_then(rebuilt);
    encode(view, &decoded.map_err(|error| error.to_string())?)
}

fn encode<'a, B: Body<'a>>(view: &NfMsg<'_>, body: &B) -> Result<Vec<u8>, String> {
    let Header {
        kind,
        flags,
        seq,
        port,
        ..
    } = view.header;
    let mut head = Head::new(kind, view.nfgen.family).with_seq(seq);
    head.flags = flags;
    head.port = port;
    head.res_id = view.nfgen.res_id;
    let mut buf = vec![0xa5; 1 << 17];
    let mut cursor = SliceCursor::new(&mut buf);
    let mut encode = || {
        let mut message = Message::begin(&mut cursor, &head)?;
        body.encode_body(&mut *message)?;
        message.end()
    };
    encode().map_err(|error| error.to_string())?;
    Ok(cursor.written().to_vec())
}

fn chain(mut chain: Chain<'_>) -> Result<Chain<'_>, DecodeError> {
    if let Some(hook) = &mut chain.hook {
        hook.devices = hook.devices.map(|devices| list(devices, Ok)).transpose()?;
    }
    Ok(chain)
}

fn rule(mut rule: Rule<'_>) -> Result<Rule<'_>, DecodeError> {
    rule.exprs = rule.exprs.map(exprs).transpose()?;
    Ok(rule)
}

fn set(mut set: Set<'_>) -> Result<Set<'_>, DecodeError> {
    if let Some(desc) = &mut set.desc {
        desc.concat = desc.concat.map(|fields| list(fields, Ok)).transpose()?;
    }
    set.expr = set.expr.map(expr).transpose()?;
    set.exprs = set.exprs.map(exprs).transpose()?;
    Ok(set)
}

fn elems(mut elems: ElemList<'_>) -> Result<ElemList<'_>, DecodeError> {
    elems.elems = elems.elems.map(|entries| list(entries, elem)).transpose()?;
    Ok(elems)
}

fn elem(mut elem: Elem<'_>) -> Result<Elem<'_>, DecodeError> {
    elem.expr = elem.expr.map(expr).transpose()?;
    elem.exprs = elem.exprs.map(exprs).transpose()?;
    Ok(elem)
}

fn obj(mut obj: Obj<'_>) -> Result<Obj<'_>, DecodeError> {
    if let Some(ObjData::CtTimeout(timeout)) = &mut obj.data {
        let timeouts = timeout.timeouts;
        timeout.timeouts = timeouts.map(|entries| list(entries, Ok)).transpose()?;
    }
    Ok(obj)
}

fn flowtable(mut table: Flowtable<'_>) -> Result<Flowtable<'_>, DecodeError> {
    if let Some(hook) = &mut table.hook {
        hook.devices = hook.devices.map(|devices| list(devices, Ok)).transpose()?;
    }
    Ok(table)
}

fn exprs(list_of: Exprs<'_>) -> Result<Exprs<'_>, DecodeError> {
    list(list_of, expr)
}

fn nested_exprs(nested: NestedExprs<'_>) -> Result<NestedExprs<'_>, DecodeError> {
    entries(*nested.exprs(), expr).map(NestedExprs::new)
}

fn expr(expr: Expr<'_>) -> Result<Expr<'_>, DecodeError> {
    Ok(match expr {
        Expr::Dynset(mut dynset) => {
            dynset.expr = dynset.expr.map(expr_ref).transpose()?;
            dynset.exprs = dynset.exprs.map(nested_exprs).transpose()?;
            dynset.into()
        }
        Expr::Inner(mut inner) => {
            inner.expr = inner.expr.map(expr_ref).transpose()?;
            inner.into()
        }
        other => other,
    })
}

fn expr_ref(inner: ExprRef<'_>) -> Result<ExprRef<'_>, DecodeError> {
    Ok(ExprRef::new(Box::leak(Box::new(expr(inner.expr()?)?))))
}

fn list<'a, T: AttrValue<'a> + Copy>(
    list: List<'a, T>,
    rebuilt: impl Fn(T) -> Result<T, DecodeError>,
) -> Result<List<'a, T>, DecodeError> {
    entries(list, rebuilt).map(List::new)
}

/// The entries of a list in memory. Leaks them: their lifetime is the message's, and this is a test.
fn entries<'a, T: AttrValue<'a> + Copy>(
    list: List<'a, T>,
    rebuilt: impl Fn(T) -> Result<T, DecodeError>,
) -> Result<&'a [T], DecodeError> {
    let entries = list.iter().map(|entry| rebuilt(entry?));
    Ok(entries.collect::<Result<Vec<_>, _>>()?.leak())
}
