//! Values of flags as Go's pflag reads them, as JSON of the field that they are for.

use serde_json::{Map, Value};

use super::super::feature_gates::boolean;
use super::super::{GoDuration, Quantity, address};
use super::csv;

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
                Ok(number) if number.is_finite() => Ok(number.into()),
                Ok(_) => Err(format!(
                    "strconv.ParseFloat: parsing {text:?}: value out of range"
                )),
                Err(_) => Err(format!(
                    "strconv.ParseFloat: parsing {text:?}: invalid syntax"
                )),
            },
            Self::Text => Ok(text.into()),
            Self::Duration => match text.parse::<GoDuration>() {
                Ok(time) => Ok(time.to_string().into()),
                Err(error) => Err(error.to_string()),
            },
            Self::Texts => Ok(csv::fields(text)?.into()),
            Self::Ip => match address::ip(text) {
                Some(_) => Ok(text.into()),
                None => Err(format!("{text:?} is not a valid IP address")),
            },
            Self::IpPort => ip_port(text).map(Value::from),
            Self::Gates => gates(text),
            Self::Level => level(text).map(Value::from),
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
    // Between digits, and behind the prefix.
    let grouped = |it: &str| it.starts_with('_') || it.ends_with('_') || it.contains("__");
    let plain = digits.strip_prefix('_').filter(|_| radix != 10);
    let digits = match plain.unwrap_or(digits) {
        digits if grouped(digits) => String::new(),
        digits => digits.replace('_', ""),
    };
    let digits = digits.as_str();
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

/// As Go's `strconv.ParseUint(text, 10, 31)`.
fn level(text: &str) -> Result<u32, String> {
    let failed = |why: &str| Err(format!("strconv.ParseUint: parsing {text:?}: {why}"));
    if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return failed("invalid syntax");
    }
    match text.parse::<u32>() {
        Ok(level) if i32::try_from(level).is_ok() => Ok(level),
        _ => failed("value out of range"),
    }
}

fn ip_port(text: &str) -> Result<&str, String> {
    if text.is_empty() || address::ip(text).is_some() {
        return Ok(text);
    }
    let Some((host, port)) = address::split_host_port(text) else {
        let bare = text.rsplit_once(']').map_or(text, |(_, rest)| rest);
        let why = match bare.matches(':').count() {
            0 => "missing port in address",
            _ => "too many colons in address",
        };
        return Err(format!(
            "{text:?} is not in a valid format (ip or ip:port): address {text}: {why}"
        ));
    };
    if address::ip(host).is_none() {
        return Err(format!("{host:?} is not a valid IP address"));
    }
    match port.parse::<u16>() {
        // Rust takes a sign.
        Ok(_) if !port.starts_with('+') => Ok(text),
        _ => Err(format!("{port:?} is not a valid number")),
    }
}

fn gates(text: &str) -> Result<Value, String> {
    let mut gates = Map::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let pair = part.split_once('=');
        let pair = pair.map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            return Err("malformed pair, expect string=bool".to_owned());
        };
        let on = boolean(value).ok_or_else(|| {
            format!(
                "invalid value of {name}: {value}, err: strconv.ParseBool: parsing {value:?}: \
                 invalid syntax"
            )
        })?;
        gates.insert(name.to_owned(), on.into());
    }
    Ok(gates.into())
}

fn levels(text: &str) -> Result<Value, String> {
    let mut levels = Vec::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (pattern, number) = part
            .split_once('=')
            .filter(|(pattern, number)| {
                !pattern.is_empty() && !number.is_empty() && !number.contains('=')
            })
            .ok_or_else(|| format!("{part:?} does not have the pattern=N format"))?;
        let verbosity =
            level(number).map_err(|why| format!("parsing verbosity in {part:?}: {why}"))?;
        levels.push(serde_json::json!({"filePattern": pattern, "verbosity": verbosity}));
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
            ("1_000", 1_000),
            ("0x_1f", 31),
            ("0_17", 15),
        ] {
            assert_eq!(int32(text), Ok(number), "{text}");
        }
        for wrong in [
            "",
            "abc",
            "1.5",
            "08",
            "0x",
            "--1",
            "2147483648",
            "1 ",
            "_1",
            "1_",
            "1__0",
            "+-1",
        ] {
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
            (FlagKind::IpPort, "1.2.3.4:+1"),
            (FlagKind::Gates, "A=maybe"),
            (FlagKind::Level, "-1"),
            (FlagKind::Level, "+1"),
            (FlagKind::Level, "2147483648"),
            (FlagKind::Levels, "a=1=2"),
            (FlagKind::Levels, "a=-1"),
            (FlagKind::Float32, "NaN"),
            (FlagKind::Float32, "1e40"),
            (FlagKind::Texts, "\"a"),
            (FlagKind::Gates, "=true"),
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
