//! Any nf_tables message as typed values, decoded and encoded without knowing beforehand which it is.
//!
//! A list that came off the wire encodes as the bytes it came from, which would prove nothing; so
//! [`Any::rebuilt`] makes every list, however deep, anew from its decoded entries.

use nl_codec::msg::{BatchBegin, Body, Head, Header, Message, Messages, MsgType, NfMsg, NftMsg};
use nl_codec::nft::expr::{Expr, ExprRef, Exprs, NestedExprs};
use nl_codec::nft::obj::{Obj, ObjData};
use nl_codec::nft::{Chain, Elem, ElemList, Flowtable, Generation, List, Rule, Set, Table};
use nl_codec::{AttrValue, DecodeError, DecodeErrorKind, EncodeError, Encoder, SliceCursor};

/// The body of any message that nft sends.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Any<'a> {
    Batch(BatchBegin),
    Table(Table<'a>),
    Chain(Chain<'a>),
    Rule(Rule<'a>),
    Set(Set<'a>),
    Elems(ElemList<'a>),
    Obj(Obj<'a>),
    Flowtable(Flowtable<'a>),
    Generation(Generation<'a>),
}

impl<'a> Any<'a> {
    pub(crate) fn decode(view: &NfMsg<'a>) -> Result<Self, DecodeError> {
        let kind = view.header.kind;
        if [MsgType::BATCH_BEGIN, MsgType::BATCH_END].contains(&kind) {
            return view.body().map(Self::Batch);
        }
        let unknown = DecodeError::new(DecodeErrorKind::WrongType, "nlmsghdr", 0);
        match kind.as_nft().ok_or(unknown)? {
            NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => {
                view.body().map(Self::Table)
            }
            NftMsg::NEW_CHAIN | NftMsg::GET_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => {
                view.body().map(Self::Chain)
            }
            NftMsg::NEW_RULE
            | NftMsg::GET_RULE
            | NftMsg::DEL_RULE
            | NftMsg::GET_RULE_RESET
            | NftMsg::DESTROY_RULE => view.body().map(Self::Rule),
            NftMsg::NEW_SET | NftMsg::GET_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => {
                view.body().map(Self::Set)
            }
            NftMsg::NEW_SETELEM
            | NftMsg::GET_SETELEM
            | NftMsg::DEL_SETELEM
            | NftMsg::GET_SETELEM_RESET
            | NftMsg::DESTROY_SETELEM => view.body().map(Self::Elems),
            NftMsg::NEW_OBJ
            | NftMsg::GET_OBJ
            | NftMsg::DEL_OBJ
            | NftMsg::GET_OBJ_RESET
            | NftMsg::DESTROY_OBJ => view.body().map(Self::Obj),
            NftMsg::NEW_FLOWTABLE
            | NftMsg::GET_FLOWTABLE
            | NftMsg::DEL_FLOWTABLE
            | NftMsg::DESTROY_FLOWTABLE => view.body().map(Self::Flowtable),
            NftMsg::NEW_GEN | NftMsg::GET_GEN => view.body().map(Self::Generation),
            _ => Err(unknown),
        }
    }

    /// With lists made anew. They are leaked: their lifetime is the message's, and this is a test.
    pub(crate) fn rebuilt(self) -> Result<Self, DecodeError> {
        Ok(match self {
            Self::Chain(body) => Self::Chain(chain(body)?),
            Self::Rule(body) => Self::Rule(rule(body)?),
            Self::Set(body) => Self::Set(set(body)?),
            Self::Elems(body) => Self::Elems(elems(body)?),
            Self::Obj(body) => Self::Obj(obj(body)?),
            Self::Flowtable(body) => Self::Flowtable(flowtable(body)?),
            other => other,
        })
    }

    /// Appends the message whose headers are those of `view`.
    pub(crate) fn encode<E: Encoder>(
        &self,
        view: &NfMsg<'_>,
        enc: &mut E,
    ) -> Result<(), EncodeError> {
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
        let mut message = Message::begin(enc, &head)?;
        match self {
            Self::Batch(body) => body.encode_body(&mut *message)?,
            Self::Table(body) => body.encode_body(&mut *message)?,
            Self::Chain(body) => body.encode_body(&mut *message)?,
            Self::Rule(body) => body.encode_body(&mut *message)?,
            Self::Set(body) => body.encode_body(&mut *message)?,
            Self::Elems(body) => body.encode_body(&mut *message)?,
            Self::Obj(body) => body.encode_body(&mut *message)?,
            Self::Flowtable(body) => body.encode_body(&mut *message)?,
            Self::Generation(body) => body.encode_body(&mut *message)?,
        }
        message.end()
    }
}

/// The nfnetlink message that `bytes` hold.
pub(crate) fn view(bytes: &[u8]) -> Result<NfMsg<'_>, DecodeError> {
    let empty = DecodeError::new(DecodeErrorKind::Truncated, "nlmsghdr", 0);
    Messages::new(bytes).next().ok_or(empty)??.nfnetlink()
}

/// Decodes one message and encodes it again from its typed values. `Err` says what went wrong.
pub(crate) fn rebuild(message: &[u8]) -> Result<Vec<u8>, String> {
    let decoded = view(message).and_then(|view| Ok((view, Any::decode(&view)?.rebuilt()?)));
    let (view, body) = decoded.map_err(|error| error.to_string())?;
    // Not zeros, so that padding which is not written shows.
    let mut buf = vec![0xa5; 1 << 17];
    let mut cursor = SliceCursor::new(&mut buf);
    let encoded = body.encode(&view, &mut cursor);
    encoded.map_err(|error| error.to_string())?;
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
    set.expr = set.expr.map(expr_ref).transpose()?;
    set.exprs = set.exprs.map(exprs).transpose()?;
    Ok(set)
}

fn elems(mut elems: ElemList<'_>) -> Result<ElemList<'_>, DecodeError> {
    elems.elems = elems.elems.map(|entries| list(entries, elem)).transpose()?;
    Ok(elems)
}

fn elem(mut elem: Elem<'_>) -> Result<Elem<'_>, DecodeError> {
    elem.expr = elem.expr.map(expr_ref).transpose()?;
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
