//! Comparisons and masks, put as nft puts them.

use nl_codec::nft::DataType;
use nl_codec::nft::expr::CmpOp;

use super::operand::Operand;
use super::value;

pub(super) fn sign(op: CmpOp) -> &'static str {
    match op {
        CmpOp::EQ => "",
        CmpOp::NEQ => "!= ",
        CmpOp::LT => "< ",
        CmpOp::LTE => "<= ",
        CmpOp::GT => "> ",
        CmpOp::GTE => ">= ",
        _ => "? ",
    }
}

/// A comparison, with masks and prefixes put as nft puts them.
pub(super) fn compared(operand: &Operand, op: CmpOp, bytes: &[u8]) -> String {
    let sign = sign(op);
    if let Some(whole) = operand.whole {
        let mut padded = bytes.to_vec();
        padded.resize(whole, 0);
        let address = value::plain(operand.kind, &padded, None);
        return format!("{} {sign}{address}/{}", operand.text, bytes.len() * 8);
    }
    let shown = value::plain(operand.kind, bytes, operand.order);
    let Some(mask) = &operand.mask else {
        return format!("{} {sign}{shown}", operand.text);
    };
    let bare = operand.text.split(" & ").next().unwrap_or_default();
    let is_zero = bytes.iter().all(|byte| *byte == 0);
    match operand.kind {
        DataType::IPV4_ADDR | DataType::IPV6_ADDR => match prefix_len(mask) {
            Some(len) => format!("{bare} {sign}{shown}/{len}"),
            None => format!("{} {sign}{shown}", operand.text),
        },
        DataType::CT_STATE if is_zero && op == CmpOp::NEQ => {
            format!("{bare} {}", value::plain(operand.kind, mask, None))
        }
        DataType::CT_STATE if is_zero && op == CmpOp::EQ => {
            format!("{bare} ! {}", value::plain(operand.kind, mask, None))
        }
        _ => {
            let sign = if sign.is_empty() { "== " } else { sign };
            format!("{} {sign}{shown}", operand.text)
        }
    }
}

/// `(text & mask) ^ xor`, as and, or, xor where it is one of these.
pub(super) fn masked(text: &str, kind: DataType, len: usize, mask: &[u8], xor: &[u8]) -> Operand {
    let shown = |bytes: &[u8]| value::plain(kind, bytes, None);
    let all_zero = |bytes: &[u8]| bytes.iter().all(|byte| *byte == 0);
    let all_ones = mask.iter().all(|byte| *byte == 0xff);
    let or = mask.len() == xor.len() && mask.iter().zip(xor).all(|(mask, xor)| !mask == *xor);
    let mut operand = Operand::new("", kind, len);
    operand.text = if all_zero(xor) {
        operand.mask = Some(mask.to_vec());
        format!("{text} & {}", shown(mask))
    } else if or {
        format!("{text} | {}", shown(xor))
    } else if all_ones {
        format!("{text} ^ {}", shown(xor))
    } else {
        format!("{text} & {} ^ {}", shown(mask), shown(xor))
    };
    operand
}

fn prefix_len(mask: &[u8]) -> Option<u32> {
    let mut len = 0;
    let mut bytes = mask.iter();
    for byte in bytes.by_ref() {
        len += byte.leading_ones();
        if *byte != 0xff {
            if byte.leading_ones() + byte.trailing_zeros() < 8 {
                return None;
            }
            break;
        }
    }
    bytes.all(|byte| *byte == 0).then_some(len)
}
