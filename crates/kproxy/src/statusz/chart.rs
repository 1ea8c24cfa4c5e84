//! The last transactions, drawn.

use core::fmt::Write as _;
use core::time::Duration;

use super::html::{Ago, Escaped, Took};
use crate::proxy::PastTransaction;

const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// Bars, so that one can be told from the next on a phone.
const BARS: usize = 60;

/// A bar for each transaction, oldest first: planning, encoding and the kernel's part, one on the other.
pub(super) fn transactions<'t>(
    all: impl DoubleEndedIterator<Item = &'t PastTransaction>,
) -> String {
    let mut last: Vec<_> = all.rev().take(BARS).collect();
    last.reverse();
    let total = |it: &PastTransaction| it.applied.plan + it.applied.encode + it.applied.commit;
    let longest = last.iter().map(|it| total(it)).max().unwrap_or_default();
    let mut svg = format!(
        "<p class=\"soft\">The longest took {}.</p><svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Time that the last transactions took\">",
        Took(longest)
    );
    let step = WIDTH / f64::from(u32::try_from(BARS).unwrap_or(1));
    let mut x = WIDTH - step * f64::from(u32::try_from(last.len()).unwrap_or_default());
    for past in last {
        let applied = &past.applied;
        let title = format!("{applied}; {}", Ago::since(past.time));
        // Writing to a string does not fail.
        let _ = write!(svg, "<g><title>{}</title>", Escaped(title));
        let mut y = HEIGHT;
        for (class, time) in [
            ("commit", applied.commit),
            ("encode", applied.encode),
            ("plan", applied.plan),
        ] {
            let height = part(time, longest) * HEIGHT;
            y -= height;
            let _ = write!(
                svg,
                "<rect class=\"{class}\" x=\"{:.1}\" y=\"{y:.2}\" width=\"{:.1}\" height=\"{height:.2}\"/>",
                x + 1.0,
                step - 2.0
            );
        }
        svg.push_str("</g>");
        x += step;
    }
    svg.push_str("</svg>");
    svg
}

fn part(time: Duration, of: Duration) -> f64 {
    if of.is_zero() {
        return 0.0;
    }
    time.as_secs_f64() / of.as_secs_f64()
}
