//! YAML as Kubernetes reads it (sigs.k8s.io/yaml over go-yaml 2): what its words and numbers come to as JSON.

use std::string::FromUtf8Error;

use serde_json::{Number, Value};

/// The order of UTF-16's bytes, by the byte order mark that begins a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Utf16 {
    Little,
    Big,
}

impl Utf16 {
    pub(crate) const ALL: [Self; 2] = [Self::Little, Self::Big];

    /// The mark.
    pub(crate) const fn mark(self) -> [u8; 2] {
        match self {
            Self::Little => [0xff, 0xfe],
            Self::Big => [0xfe, 0xff],
        }
    }

    /// The text behind the mark.
    pub(crate) fn decode(self, bytes: &[u8]) -> String {
        let unit = match self {
            Self::Little => u16::from_le_bytes,
            Self::Big => u16::from_be_bytes,
        };
        let units = bytes.as_chunks().0.iter().map(|bytes| unit(*bytes));
        char::decode_utf16(units)
            .map(|it| it.unwrap_or(char::REPLACEMENT_CHARACTER))
            .collect()
    }
}

/// A text in UTF-8, or in UTF-16 with a byte order mark.
///
/// # Errors
/// When it is neither.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, FromUtf8Error> {
    for order in Utf16::ALL {
        if let Some(rest) = bytes.strip_prefix(&order.mark()) {
            return Ok(order.decode(rest));
        }
    }
    String::from_utf8(bytes)
}

/// What a number becomes on its way through Go's `float64` to JSON: 80.0 and 8e1 are the integer 80.
pub(crate) fn whole_number(number: f64) -> Option<i64> {
    let whole = format!("{number:.0}").parse().ok();
    whole.filter(|_| number.fract() == 0.0)
}

/// The same value with all its whole numbers as integers; none if they are already.
pub(crate) fn with_whole_numbers(value: &Value) -> Option<Value> {
    let mut changed = value.clone();
    make_whole(&mut changed).then_some(changed)
}

fn make_whole(value: &mut Value) -> bool {
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().and_then(whole_number);
            if let Some(whole) = whole {
                *number = Number::from(whole);
            }
            whole.is_some()
        }
        Value::Array(items) => items
            .iter_mut()
            .fold(false, |changed, item| make_whole(item) | changed),
        Value::Object(fields) => fields
            .values_mut()
            .fold(false, |changed, field| make_whole(field) | changed),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_numbers_are_integers() {
        let value = json!({"a": [80.0, 1.5, "8.0"], "b": {"c": -1e3}, "d": 1e40});
        let whole = json!({"a": [80, 1.5, "8.0"], "b": {"c": -1000}, "d": 1e40});
        assert_eq!(with_whole_numbers(&value), Some(whole.clone()));
        assert_eq!(with_whole_numbers(&whole), None);
    }

    #[test]
    fn texts_are_told_by_their_mark() {
        for order in Utf16::ALL {
            let units = "\u{feff}ä".encode_utf16();
            let bytes = units.flat_map(|unit| match order {
                Utf16::Little => unit.to_le_bytes(),
                Utf16::Big => unit.to_be_bytes(),
            });
            assert_eq!(text(bytes.collect()).unwrap(), "ä");
        }
        assert_eq!(text("ä".into()).unwrap(), "ä");
        assert!(text(vec![0xe4]).is_err());
    }
}
