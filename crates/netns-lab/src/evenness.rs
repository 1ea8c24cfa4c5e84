/// Pearson's χ² of counts against equal shares.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub struct Evenness {
    /// The statistic.
    pub chi_square: f64,
    /// Degrees of freedom: counts less one.
    pub degrees: u32,
}

impl Evenness {
    /// Compares counts with equal shares of their sum.
    #[must_use]
    pub fn of(counts: &[u64]) -> Self {
        let total: u64 = counts.iter().sum();
        let share = total as f64 / counts.len().max(1) as f64;
        let chi_square = counts
            .iter()
            .map(|&count| (count as f64 - share).powi(2))
            .sum::<f64>()
            / share.max(f64::MIN_POSITIVE);
        let degrees = u32::try_from(counts.len().saturating_sub(1)).unwrap_or(u32::MAX);
        Self {
            chi_square,
            degrees,
        }
    }

    /// By how many standard deviations the counts are less even than chance makes them on average
    /// (Wilson and Hilferty's approximation).
    #[must_use]
    pub fn deviation(&self) -> f64 {
        if self.degrees == 0 {
            return 0.0;
        }
        let degrees = f64::from(self.degrees);
        let spread = 2.0 / (9.0 * degrees);
        ((self.chi_square / degrees).cbrt() - (1.0 - spread)) / spread.sqrt()
    }

    /// Whether chance alone explains the counts; wrong for one in 30,000 even distributions.
    #[must_use]
    pub fn is_even(&self) -> bool {
        self.deviation() < 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statistic_and_deviation() {
        let even = Evenness::of(&[100, 100, 100]);
        assert_eq!((even.chi_square, even.degrees), (0.0, 2));
        let uneven = Evenness::of(&[120, 90, 90]);
        assert!((uneven.chi_square - 6.0).abs() < 1e-9);
        // χ² with 2 degrees exceeds 5.991 in 5 % of cases, which is 1.645 standard deviations.
        let five_percent = Evenness {
            chi_square: 5.991,
            degrees: 2,
        };
        assert!((five_percent.deviation() - 1.645).abs() < 0.05);
        let five_percent = Evenness {
            chi_square: 123.225,
            degrees: 99,
        };
        assert!((five_percent.deviation() - 1.645).abs() < 0.01);
    }

    #[test]
    fn what_chance_does_not_explain() {
        assert!(Evenness::of(&[1]).is_even());
        assert!(Evenness::of(&[500, 520]).is_even());
        assert!(!Evenness::of(&[500, 700]).is_even());
        assert!(!Evenness::of(&[100, 100, 0]).is_even());
    }
}
