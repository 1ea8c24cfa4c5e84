//! A window on a JSON text that is read piece by piece: finds where values end without looking into
//! them, so that a list of any length costs the memory of its longest item.
//!
//! Only brackets and strings are followed here. Whether what is between them is JSON, the parser
//! that gets it decides.

use std::io::{self, Read};

/// Bytes read at a time.
const PIECE: u64 = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Window<R> {
    reader: R,
    buffer: Vec<u8>,
    /// Start of what is still needed.
    mark: usize,
    /// Next byte to look at.
    next: usize,
    ended: bool,
    line: usize,
    mark_line: usize,
    bytes: u64,
}

/// Why a value's end was not found.
#[derive(Debug)]
pub(super) enum Cut {
    /// The text ends first.
    End,
    /// There is no value.
    Missing,
    /// The text cannot be read.
    Io(io::Error),
}

impl From<io::Error> for Cut {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<R: Read> Window<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            mark: 0,
            next: 0,
            ended: false,
            line: 1,
            mark_line: 1,
            bytes: 0,
        }
    }

    /// Bytes read so far.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Line of the next byte, from 1.
    pub(super) fn line(&self) -> usize {
        self.line
    }

    /// Line of the mark.
    pub(super) fn mark_line(&self) -> usize {
        self.mark_line
    }

    /// Forgets everything before the next byte.
    pub(super) fn set_mark(&mut self) {
        self.mark = self.next;
        self.mark_line = self.line;
    }

    /// Goes back to the mark.
    pub(super) fn back(&mut self) {
        self.next = self.mark;
        self.line = self.mark_line;
    }

    /// Everything from the mark to the next byte.
    pub(super) fn marked(&self) -> &[u8] {
        self.buffer.get(self.mark..self.next).unwrap_or_default()
    }

    /// Everything from the mark to the end of the text.
    pub(super) fn take_rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = self.buffer.split_off(self.mark);
        self.next = self.mark;
        let read = self.reader.read_to_end(&mut rest)?;
        self.bytes += u64::try_from(read).unwrap_or(u64::MAX);
        self.ended = true;
        Ok(rest)
    }

    /// The next byte that is no blank, without taking it; `None` at the end.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            while let Some(byte) = self.buffer.get(self.next) {
                match byte {
                    b'\n' => self.line += 1,
                    b' ' | b'\t' | b'\r' => {}
                    byte => return Ok(Some(*byte)),
                }
                self.next += 1;
            }
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Takes one byte.
    pub(super) fn skip(&mut self) {
        self.next = self.buffer.len().min(self.next + 1);
    }

    /// Takes a prefix if it is next.
    pub(super) fn skip_prefix(&mut self, prefix: &[u8]) -> io::Result<()> {
        while self.buffer.len() < self.next + prefix.len() && self.more()? {}
        if self
            .buffer
            .get(self.next..)
            .is_some_and(|it| it.starts_with(prefix))
        {
            self.next += prefix.len();
        }
        Ok(())
    }

    /// Takes the value that starts at the next byte.
    pub(super) fn skip_value(&mut self) -> Result<(), Cut> {
        match self.peek()? {
            None => Err(Cut::End),
            Some(b',' | b':' | b'}' | b']') => Err(Cut::Missing),
            Some(b'{' | b'[' | b'"') => self.skip_nested(),
            Some(_) => loop {
                let rest = self.buffer.get(self.next..).unwrap_or_default();
                let ends =
                    |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t');
                if let Some(len) = rest.iter().position(ends) {
                    self.next += len;
                    return Ok(());
                }
                self.next = self.buffer.len();
                if !self.more()? {
                    return Ok(());
                }
            },
        }
    }

    /// Takes a string, or everything up to the closing bracket.
    fn skip_nested(&mut self) -> Result<(), Cut> {
        let mut depth = 0_usize;
        let mut quoted = false;
        loop {
            let rest = self.buffer.get(self.next..).unwrap_or_default();
            let mut at = 0;
            while let Some(&byte) = rest.get(at) {
                if quoted {
                    let special = |byte: &u8| matches!(byte, b'"' | b'\\');
                    let Some(len) = rest.get(at..).and_then(|it| it.iter().position(special))
                    else {
                        at = rest.len();
                        break;
                    };
                    at += len;
                    if rest.get(at) == Some(&b'\\') {
                        if at + 1 >= rest.len() {
                            // What is escaped is still to be read.
                            break;
                        }
                        at += 2;
                        continue;
                    }
                    quoted = false;
                    at += 1;
                } else {
                    at += 1;
                    match byte {
                        b'"' => {
                            quoted = true;
                            continue;
                        }
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        b'\n' => {
                            self.line += 1;
                            continue;
                        }
                        _ => continue,
                    }
                }
                if depth == 0 {
                    self.next += at;
                    return Ok(());
                }
            }
            self.next += at;
            if !self.more()? {
                return Err(Cut::End);
            }
        }
    }

    /// Reads on; `false` at the end.
    fn more(&mut self) -> io::Result<bool> {
        if self.ended {
            return Ok(false);
        }
        if self.mark > 0 {
            self.buffer.drain(..self.mark);
            self.next -= self.mark;
            self.mark = 0;
        }
        let mut piece = self.reader.by_ref().take(PIECE);
        let read = piece.read_to_end(&mut self.buffer)?;
        self.bytes += u64::try_from(read).unwrap_or(u64::MAX);
        self.ended = read == 0;
        Ok(!self.ended)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Hands out one byte at a time.
    struct Drip<'a>(&'a [u8]);

    impl Read for Drip<'_> {
        fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
            let (Some(room), Some((first, rest))) = (room.first_mut(), self.0.split_first()) else {
                return Ok(0);
            };
            (*room, self.0) = (*first, rest);
            Ok(1)
        }
    }

    fn values<R: Read>(reader: R) -> Vec<String> {
        let mut window = Window::new(reader);
        let mut values = Vec::new();
        while window.peek().unwrap().is_some() {
            window.set_mark();
            if window.skip_value().is_err() {
                values.push("cut".to_owned());
                break;
            }
            values.push(String::from_utf8(window.marked().to_vec()).unwrap());
        }
        values
    }

    #[test]
    fn brackets_in_strings_do_not_count() {
        let text = r#" {"a":"}]\"","b":["{"]} "x\\" [1,[2]] 17 true"#;
        let expected = [
            r#"{"a":"}]\"","b":["{"]}"#,
            r#""x\\""#,
            "[1,[2]]",
            "17",
            "true",
        ];
        assert_eq!(values(text.as_bytes()), expected);
        assert_eq!(values(Drip(text.as_bytes())), expected);
        for cut in [r#"{"a":1"#, r#""abc"#, r#""abc\"#, "[["] {
            assert_eq!(values(cut.as_bytes()), ["cut"], "{cut}");
        }
    }

    #[test]
    fn lines_are_counted() {
        let mut window = Window::new(Drip(b"\n\n{\n\"a\n\":1\n}\n 2"));
        window.peek().unwrap();
        window.set_mark();
        assert_eq!(window.mark_line(), 3);
        window.skip_value().unwrap();
        window.peek().unwrap();
        // A line feed inside a string is no JSON and is not counted.
        assert_eq!(window.line(), 6);
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[\\[\\]{}\",:\\\\ a1\n]{0,60}") {
            prop_assert_eq!(values(text.as_bytes()), values(Drip(text.as_bytes())));
        }
    }
}
