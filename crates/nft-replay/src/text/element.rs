//! Elements of sets and maps.

use core::fmt::Write as _;

use nl_codec::nft::elem::ElemFlags;
use nl_codec::nft::{Data, DataType, Elem, ElemList, Verdict, udata};

use super::catalog::SetShape;
use super::value::{self, duration, joined, split};

/// An element as between nft's braces.
#[must_use]
pub fn element(elem: &Elem<'_>, shape: Option<&SetShape>) -> String {
    let flags = elem.flags.unwrap_or(ElemFlags::empty());
    let mut text = match (&elem.key, &elem.key_end) {
        _ if flags.contains(ElemFlags::CATCHALL) => "*".to_owned(),
        (Some(key), Some(end)) => range(key, end, shape),
        (Some(key), None) => data(
            key,
            shape.map(|shape| shape.key),
            |shape| shape.key_order,
            shape,
        ),
        (None, _) => "?".to_owned(),
    };
    // Writing to a string cannot fail.
    if flags.contains(ElemFlags::INTERVAL_END) {
        text += " (end of an interval)";
    }
    if let Some(timeout) = elem.timeout {
        let _ = write!(text, " timeout {}", duration(timeout));
    }
    if let Some(left) = elem.expiration {
        let _ = write!(text, " expires {}", duration(left));
    }
    let exprs = elem.exprs.iter().flatten().filter_map(Result::ok);
    let expr = elem.expr.and_then(|expr| expr.expr().ok());
    for expr in expr.into_iter().chain(exprs) {
        let _ = write!(text, " {}", super::statement::stateful(&expr));
    }
    if let Some(comment) = elem.userdata.and_then(udata::comment) {
        let _ = write!(text, " comment \"{comment}\"");
    }
    if let Some(value) = &elem.data {
        let shown = data(
            value,
            shape.and_then(|shape| shape.data),
            |shape| shape.data_order,
            shape,
        );
        let _ = write!(text, " : {shown}");
    }
    if let Some(name) = elem.objref {
        let _ = write!(text, " : \"{name}\"");
    }
    text
}

/// Which elements of a message are shown.
#[derive(Clone, Copy)]
pub struct Rows<'r> {
    /// At most so many.
    pub most: usize,
    /// Only those of which this is true.
    pub wanted: &'r dyn Fn(&str) -> bool,
}

impl Rows<'_> {
    /// All of them.
    pub const ALL: Rows<'static> = Rows {
        most: usize::MAX,
        wanted: &|_| true,
    };
    /// None of them.
    pub const NONE: Rows<'static> = Rows {
        most: 0,
        wanted: &|_| true,
    };
}

impl core::fmt::Debug for Rows<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Rows")
            .field("most", &self.most)
            .finish_non_exhaustive()
    }
}

/// The elements of a message.
#[must_use]
pub fn elements(list: &ElemList<'_>, shape: Option<&SetShape>, rows: Rows<'_>) -> String {
    let mut shown = Vec::new();
    let mut left_out = 0_usize;
    for elem in list.elems.iter().flatten() {
        if shown.len() >= rows.most {
            left_out += 1;
            continue;
        }
        let text = match elem {
            Ok(elem) => element(&elem, shape),
            Err(error) => format!("[ {error} ]"),
        };
        if (rows.wanted)(&text) {
            shown.push(text);
        } else {
            left_out += 1;
        }
    }
    if left_out > 0 {
        shown.push(format!("… {left_out} more"));
    }
    format!("{{ {} }}", shown.join(", "))
}

fn data(
    data: &Data<'_>,
    kind: Option<DataType>,
    order: impl Fn(&SetShape) -> Option<nl_codec::nft::dtype::ByteOrder>,
    shape: Option<&SetShape>,
) -> String {
    match (data, kind) {
        (Data::Value(bytes), Some(kind)) => joined(kind, bytes.as_bytes(), shape.and_then(order)),
        (Data::Value(bytes), None) => value::hex(bytes.as_bytes()),
        (Data::Verdict(target), _) => verdict(target),
        _ => "?".to_owned(),
    }
}

/// The ends of a concatenated interval, part by part: as a prefix where they are one.
fn range(from: &Data<'_>, to: &Data<'_>, shape: Option<&SetShape>) -> String {
    let (Data::Value(from), Data::Value(to)) = (from, to) else {
        return "?".to_owned();
    };
    let kind = shape.map_or(DataType(0), |shape| shape.key);
    let from = split(kind, from.as_bytes());
    let to = split(kind, to.as_bytes());
    let parts = from.iter().zip(&to).map(|((kind, from), (_, to))| {
        if from == to {
            return value::plain(*kind, from, None);
        }
        let first = value::plain(*kind, from, None);
        match prefix(from, to) {
            Some(len) => format!("{first}/{len}"),
            None => format!("{first}-{}", value::plain(*kind, to, None)),
        }
    });
    parts.collect::<Vec<_>>().join(" . ")
}

/// Length of the prefix that an interval is, for addresses.
fn prefix(from: &[u8], to: &[u8]) -> Option<usize> {
    if !matches!(from.len(), 4 | 16) {
        return None;
    }
    let same = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let (a, b) = (from.get(same)?, to.get(same)?);
    let bits = (a ^ b).leading_zeros();
    let mask = 0xff_u8.checked_shr(bits)?;
    let rest_from = from.get(same + 1..)?.iter().all(|byte| *byte == 0);
    let rest_to = to.get(same + 1..)?.iter().all(|byte| *byte == 0xff);
    let whole = a & mask == 0 && b & mask == mask && rest_from && rest_to;
    whole.then_some(same * 8 + usize::try_from(bits).ok()?)
}

/// A verdict as nft writes it.
pub(super) fn verdict(verdict: &Verdict<'_>) -> String {
    let code = verdict
        .code
        .map_or_else(|| "?".to_owned(), |code| code.to_string());
    match (verdict.chain, verdict.chain_id) {
        (Some(chain), _) => format!("{code} {chain}"),
        (None, Some(id)) => format!("{code} chain id {id}"),
        (None, None) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_that_are_prefixes() {
        assert_eq!(prefix(&[10, 0, 0, 0], &[10, 0, 255, 255]), Some(16));
        assert_eq!(prefix(&[10, 0, 0, 0], &[10, 0, 0, 127]), Some(25));
        assert_eq!(prefix(&[10, 0, 0, 1], &[10, 0, 0, 127]), None);
        assert_eq!(prefix(&[0; 4], &[255; 4]), Some(0));
        assert_eq!(prefix(&[0, 80], &[0, 90]), None);
    }
}
