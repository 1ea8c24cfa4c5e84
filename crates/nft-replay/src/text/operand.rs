//! What registers hold while a rule is read.

use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::{DataType, Register};

use super::value;

/// Registers of 4 bytes.
const WORDS: usize = 16;

/// What was loaded into a register.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Operand {
    /// In nft's words.
    pub(super) text: String,
    /// Its type.
    pub(super) kind: DataType,
    /// Its length in bytes.
    pub(super) len: usize,
    /// Bytes of a constant.
    pub(super) constant: Option<Vec<u8>>,
    /// It was masked, and with nothing else.
    pub(super) mask: Option<Vec<u8>>,
    /// It is the beginning of a longer field.
    pub(super) whole: Option<usize>,
    /// Byte order, if not the type's.
    pub(super) order: Option<ByteOrder>,
}

impl Operand {
    pub(super) fn new(text: impl Into<String>, kind: DataType, len: usize) -> Self {
        Self {
            text: text.into(),
            kind,
            len,
            constant: None,
            mask: None,
            whole: None,
            order: None,
        }
    }

    pub(super) fn constant(bytes: &[u8]) -> Self {
        Self {
            constant: Some(bytes.to_vec()),
            ..Self::new(value::hex(bytes), DataType(0), bytes.len())
        }
    }

    /// The operand where a value of type `kind` is wanted.
    pub(super) fn shown_as(&self, kind: DataType) -> String {
        match &self.constant {
            Some(bytes) => value::plain(kind, bytes, None),
            None => self.text.clone(),
        }
    }
}

/// The registers of nf_tables' machine.
#[derive(Debug, Default)]
pub(super) struct Registers([Option<Operand>; WORDS]);

impl Registers {
    pub(super) fn put(&mut self, register: Option<Register>, operand: Operand) {
        let Some(at) = register.and_then(index) else {
            return;
        };
        let words = operand.len.div_ceil(4).max(1);
        for slot in self.0.iter_mut().skip(at).take(words) {
            *slot = None;
        }
        if let Some(slot) = self.0.get_mut(at) {
            *slot = Some(operand);
        }
    }

    pub(super) fn first(&self, register: Option<Register>) -> Option<&Operand> {
        self.0.get(register.and_then(index)?)?.as_ref()
    }

    /// What lies in `len` bytes from `register` on.
    pub(super) fn key(&self, register: Option<Register>, len: Option<usize>) -> Vec<&Operand> {
        let Some(start) = register.and_then(index) else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        let mut at = start;
        while let Some(Some(operand)) = self.0.get(at) {
            parts.push(operand);
            at += operand.len.div_ceil(4).max(1);
            match len {
                Some(len) if (at - start) * 4 < len => {}
                _ => break,
            }
        }
        parts
    }

    /// The same, in nft's words.
    pub(super) fn key_text(&self, register: Option<Register>, len: Option<usize>) -> String {
        let parts = self.key(register, len);
        if parts.is_empty() {
            let number = register.map_or_else(|| "?".to_owned(), |register| register.to_string());
            return format!("reg {number}");
        }
        let texts: Vec<_> = parts.iter().map(|part| part.text.as_str()).collect();
        texts.join(" . ")
    }
}

fn index(register: Register) -> Option<usize> {
    let at = match register.0 {
        number @ 1..=4 => (number - 1) * 4,
        number @ 8..=23 => number - 8,
        _ => return None,
    };
    usize::try_from(at).ok()
}
