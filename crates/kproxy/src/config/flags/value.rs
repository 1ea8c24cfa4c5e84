//! Values of flags as Go's pflag reads them, as JSON of the field that they are for.

use serde_json::{Map, Value};

use super::super::feature_gates::{FeatureGate, boolean};
use super::super::{GoDuration, Quantity, address};

/// What a flag takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FlagKind {
    /// Nothing, or `=true`, `=false`.
    Bool,
    /// A whole number of 32 bits.
    Int32,
    /// A number.
    Float32,
    /// Text.
    Text,
    /// Text such as 30s.
    Duration,
    /// Texts, separated by commas.
    Texts,
    /// An address.
    Ip,
    /// An address, or an address and a port, or nothing.
    IpPort,
    /// `NAME=true|false`, separated by commas.
    Gates,
    /// A number that is not negative.
    Level,
    /// `pattern=N`, separated by commas.
    Levels,
    /// A number of bytes such as 4Ki.
    Quantity,
}

impl FlagKind {
    /// What stands for the value in help.
    #[must_use]
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Bool => "true|false",
            Self::Int32 | Self::Float32 => "N",
            Self::Text => "TEXT",
            Self::Duration => "DURATION",
            Self::Texts => "TEXT,…",
            Self::Ip => "IP",
            Self::IpPort => "IP[:PORT]",
            Self::Gates => "NAME=true|false,…",
            Self::Level => "LEVEL",
            Self::Levels => "PATTERN=LEVEL,…",
            Self::Quantity => "BYTES",
        }
    }

    /// Reads a value.
    ///
    /// # Errors
    /// Says why it is none.
    pub(super) fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Self::Bool => match boolean(text) {
                Some(value) => Ok(value.into()),
                None => Err(format!(
                    "strconv.ParseBool: parsing {text:?}: invalid syntax"
                )),
            },
            Self::Int32 => int32(text).map(Value::from),
            Self::Float32 => match text.parse::<f32>() {
                Ok(number) => Ok(number.into()),
                Err(_) => Err(format!(
                    "strconv.ParseFloat: parsing {text:?}: invalid syntax"
                )),
            },
            Self::Text => Ok(text.into()),
            Self::Duration => match text.parse::<GoDuration>() {
                Ok(time) => Ok(time.to_string().into()),
                Err(error) => Err(error.to_string()),
            },
            Self::Texts if text.is_empty() => Ok(Value::Array(Vec::new())),
            Self::Texts => Ok(text.split(',').map(Value::from).collect()),
            Self::Ip => match address::ip(text) {
                Some(_) => Ok(text.into()),
                None => Err(format!("{text:?} is not a valid IP address")),
            },
            Self::IpPort => ip_port(text).map(Value::from),
            Self::Gates => gates(text),
            Self::Level => match text.parse::<u32>() {
                Ok(level) => Ok(level.into()),
                Err(_) => Err(format!(
                    "strconv.ParseUint: parsing {text:?}: invalid syntax"
                )),
            },
            Self::Levels => levels(text),
            Self::Quantity => match text.parse::<Quantity>() {
                Ok(_) => Ok(text.into()),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// Adds a value to what the same flag gave before.
    pub(super) fn append(self, before: Option<Value>, value: Value) -> Value {
        match (before, value) {
            (Some(Value::Array(mut before)), Value::Array(mut more)) => {
                before.append(&mut more);
                before.into()
            }
            (Some(Value::Object(mut before)), Value::Object(mut more)) => {
                before.append(&mut more);
                before.into()
            }
            (_, value) => value,
        }
    }
}

/// As Go's `strconv.ParseInt(text, 0, 32)`.
fn int32(text: &str) -> Result<i32, String> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let lower = digits.to_ascii_lowercase();
    let (radix, digits) = match lower.get(..2) {
        Some("0x") => (16, lower.get(2..)),
        Some("0b") => (2, lower.get(2..)),
        Some("0o") => (8, lower.get(2..)),
        _ if lower.len() > 1 && lower.starts_with('0') => (8, lower.get(1..)),
        _ => (10, Some(&*lower)),
    };
    let digits = digits.unwrap_or_default();
    let is_digit = |c: char| c.is_digit(radix);
    if digits.is_empty() || !digits.chars().all(is_digit) {
        return Err(format!(
            "strconv.ParseInt: parsing {text:?}: invalid syntax"
        ));
    }
    let number = i64::from_str_radix(digits, radix).unwrap_or(i64::MAX);
    let number = if negative { -number } else { number };
    i32::try_from(number)
        .map_err(|_| format!("strconv.ParseInt: parsing {text:?}: value out of range"))
}

