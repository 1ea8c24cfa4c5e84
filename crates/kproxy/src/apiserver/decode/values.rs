//! JSON as it comes in: where values end, without looking into them.

use super::{DecodeError, ListEnd};
use crate::apiserver::gather::{Gathered, MOST};

/// Splits a stream of JSON values, as a watch sends them.
#[derive(Debug, Default)]
pub(super) struct Values {
    gathered: Gathered,
    scan: Scan,
}

impl Values {
    /// Takes the next bytes; `on_value` gets each value that is complete.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut on_value: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        let scan = &mut self.scan;
        self.gathered.push(bytes, |rest| {
            if scan.is_new() {
                let blanks = blanks(rest);
                if blanks > 0 {
                    return Ok(Some(blanks));
                }
            }
            match scan.end(rest) {
                Some(length) => {
                    on_value(rest.get(..length).unwrap_or_default())?;
                    Ok(Some(length))
                }
                None => limited(rest),
            }
        })
    }

    /// Whether the last value was complete.
    pub(super) fn is_complete(&self) -> bool {
        self.gathered.is_empty()
    }
}

/// Splits a list into its items.
#[derive(Debug, Default)]
pub(super) struct ListValues {
    gathered: Gathered,
    scan: Scan,
    at: At,
    key: String,
    end: ListEnd,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum At {
    /// Before `{`.
    #[default]
    Start,
    /// A field name, `,` or `}`.
    Key,
    /// `:`
    Colon,
    /// A field's value.
    Value,
    /// An item, `,` or `]`.
    Item,
    /// After `}`.
    End,
}

impl ListValues {
    /// Takes the next bytes; `on_item` gets each item that is complete.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut on_item: impl FnMut(&[u8]),
    ) -> Result<(), DecodeError> {
        let mut gathered = core::mem::take(&mut self.gathered);
        let result = gathered.push(bytes, |rest| self.step(rest, &mut on_item));
        self.gathered = gathered;
        result
    }

    /// What the list says of itself, if it came to its end.
    pub(super) fn finish(self) -> Result<ListEnd, DecodeError> {
        if self.at == At::End && self.gathered.is_empty() {
            Ok(self.end)
        } else {
            Err(DecodeError::Cut)
        }
    }

    fn step(
        &mut self,
        rest: &[u8],
        on_item: &mut impl FnMut(&[u8]),
    ) -> Result<Option<usize>, DecodeError> {
        let Some(&first) = rest.first() else {
            return Ok(None);
        };
        if self.scan.is_new() && first.is_ascii_whitespace() {
            return Ok(Some(blanks(rest)));
        }
        let next = match (self.at, first) {
            (At::Start, b'{') | (At::Key, b',') => At::Key,
            (At::Key, b'}') => At::End,
            (At::Colon, b':') => At::Value,
            (At::Value, b'[') if self.scan.is_new() && self.key == "items" => At::Item,
            (At::Item, b',') if self.scan.is_new() => At::Item,
            (At::Item, b']') if self.scan.is_new() => At::Key,
            (At::Key | At::Value | At::Item, _) => {
                let Some(length) = self.scan.end(rest) else {
                    return limited(rest);
                };
                self.value(rest.get(..length).unwrap_or_default(), on_item)?;
                return Ok(Some(length));
            }
            _ => return Err(DecodeError::NoList),
        };
        self.at = next;
        Ok(Some(1))
    }

    fn value(&mut self, text: &[u8], on_item: &mut impl FnMut(&[u8])) -> Result<(), DecodeError> {
        match self.at {
            At::Key => {
                self.key = serde_json::from_slice(text)?;
                self.at = At::Colon;
            }
            At::Item => on_item(text),
            _ => {
                if self.key == "metadata" {
                    let meta: Option<ListMeta> = serde_json::from_slice(text)?;
                    let meta = meta.unwrap_or_default();
                    self.end = ListEnd {
                        version: meta.resource_version,
                        continuation: meta.r#continue,
                    };
                }
                self.at = At::Key;
            }
        }
        Ok(())
    }
}

#[derive(Debug, Default, serde::Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    resource_version: String,
    r#continue: String,
}

fn blanks(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .take_while(|byte| byte.is_ascii_whitespace())
        .count()
}

fn limited(rest: &[u8]) -> Result<Option<usize>, DecodeError> {
    if rest.len() > MOST {
        return Err(DecodeError::TooLong);
    }
    Ok(None)
}

/// How far a value was looked at.
#[derive(Debug, Clone, Copy, Default)]
struct Scan {
    seen: usize,
    depth: usize,
    quoted: bool,
    escaped: bool,
}

impl Scan {
    const fn is_new(&self) -> bool {
        self.seen == 0
    }

