//! Durations as kube-proxy's flags and configuration spell them: `1s`, `1m30s`, `250ms`, `0`.

use core::time::Duration;

use crate::config::GoDuration;

/// Reads numbers with units (`h`, `m`, `s`, `ms`, `us`, `ns`), as Go's `time.ParseDuration`; no sign.
///
/// # Errors
/// Says what is expected.
pub(super) fn duration(text: &str) -> Result<Duration, &'static str> {
    match text.parse::<GoDuration>() {
        Ok(time) if !time.is_negative() => Ok(time.or_zero()),
        _ => Err("a duration is numbers with units, such as 1m30s or 250ms"),
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
