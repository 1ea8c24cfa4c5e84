//! Durations as kube-proxy's flags and configuration spell them: `1s`, `1m30s`, `250ms`, `0`.

use core::time::Duration;

/// Reads numbers with units (`h`, `m`, `s`, `ms`, `us`, `ns`), as Go's `time.ParseDuration`; no sign.
///
/// # Errors
/// Says what is expected.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    const EXPECTED: &str = "a duration is numbers with units, such as 1m30s or 250ms";
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, behind) = rest.split_at(digits.ok_or(EXPECTED)?);
        let end = behind.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, behind) = behind.split_at(end.unwrap_or(behind.len()));
        let unit = match unit {
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" | "µs" => 1e-6,
            "ns" => 1e-9,
            _ => return Err(EXPECTED),
        };
        let number: f64 = number.parse().map_err(|_| EXPECTED)?;
        let part = Duration::try_from_secs_f64(number * unit).map_err(|_| EXPECTED)?;
        total = total.checked_add(part).ok_or(EXPECTED)?;
        rest = behind;
    }
    if text.is_empty() {
        Err(EXPECTED)
    } else {
        Ok(total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let milliseconds = |text| duration(text).map(|it| it.as_millis());
        assert_eq!(milliseconds("1s"), Ok(1000));
        assert_eq!(milliseconds("1m30s"), Ok(90_000));
        assert_eq!(milliseconds("250ms"), Ok(250));
        assert_eq!(milliseconds("1.5h"), Ok(5_400_000));
        assert_eq!(milliseconds("0"), Ok(0));
        assert_eq!(milliseconds("0s"), Ok(0));
        for wrong in ["", "1", "s", "-1s", "1x", "1s2", "..s", "1 s"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
