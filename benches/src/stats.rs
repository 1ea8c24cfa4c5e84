//! Medians and ratios.

use core::time::Duration;

/// The median of some figures; zero of none.
#[must_use]
pub fn median<T: PartialOrd + Copy + Default>(mut figures: Vec<T>) -> T {
    figures.sort_unstable_by(|a, b| a.partial_cmp(b).unwrap_or(core::cmp::Ordering::Equal));
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

/// `a` as a multiple of `b`.
#[must_use]
pub fn ratio(a: Duration, b: Duration) -> f64 {
    a.as_secs_f64() / b.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// A duration in the unit that suits it, e.g. `8.1 µs`.
#[must_use]
pub fn shown(time: Duration) -> String {
    let nanos = time.as_secs_f64() * 1e9;
    match nanos {
        n if n < 1e3 => format!("{n:.0} ns"),
        n if n < 1e6 => format!("{:.1} µs", n / 1e3),
        n if n < 1e9 => format!("{:.2} ms", n / 1e6),
        n => format!("{:.2} s", n / 1e9),
    }
}
