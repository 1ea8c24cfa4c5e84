//! How a run went as a whole.

use crate::{Outcome, Stop};

/// kselftest's exit codes (tools/testing/selftests/kselftest.h).
pub(crate) const PASS: u8 = 0;
pub(crate) const FAIL: u8 = 1;
pub(crate) const SKIP: u8 = 4;

/// How many cases came to what.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) passed: usize,
    pub(crate) failed: usize,
    pub(crate) skipped: usize,
}

impl Tally {
    pub(crate) fn add(&mut self, outcome: &Outcome) {
        match &outcome.stop {
            None => self.passed += 1,
            Some(Stop::Fail(_)) => self.failed += 1,
            Some(Stop::Skip(_)) => self.skipped += 1,
        }
    }

    /// See [`PASS`].
    pub(crate) fn code(self) -> u8 {
        match self {
            Self { failed: 1.., .. } => FAIL,
            Self { passed: 0, .. } => SKIP,
            _ => PASS,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_kselftest() {
        let tally = |passed, failed, skipped| Tally {
            passed,
            failed,
            skipped,
        };
        assert_eq!(tally(3, 0, 1).code(), 0);
        assert_eq!(tally(3, 1, 1).code(), 1);
        assert_eq!(tally(0, 0, 4).code(), 4);
    }
}
