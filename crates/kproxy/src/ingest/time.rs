//! Times in metadata and annotations.

use svc_planner::object::{Seconds, UnixNanos};

/// Reads an RFC 3339 time as the API server writes it: UTC, whole seconds
/// (`2024-05-01T10:20:30Z`). `None` for anything else or a time before 1970.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<Seconds> {
    let bytes: &[u8; 20] = text.as_bytes().try_into().ok()?;
    let separators = [
        (4, b'-'),
        (7, b'-'),
        (10, b'T'),
        (13, b':'),
        (16, b':'),
        (19, b'Z'),
    ];
    if separators.iter().any(|&(at, byte)| bytes[at] != byte) {
        return None;
    }
    let number = |from: usize, to: usize| {
        bytes[from..to].iter().try_fold(0_u64, |number, digit| {
            digit
                .is_ascii_digit()
                .then(|| number * 10 + u64::from(digit - b'0'))
        })
    };
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if year < 1970 || !(1..=12).contains(&month) || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let in_month = |month: u64| match month {
        2 => 28 + u64::from(leap(year)),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day == 0 || day > in_month(month) {
        return None;
    }
    let days = (1970..year)
        .map(|year| 365 + u64::from(leap(year)))
        .sum::<u64>()
        + (1..month).map(in_month).sum::<u64>()
        + (day - 1);
    Some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Reads an RFC 3339 time with a fraction of a second and an offset from UTC, either of which may be
/// missing (Go's `time.RFC3339Nano`). `None` for anything else or a time outside 1970 to 2554.
#[must_use]
pub fn parse_rfc3339_nanos(text: &str) -> Option<UnixNanos> {
    let (whole, rest) = text.split_at_checked(19)?;
    let seconds = parse_rfc3339(&format!("{whole}Z"))?;
    let digits = rest.strip_prefix('.').map_or("", |rest| {
        rest.split_once(|c: char| !c.is_ascii_digit())
            .map_or(rest, |(digits, _)| digits)
    });
    let offset = rest.strip_prefix('.').map_or(Some(rest), |rest| {
        (!digits.is_empty()).then(|| &rest[digits.len()..])
    })?;
    let nanos: u64 = format!("{digits:0<9.9}").parse().ok()?;
    let seconds = match offset {
        "Z" => seconds,
        offset => {
            let (hours, minutes) = offset.get(1..)?.split_once(':')?;
            let two = |text: &str| (text.len() == 2).then(|| text.parse::<u64>().ok())?;
            let shift = two(hours)? * 3600 + two(minutes)? * 60;
            match offset.as_bytes().first()? {
                b'+' => seconds.checked_sub(shift)?,
                b'-' => seconds.checked_add(shift)?,
                _ => return None,
            }
        }
    };
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::{parse_rfc3339, parse_rfc3339_nanos};

    #[test]
    fn fractions_and_offsets() {
        // Reference values: `date -u -d … +%s%N`.
        let known = 1_714_558_830_000_000_000;
        for (text, nanos) in [
            ("2024-05-01T10:20:30Z", known),
            ("2024-05-01T10:20:30.5Z", known + 500_000_000),
            ("2024-05-01T10:20:30.000000001Z", known + 1),
            ("2024-05-01T10:20:30.1234567891Z", known + 123_456_789),
            ("2024-05-01T12:20:30.5+02:00", known + 500_000_000),
            ("2024-05-01T08:50:30-01:30", known),
        ] {
            assert_eq!(parse_rfc3339_nanos(text), Some(nanos), "{text}");
        }
        for text in [
            "",
            "2024-05-01T10:20:30",
            "2024-05-01T10:20:30.Z",
            "2024-05-01T10:20:30.5",
            "2024-05-01T10:20:30.5z",
            "2024-05-01T10:20:30+2:00",
            "2024-05-01T10:20:30*02:00",
            "2024-05-01T10:20:30.5é",
            "1970-01-01T00:00:00+02:00",
            "9999-05-01T10:20:30Z",
        ] {
            assert_eq!(parse_rfc3339_nanos(text), None, "{text}");
        }
    }

    #[test]
    fn known_times() {
        // Reference values: `date -u -d … +%s`.
        assert_eq!(parse_rfc3339("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(parse_rfc3339("2000-02-29T12:00:00Z"), Some(951_825_600));
        assert_eq!(parse_rfc3339("2024-05-01T10:20:30Z"), Some(1_714_558_830));
        assert_eq!(parse_rfc3339("2099-12-31T23:59:59Z"), Some(4_102_444_799));
    }

    #[test]
    fn other_texts() {
        for text in [
            "",
            "2024-05-01",
            "2024-05-01 10:20:30Z",
            "2024-13-01T00:00:00Z",
            "2023-02-29T00:00:00Z",
            "1969-12-31T23:59:59Z",
            "2024-05-01T10:20:3xZ",
            "2024-05-00T00:00:00Z",
            "２024-05-01T10:20:Z",
        ] {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
