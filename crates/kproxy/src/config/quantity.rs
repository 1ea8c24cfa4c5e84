//! Quantities as Kubernetes writes them (apimachinery's `resource.Quantity`): `512`, `1.5Ki`, `100m`, `1e3`.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use thiserror::Error;

/// A number, and how it likes to be written. What is finer than 10⁻⁹ is rounded away from zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Value", into = "String")]
pub struct Quantity {
    /// In 10⁻⁹.
    nanos: i128,
    form: Form,
}

/// What its suffix is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Powers of 1000, by letters: `m`, `k`, `M`.
    Decimal,
    /// Powers of 10, as `e3`.
    Exponent,
    /// Powers of 1024: `Ki`, `Mi`.
    Binary,
}

/// A text that is no quantity.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unable to parse quantity {0:?}")]
pub struct QuantityError(String);

/// From 10⁻⁹ on, each 1000 times the one before.
const DECIMAL: [&str; 10] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
/// From 1024 on, each 1024 times the one before.
const BINARY: [&str; 6] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
const UNIT: i128 = 1_000_000_000;

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self {
        nanos: 0,
        form: Form::Decimal,
    };

    /// Is it nothing?
    #[must_use]
    pub const fn is_zero(&self) -> bool {
        self.nanos == 0
    }

    fn parse(text: &str) -> Option<Self> {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return None;
        }
        let digits: i128 = format!("{whole}{fraction}").parse().ok()?;
        let (form, factor, power) = scale(suffix)?;
        let power = power - i32::try_from(fraction.len()).ok()?;
        let digits = digits.checked_mul(factor)?;
        let nanos = match (digits, u32::try_from(power)) {
            (0, _) => 0,
            (_, Ok(power)) => digits.checked_mul(10_i128.checked_pow(power)?)?,
            // Less than any number of digits here can make up for is the least there is.
            (_, Err(_)) => match 10_i128.checked_pow(power.unsigned_abs()) {
                Some(divisor) => digits / divisor + i128::from(digits % divisor != 0),
                None => 1,
            },
        };
        let most = i128::from(i64::MAX) * UNIT;
        let nanos = if form == Form::Binary {
            nanos.min(most)
        } else {
            nanos
        };
        Some(Self {
            nanos: if negative { -nanos } else { nanos },
            form,
        })
    }
}

/// What a suffix means: a factor, and a power of 10 of 10⁻⁹.
fn scale(suffix: &str) -> Option<(Form, i128, i32)> {
    let index = |known: &[&str]| known.iter().position(|it| *it == suffix);
    if let Some(index) = index(&DECIMAL) {
        return Some((Form::Decimal, 1, i32::try_from(index * 3).ok()?));
    }
    if let Some(index) = index(&BINARY) {
        let factor = 1024_i128.checked_pow(u32::try_from(index + 1).ok()?)?;
        return Some((Form::Binary, factor, 9));
    }
    let exponent: i32 = suffix.strip_prefix(['e', 'E'])?.parse().ok()?;
    Some((Form::Exponent, 1, exponent.checked_add(9)?))
}

impl FromStr for Quantity {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text.trim()).ok_or_else(|| QuantityError(text.to_owned()))
    }
}

/// As upstream's canonical form: no fraction, and the largest suffix.
impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let units = self.nanos / UNIT;
        let is_whole = self.nanos % UNIT == 0;
        if self.form == Form::Binary && is_whole && units.abs() >= 1024 {
            let (mut units, mut suffix) = (units, "");
            for larger in BINARY {
                if units % 1024 != 0 {
                    break;
                }
                (units, suffix) = (units / 1024, larger);
            }
            return write!(f, "{units}{suffix}");
        }
        let (mut number, mut power) = (self.nanos, 0_usize);
        let most = match self.form {
            Form::Exponent => usize::MAX,
            _ => DECIMAL.len() - 1,
        };
        while number % 1000 == 0 && power < most {
            (number, power) = (number / 1000, power + 1);
        }
        match (self.form, power) {
            (Form::Exponent, 3) => write!(f, "{number}"),
            (Form::Exponent, 0..=2) => write!(f, "{number}e-{}", 9 - power * 3),
            (Form::Exponent, _) => write!(f, "{number}e{}", power * 3 - 9),
            _ => write!(f, "{number}{}", DECIMAL.get(power).unwrap_or(&"")),
        }
    }
}

impl TryFrom<Value> for Quantity {
    type Error = QuantityError;

    fn try_from(value: Value) -> Result<Self, Self::Error> {
        match value {
            Value::String(text) => text.parse(),
            other => other.to_string().parse(),
        }
    }
}

impl From<Quantity> for String {
    fn from(quantity: Quantity) -> Self {
        quantity.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Left: read; right: what kube-proxy 1.37.2 writes of it.
    #[test]
    fn quantities_are_written_as_kube_proxy_writes_them() {
        for (text, written) in [
            ("1.5Ki", "1536"),
            ("1500", "1500"),
            ("1000", "1k"),
            ("1000000", "1M"),
            ("1.5", "1500m"),
            ("-1", "-1"),
            ("100m", "100m"),
            (" 1Ki", "1Ki"),
            ("1024", "1024"),
            ("1024Ki", "1Mi"),
            ("1025Ki", "1025Ki"),
            ("0.5Ki", "512"),
            ("1e4", "10e3"),
            ("12e2", "1200"),
            ("1e-3", "1e-3"),
            ("1e-12", "1e-9"),
            ("1e20", "100e18"),
            ("5000m", "5"),
            ("5000000u", "5"),
            ("0.1n", "1n"),
            ("1.0001n", "2n"),
            ("0Ki", "0"),
            ("0.0", "0"),
            ("-1.5Ki", "-1536"),
            ("1Ei", "1Ei"),
            ("9Ei", "9223372036854775807"),
            ("100E", "100E"),
            (".5", "500m"),
            ("1000k", "1M"),
            ("1.23456789012345678901234567890", "1234567891n"),
            ("1.1Mi", "1153433600m"),
            ("0.0001Ki", "102400u"),
        ] {
            let quantity: Quantity = text.parse().unwrap();
            assert_eq!(quantity.to_string(), written, "{text}");
            assert_eq!(quantity.is_zero(), written == "0", "{text}");
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        for text in [
            "", "Ki", "1.5.2", "1 Ki", "1ki", "1K", "1e", "1e1.5", "0x10", "1_0", "1Ee", "inf",
            "--1", "1e99", "true",
        ] {
            let error = text.parse::<Quantity>().unwrap_err();
            assert_eq!(error, QuantityError(text.to_owned()));
        }
    }
}
