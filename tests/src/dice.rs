//! Numbers that depend on a seed alone.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Result;

/// xorshift64.
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// From a seed.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        // 0 would stay 0; neighbouring seeds begin far apart.
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// One of 0 to `limit` − 1.
    pub const fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % limit
    }

    /// True one time in so many.
    pub const fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}

/// The seed in `KPROXY_SEED`, else a new one each time.
///
/// # Errors
/// When it is no number.
pub fn seed() -> Result<u64> {
    match std::env::var("KPROXY_SEED") {
        Ok(seed) => Ok(seed.parse()?),
        Err(_) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH)?;
            Ok(u64::try_from(now.as_micros())?)
        }
    }
}