    /// Where the value that `rest` begins with ends; `None` if it goes on. Then the next call gets
    /// the same bytes and more.
    fn end(&mut self, rest: &[u8]) -> Option<usize> {
        for (i, &byte) in rest.iter().enumerate().skip(self.seen) {
            if self.quoted {
                match byte {
                    _ if self.escaped => self.escaped = false,
                    b'\\' => self.escaped = true,
                    b'"' => {
                        self.quoted = false;
                        if self.depth == 0 {
                            return self.found(i + 1);
                        }
                    }
                    _ => {}
                }
                continue;
            }
            match byte {
                b'"' if self.depth == 0 && i > 0 => return self.found(i),
                b'"' => self.quoted = true,
                b'{' | b'[' if self.depth == 0 && i > 0 => return self.found(i),
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth <= 1 => {
                    // A bracket that closes nothing ends a number or a word.
                    let inclusive = self.depth == 1 || i == 0;
                    return self.found(i + usize::from(inclusive));
                }
                b'}' | b']' => self.depth -= 1,
                b',' | b':' | b' ' | b'\t' | b'\r' | b'\n' if self.depth == 0 => {
                    return self.found(i.max(1));
                }
                _ => {}
            }
        }
        self.seen = rest.len();
        None
    }

    fn found(&mut self, length: usize) -> Option<usize> {
        *self = Self::default();
        Some(length)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn values(pieces: &[&[u8]]) -> (Vec<String>, bool) {
        let mut values = Values::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let pushed = values.push(piece, |value| {
                seen.push(String::from_utf8(value.to_vec()).unwrap());
                Ok(())
            });
            pushed.unwrap();
        }
        (seen, values.is_complete())
    }

    fn one_by_one(text: &str) -> Vec<&[u8]> {
        text.as_bytes().chunks(1).collect()
    }

    #[test]
    fn values_end_where_their_brackets_do() {
        let text = "{\"a\":\"}]\\\"\",\"b\":[\"{\"]}\n {\"x\":1}\n[1,[2]]\n";
        let expected = ["{\"a\":\"}]\\\"\",\"b\":[\"{\"]}", "{\"x\":1}", "[1,[2]]"];
        assert_eq!(
            values(&[text.as_bytes()]),
            (expected.map(Into::into).to_vec(), true)
        );
        assert_eq!(
            values(&one_by_one(text)),
            (expected.map(Into::into).to_vec(), true)
        );
        assert_eq!(values(&[b"{\"a\":"]), (Vec::new(), false));
    }

    fn list(pieces: &[&[u8]]) -> (Vec<String>, Result<ListEnd, DecodeError>) {
        let mut list = ListValues::default();
        let mut seen = Vec::new();
        for piece in pieces {
            let pushed = list.push(piece, |item| {
                seen.push(String::from_utf8(item.to_vec()).unwrap());
            });
            if let Err(error) = pushed {
                return (seen, Err(error));
            }
        }
        (seen, list.finish())
    }

    #[test]
    fn lists_are_taken_apart_wherever_their_metadata_is() {
        let before = r#"{"kind":"ServiceList","metadata":{"resourceVersion":"7","continue":"x"},
            "items":[{"a":1}, {"items":[2]}]}
"#;
        let after = r#"{"items":[{"a":1},{"items":[2]}],"n":1,"metadata":{"resourceVersion":"7","continue":"x"}}"#;
        for text in [before, after] {
            for pieces in [vec![text.as_bytes()], one_by_one(text)] {
                let (items, end) = list(&pieces);
                assert_eq!(items, [r#"{"a":1}"#, r#"{"items":[2]}"#]);
                let end = end.unwrap();
                assert_eq!(
                    (end.version.as_str(), end.continuation.as_str()),
                    ("7", "x")
                );
            }
        }
        for empty in [r#"{"items":null,"metadata":null}"#, r#"{"items":[]}"#, "{}"] {
            let (items, end) = list(&one_by_one(empty));
            assert!(items.is_empty());
            assert_eq!(end.unwrap(), ListEnd::default());
        }
    }

    #[test]
    fn a_cut_list_has_no_end() {
        let text = r#"{"metadata":{"resourceVersion":"7"},"items":[{"a":1},{"b":2}]}"#;
        for length in 0..text.len() {
            let (_, end) = list(&[&text.as_bytes()[..length]]);
            assert!(end.is_err(), "{length}");
        }
        for wrong in ["[]", "{\"items\":[]}}", "{}x", "1"] {
            assert!(list(&[wrong.as_bytes()]).1.is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[\\[\\]{}\",:\\\\ a1\n]{0,60}", size in 1..7_usize) {
            let pieces: Vec<_> = text.as_bytes().chunks(size).collect();
            prop_assert_eq!(values(&[text.as_bytes()]), values(&pieces));
            let (whole, end) = list(&[text.as_bytes()]);
            let (cut, cut_end) = list(&pieces);
            prop_assert_eq!(end.is_ok(), cut_end.is_ok());
            prop_assert_eq!(whole, cut);
        }
    }
}
