//! When somebody keeps changing our table back: not an endless fight.

use core::time::Duration;
use std::collections::VecDeque;

use super::GuardOptions;

/// So many repairs within the window are one too many.
const REPAIRS: usize = 3;

/// Counts repairs and says when to let go for a while.
#[derive(Debug, Clone)]
pub(super) struct Contention {
    options: GuardOptions,
    /// Times of the last repairs.
    repairs: VecDeque<Duration>,
    fight: Option<Fight>,
}

#[derive(Debug, Clone, Copy)]
struct Fight {
    since: Duration,
    until: Duration,
    pause: Duration,
}

/// What a repair came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Go on.
    Fine,
    /// Somebody fights: no repair before this time.
    LetGo(Duration),
}

impl Contention {
    pub(super) const fn new(options: GuardOptions) -> Self {
        Self {
            options,
            repairs: VecDeque::new(),
            fight: None,
        }
    }

    /// Something was put right.
    pub(super) fn repaired(&mut self, now: Duration) -> Verdict {
        self.calm(now);
        if let Some(fight) = &mut self.fight {
            fight.pause = self.options.longest_pause.min(fight.pause * 2);
            fight.until = now + fight.pause;
            return Verdict::LetGo(fight.until);
        }
        while self
            .repairs
            .front()
            .is_some_and(|time| *time + self.options.window <= now)
        {
            self.repairs.pop_front();
        }
        self.repairs.push_back(now);
        if self.repairs.len() < REPAIRS {
            return Verdict::Fine;
        }
        self.repairs.clear();
        let pause = self.options.first_pause;
        let until = now + pause;
        self.fight = Some(Fight {
            since: now,
            until,
            pause,
        });
        Verdict::LetGo(until)
    }

    /// When the next repair may be made, if not now.
    pub(super) fn pause(&self, now: Duration) -> Option<Duration> {
        let fight = self.fight.filter(|fight| now < fight.until)?;
        Some(fight.until)
    }

    /// True if a fight is over: nothing was to be put right for a while.
    pub(super) fn calm(&mut self, now: Duration) -> bool {
        let over = self.calm_at().is_some_and(|time| time <= now);
        if over {
            self.fight = None;
        }
        over
    }

    /// When the fight is over if nothing more happens.
    pub(super) fn calm_at(&self) -> Option<Duration> {
        self.fight.map(|fight| fight.until + self.options.window)
    }

    /// Since when somebody fights.
    pub(super) fn since(&self) -> Option<Duration> {
        self.fight.map(|fight| fight.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contention() -> Contention {
        Contention::new(GuardOptions::default())
    }

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn repairs_now_and_then_are_no_fight() {
        let mut contention = contention();
        for round in 0..100 {
            assert_eq!(contention.repaired(at(31 * round)), Verdict::Fine);
        }
        assert_eq!(contention.since(), None);
    }

    #[test]
    fn the_third_repair_in_a_minute_is_the_last_for_a_while_and_pauses_grow() {
        let mut contention = contention();
        assert_eq!(contention.repaired(at(100)), Verdict::Fine);
        assert_eq!(contention.repaired(at(101)), Verdict::Fine);
        assert_eq!(contention.repaired(at(102)), Verdict::LetGo(at(112)));
        assert_eq!(contention.pause(at(111)), Some(at(112)));
        assert_eq!(contention.pause(at(112)), None);
        assert_eq!(contention.repaired(at(112)), Verdict::LetGo(at(132)));
        assert_eq!(contention.repaired(at(132)), Verdict::LetGo(at(172)));
        let mut now = at(172);
        for _ in 0..10 {
            let Verdict::LetGo(until) = contention.repaired(now) else {
                panic!("still a fight");
            };
            assert!(until - now <= contention.options.longest_pause);
            now = until;
        }
        assert_eq!(contention.since(), Some(at(102)));
        // One repair, and nobody undoes it.
        assert!(!contention.calm(now + at(59)));
        assert!(contention.calm(now + at(60)));
        assert_eq!(contention.since(), None);
        assert_eq!(contention.repaired(now + at(60)), Verdict::Fine);
    }
}