fn ip_port(text: &str) -> Result<&str, String> {
    if text.is_empty() || address::ip(text).is_some() {
        return Ok(text);
    }
    let Some((host, port)) = address::split_host_port(text) else {
        return Err(format!("{text:?} is not in a valid format (ip or ip:port)"));
    };
    if address::ip(host).is_none() {
        return Err(format!("{host:?} is not a valid IP address"));
    }
    match port.parse::<u16>() {
        Ok(_) => Ok(text),
        Err(_) => Err(format!("{port:?} is not a valid number")),
    }
}

fn gates(text: &str) -> Result<Value, String> {
    let mut gates = Map::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let gate: FeatureGate = part
            .parse()
            .map_err(|why| format!("{:?}: {why}", part.trim()))?;
        gates.insert(gate.name().to_owned(), gate.is_on().into());
    }
    Ok(gates.into())
}

fn levels(text: &str) -> Result<Value, String> {
    let mut levels = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (pattern, level) = part
            .split_once('=')
            .filter(|(pattern, level)| !pattern.is_empty() && !level.is_empty())
            .ok_or_else(|| format!("{part:?} does not have the pattern=N format"))?;
        let level: u32 = level
            .parse()
            .map_err(|_| format!("{level:?} in {part:?} is no level"))?;
        levels.push(serde_json::json!({"filePattern": pattern, "verbosity": level}));
    }
    Ok(levels.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_go_reads_them() {
        for (text, number) in [
            ("7", 7),
            ("-999", -999),
            ("+3", 3),
            ("0x1F", 31),
            ("010", 8),
            ("0b11", 3),
            ("0", 0),
        ] {
            assert_eq!(int32(text), Ok(number), "{text}");
        }
        for wrong in ["", "abc", "1.5", "08", "0x", "--1", "2147483648", "1 "] {
            assert!(int32(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn words_are_read_by_their_kind() {
        let read = |kind: FlagKind, text: &str| kind.read(text).map(|value| value.to_string());
        assert_eq!(read(FlagKind::Bool, "T"), Ok("true".into()));
        assert_eq!(read(FlagKind::Texts, "a,b"), Ok(r#"["a","b"]"#.into()));
        assert_eq!(read(FlagKind::Texts, ""), Ok("[]".into()));
        assert_eq!(read(FlagKind::Duration, "90s"), Ok(r#""1m30s""#.into()));
        assert_eq!(
            read(FlagKind::Gates, "A=true, B=0"),
            Ok(r#"{"A":true,"B":false}"#.into())
        );
        assert_eq!(
            read(FlagKind::Levels, "a=1"),
            Ok(r#"[{"filePattern":"a","verbosity":1}]"#.into())
        );
        for good in ["", "1.2.3.4", "::1", "1.2.3.4:5", "[::1]:5"] {
            assert!(FlagKind::IpPort.read(good).is_ok(), "{good}");
        }
        for (kind, wrong) in [
            (FlagKind::Bool, "yes"),
            (FlagKind::Float32, "x"),
            (FlagKind::Duration, "5"),
            (FlagKind::Ip, "foo"),
            (FlagKind::IpPort, "foo"),
            (FlagKind::IpPort, "foo:1"),
            (FlagKind::IpPort, "1.2.3.4:x"),
            (FlagKind::Gates, "A=maybe"),
            (FlagKind::Level, "-1"),
            (FlagKind::Levels, "a"),
            (FlagKind::Quantity, "x"),
        ] {
            assert!(kind.read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_and_maps_add_up_others_do_not() {
        let texts = |text| FlagKind::Texts.read(text).unwrap();
        let both = FlagKind::Texts.append(Some(texts("a,b")), texts("c"));
        assert_eq!(both, texts("a,b,c"));
        let last = FlagKind::Int32.append(Some(1.into()), 2.into());
        assert_eq!(last, 2);
    }
}
