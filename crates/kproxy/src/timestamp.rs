//! Times as Go writes them in JSON (`time.RFC3339Nano`), in UTC.

use core::time::Duration;
use std::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Serialize, Serializer};

const DAY: u64 = 24 * 60 * 60;
/// Days of 400 years, after which the calendar repeats.
const ERA: u64 = 146_097;
/// Days from 1 March of year 0, where an era begins, to 1 January 1970.
const EPOCH: u64 = 719_468;

/// See the module. Times before 1970 are shown as its beginning.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Timestamp(pub(crate) SystemTime);

impl Timestamp {
    fn since(self) -> Duration {
        self.0.duration_since(UNIX_EPOCH).unwrap_or_default()
    }

    /// Month and day of it, from 1 on.
    pub(crate) fn month_and_day(self) -> (u64, u64) {
        let (_, month, day) = date(self.since().as_secs() / DAY);
        (month, day)
    }

    /// Its hour, minute, second and microsecond.
    pub(crate) fn time_of_day(self) -> String {
        let (hour, minute, second) = clock(self.since().as_secs());
        let microsecond = self.since().subsec_micros();
        format!("{hour:02}:{minute:02}:{second:02}.{microsecond:06}")
    }
}

const fn clock(seconds: u64) -> (u64, u64, u64) {
    let second = seconds % DAY;
    (second / 3600, second / 60 % 60, second % 60)
}

/// A time with six digits of a second, never fewer (Kubernetes' MicroTime).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Micros(SystemTime);

impl Timestamp {
    pub(crate) const fn micros(self) -> Micros {
        Micros(self.0)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = write_seconds(*self, f)?;
        if since.subsec_nanos() > 0 {
            let fraction = format!("{:09}", since.subsec_nanos());
            write!(f, ".{}", fraction.trim_end_matches('0'))?;
        }
        f.write_str("Z")
    }
}

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let since = write_seconds(Timestamp(self.0), f)?;
        write!(f, ".{:06}Z", since.subsec_micros())
    }
}

/// Writes a time without its fraction of a second; gives the time since the epoch.
fn write_seconds(time: Timestamp, f: &mut fmt::Formatter<'_>) -> Result<Duration, fmt::Error> {
    let since = time.since();
    let (year, month, day) = date(since.as_secs() / DAY);
    let (hour, minute, second) = clock(since.as_secs());
    write!(
        f,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}"
    )?;
    Ok(since)
}

/// Year, month and day, so many days after 1 January 1970. Years are taken to begin in March, so that
/// the odd day is the last one.
const fn date(days: u64) -> (u64, u64, u64) {
    let days = days + EPOCH;
    let day = days % ERA;
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, and again.
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = days / ERA * 400 + year;
    if month < 10 {
        (year, month + 3, day)
    } else {
        (year + 1, month - 9, day)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        let mut expected = (1970, 1, 1);
        for days in 0..200_000 {
            assert_eq!(date(days), expected);
            let (year, month, day) = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let last = match month {
                2 if leap => 29,
                2 => 28,
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected = match (month, day) {
                (12, 31) => (year + 1, 1, 1),
                _ if day == last => (year, month + 1, 1),
                _ => (year, month, day + 1),
            };
        }
    }

    #[test]
    fn fractions_have_no_zeros_at_the_end() {
        let text = |nanos| Timestamp(UNIX_EPOCH + Duration::from_nanos(nanos)).to_string();
        assert_eq!(text(0), "1970-01-01T00:00:00Z");
        assert_eq!(text(1_709_210_096_120_000_000), "2024-02-29T12:34:56.12Z");
        assert_eq!(text(1), "1970-01-01T00:00:00.000000001Z");
        let micros = |nanos| {
            Timestamp(UNIX_EPOCH + Duration::from_nanos(nanos))
                .micros()
                .to_string()
        };
        assert_eq!(micros(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(
            micros(1_709_210_096_120_000_999),
            "2024-02-29T12:34:56.120000Z"
        );
    }
}
