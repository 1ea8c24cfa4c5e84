//! The pieces a line is made of. As in libnftnl, each piece ends with a space.

use core::fmt::{self, Display, Formatter};

use byteorder::{ByteOrder, NativeEndian};

use crate::nft::{Data, Str, Value, Verdict};

/// What follows an expression's name.
pub(crate) trait Text {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result;
}

/// `label value `, when there is one.
pub(crate) fn field<T: Display>(
    f: &mut Formatter<'_>,
    label: &str,
    value: Option<T>,
) -> fmt::Result {
    match value {
        Some(value) => write!(f, "{label} {value} "),
        None => Ok(()),
    }
}

/// An attribute that should be there; `?` when it is not.
pub(crate) struct Shown<T>(pub(crate) Option<T>);

impl<T: Display> Display for Shown<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("?"),
        }
    }
}

/// Bytes as 32-bit numbers in host order, the way registers hold them; the last one is filled up
/// with zeroes.
pub(crate) fn words(f: &mut Formatter<'_>, prefix: &str, value: &Value<'_>) -> fmt::Result {
    for chunk in value.as_bytes().chunks(4) {
        let mut word = [0; 4];
        for (to, from) in word.iter_mut().zip(chunk) {
            *to = *from;
        }
        write!(f, "{prefix}{:08x} ", NativeEndian::read_u32(&word))?;
    }
    Ok(())
}

/// Words, or a verdict and its chain.
pub(crate) fn data(f: &mut Formatter<'_>, prefix: &str, data: Option<&Data<'_>>) -> fmt::Result {
    match data {
        Some(Data::Value(value)) => words(f, prefix, value),
        Some(Data::Verdict(verdict)) => verdict.text(f),
        None => f.write_str("? "),
    }
}

impl Text for Verdict<'_> {
    fn text(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", Shown(self.code))?;
        field(f, "->", self.chain)
    }
}

/// Text as it is, other bytes as `\x00`.
pub(crate) fn userdata(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("  userdata = { ")?;
    for byte in bytes {
        if byte.is_ascii_graphic() || *byte == b' ' {
            write!(f, "{}", char::from(*byte))?;
        } else {
            write!(f, "\\x{byte:02x}")?;
        }
    }
    f.write_str(" }")
}

/// A name; libnftnl's `(null)` when there is none.
pub(crate) struct Null<'a>(pub(crate) Option<Str<'a>>);

impl Display for Null<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(name) => name.fmt(f),
            None => f.write_str("(null)"),
        }
    }
}
