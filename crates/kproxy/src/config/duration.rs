//! Durations as Go writes them (`time.Duration`, `metav1.Duration`): `1h30m0s`, `250ms`, `-1s`.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A signed time in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GoDuration(i64);

/// A text that is no duration, in the words of Go's `time.ParseDuration`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("time: {0}")]
pub struct DurationError(String);

/// Units, the longest name of those that begin alike first, in nanoseconds.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

impl GoDuration {
    /// No time.
    pub const ZERO: Self = Self(0);

    /// Whole seconds.
    #[must_use]
    pub const fn from_secs(seconds: u32) -> Self {
        // 2^32 seconds are less than 2^63 nanoseconds.
        Self(seconds as i64 * 1_000_000_000)
    }

    /// Nanoseconds.
    #[must_use]
    pub const fn from_nanos(nanoseconds: i64) -> Self {
        Self(nanoseconds)
    }

    /// Is it less than nothing?
    #[must_use]
    pub const fn is_negative(self) -> bool {
        self.0 < 0
    }

    /// Is it nothing?
    #[must_use]
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// The time, or none if it is negative.
    #[must_use]
    pub const fn or_zero(self) -> Duration {
        if self.0 < 0 {
            Duration::ZERO
        } else {
            Duration::from_nanos(self.0.unsigned_abs())
        }
    }
}

impl FromStr for GoDuration {
    type Err = DurationError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = || DurationError(format!("invalid duration {text:?}"));
        let (negative, mut rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        if rest == "0" {
            return Ok(Self::ZERO);
        }
        if rest.is_empty() {
            return Err(invalid());
        }
        let mut total: u64 = 0;
        while !rest.is_empty() {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
            let (number, behind) = rest.split_at(end.unwrap_or(rest.len()));
            let end = behind.find(|c: char| c.is_ascii_digit() || c == '.');
            let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
            if number.is_empty() {
                return Err(invalid());
            }
            if unit.is_empty() {
                return Err(DurationError(format!("missing unit in duration {text:?}")));
            }
            let Some(&(_, unit)) = UNITS.iter().find(|(name, _)| *name == unit) else {
                return Err(DurationError(format!(
                    "unknown unit {unit:?} in duration {text:?}"
                )));
            };
            let part = nanoseconds(number, unit).ok_or_else(invalid)?;
            total = total.checked_add(part).ok_or_else(invalid)?;
            rest = behind;
        }
        let total = i64::try_from(total).map_err(|_| invalid())?;
        Ok(Self(if negative { -total } else { total }))
    }
}

/// A decimal number of a unit.
fn nanoseconds(number: &str, unit: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return None;
    }
    let whole: u64 = if whole.is_empty() {
        0
    } else {
        whole.parse().ok()?
    };
    let mut nanoseconds = whole.checked_mul(unit)?;
    let mut scale = unit;
    for digit in fraction.bytes() {
        scale /= 10;
        nanoseconds = nanoseconds.checked_add(u64::from(digit - b'0').checked_mul(scale)?)?;
    }
    Some(nanoseconds)
}

impl fmt::Display for GoDuration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanoseconds = self.0.unsigned_abs();
        if self.0 < 0 {
            f.write_str("-")?;
        }
        match nanoseconds {
            0 => f.write_str("0s"),
            1..1_000 => write!(f, "{nanoseconds}ns"),
            1_000..1_000_000 => fraction(f, nanoseconds, 1_000, "µs"),
            1_000_000..1_000_000_000 => fraction(f, nanoseconds, 1_000_000, "ms"),
            _ => {
                let minutes = nanoseconds / 60_000_000_000;
                if minutes >= 60 {
                    write!(f, "{}h", minutes / 60)?;
                }
                if minutes > 0 {
                    write!(f, "{}m", minutes % 60)?;
                }
                fraction(f, nanoseconds % 60_000_000_000, 1_000_000_000, "s")
            }
        }
    }
}

/// A number of units with as many decimals as it has.
fn fraction(f: &mut fmt::Formatter<'_>, nanoseconds: u64, unit: u64, name: &str) -> fmt::Result {
    write!(f, "{}", nanoseconds / unit)?;
    let (mut rest, mut scale) = (nanoseconds % unit, unit);
    if rest > 0 {
        f.write_str(".")?;
    }
    while rest > 0 {
        scale /= 10;
        write!(f, "{}", rest / scale)?;
        rest %= scale;
    }
    f.write_str(name)
}

impl Serialize for GoDuration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GoDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader { numbers: false })
    }
}

/// A time that may also be a number of nanoseconds (component-base's `TimeOrMetaDuration`).
pub(super) fn text_or_nanoseconds<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<GoDuration, D::Error> {
    deserializer.deserialize_any(Reader { numbers: true })
}

struct Reader {
    /// Numbers are nanoseconds.
    numbers: bool,
}

impl Visitor<'_> for Reader {
    type Value = GoDuration;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a duration such as 30s or 1h30m")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<GoDuration, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<GoDuration, E> {
        if self.numbers {
            Ok(GoDuration(number))
        } else {
            Err(E::invalid_type(Unexpected::Signed(number), &self))
        }
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<GoDuration, E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => Err(E::invalid_value(Unexpected::Unsigned(number), &self)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_go_writes_them() {
        // Left: read; right: `time.Duration.String()` of it.
        for (text, written) in [
            ("0", "0s"),
            ("0s", "0s"),
            ("15m", "15m0s"),
            ("24h", "24h0m0s"),
            ("90s", "1m30s"),
            ("1h30m0.5s", "1h30m0.5s"),
            ("250ms", "250ms"),
            ("1500us", "1.5ms"),
            ("1.5µs", "1.5µs"),
            ("7ns", "7ns"),
            ("-1s", "-1s"),
            ("+1.25h", "1h15m0s"),
            (".5s", "500ms"),
            ("1h1ns", "1h0m0.000000001s"),
        ] {
            let duration: GoDuration = text.parse().unwrap();
            assert_eq!(duration.to_string(), written, "{text}");
            assert_eq!(written.parse(), Ok(duration), "{text}");
        }
    }

    #[test]
    fn what_is_no_duration_is_said_as_go_says_it() {
        for (text, message) in [
            ("", r#"time: invalid duration """#),
            ("5", r#"time: missing unit in duration "5""#),
            ("5x", r#"time: unknown unit "x" in duration "5x""#),
            ("s", r#"time: invalid duration "s""#),
            ("1s2", r#"time: missing unit in duration "1s2""#),
            ("..s", r#"time: invalid duration "..s""#),
            ("1 s", r#"time: unknown unit " s" in duration "1 s""#),
            ("-", r#"time: invalid duration "-""#),
            ("9999999999h", r#"time: invalid duration "9999999999h""#),
        ] {
            let error = text.parse::<GoDuration>().unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read(nanoseconds in proptest::num::i64::ANY) {
            // Go cannot read its smallest number back either.
            proptest::prop_assume!(nanoseconds != i64::MIN);
            let duration = GoDuration(nanoseconds);
            proptest::prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }
}
