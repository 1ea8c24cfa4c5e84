//! How long clients stick to endpoints: few different times, since each has chains of its own.

/// So many are used as they are asked for; more are rounded up.
const EXACT: usize = 64;

/// The longest that the API allows, in seconds.
pub(crate) const LONGEST: u32 = 86_400;

/// The API's default, in seconds.
pub(crate) const DEFAULT: u32 = 10_800;

/// What is rounded up to, in seconds: no more than half as long again, from three seconds on.
const GRID: [u32; 33] = [
    1, 2, 3, 4, 6, 8, 12, 16, 24, 30, 45, 60, 90, 120, 180, 240, 360, 480, 600, 900, 1200, 1800,
    2700, 3600, 5400, 7200, DEFAULT, 16_200, 21_600, 32_400, 43_200, 64_800, LONGEST,
];

/// The times in use, each with the number of classes that have it.
#[derive(Debug, Default)]
pub(crate) struct Timeouts(Vec<(u32, u32)>);

impl Timeouts {
    /// What is used for a time asked for.
    pub(crate) fn fit(&self, seconds: u32) -> u32 {
        let seconds = seconds.clamp(1, LONGEST);
        if self.0.len() < EXACT || self.find(seconds).is_ok() {
            return seconds;
        }
        let rounded = GRID.into_iter().find(|other| *other >= seconds);
        rounded.unwrap_or(LONGEST)
    }

    /// One more class has it.
    pub(crate) fn add(&mut self, seconds: u32) {
        match self.find(seconds) {
            Ok(at) => self.0[at].1 = self.0[at].1.saturating_add(1),
            Err(at) => self.0.insert(at, (seconds, 1)),
        }
    }

    /// One class less has it.
    pub(crate) fn remove(&mut self, seconds: u32) {
        if let Ok(at) = self.find(seconds) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }

    fn find(&self, seconds: u32) -> Result<usize, usize> {
        self.0.binary_search_by_key(&seconds, |(other, _)| *other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_exact_and_the_others_are_rounded_up() {
        assert!(GRID.is_sorted());
        for pair in GRID.windows(2).filter(|pair| pair[0] >= 3) {
            assert!(pair[1] * 2 <= pair[0] * 3, "{pair:?}");
        }
        let mut timeouts = Timeouts::default();
        for seconds in 1001..1065 {
            assert_eq!(timeouts.fit(seconds), seconds);
            timeouts.add(seconds);
        }
        assert_eq!(timeouts.fit(1033), 1033);
        assert_eq!(timeouts.fit(999), 1200);
        assert_eq!(timeouts.fit(DEFAULT + 1), 16_200);
        assert_eq!(timeouts.fit(u32::MAX), LONGEST);
        assert_eq!(timeouts.fit(0), 1);
        timeouts.add(1001);
        timeouts.remove(1001);
        assert_eq!(timeouts.fit(999), 1200);
        timeouts.remove(1001);
        assert_eq!(timeouts.fit(999), 999);
    }
}
