//! When somebody keeps changing our table back: not an endless fight.

use core::time::Duration;
use std::collections::VecDeque;

/// So many repairs within [`WINDOW`] are one too many.
const REPAIRS: usize = 3;
/// See [`REPAIRS`]; also for how long it must have been quiet until all is well again.
const WINDOW: Duration = Duration::from_secs(60);
/// First pause; each further one is twice as long.
const PAUSE_FIRST: Duration = Duration::from_secs(10);
/// Longest pause.
const PAUSE_LONGEST: Duration = Duration::from_secs(300);

/// Counts repairs and says when to let go for a while.
#[derive(Debug, Clone, Default)]
pub(super) struct Contention {
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
    /// Something was put right.
    pub(super) fn repaired(&mut self, now: Duration) -> Verdict {
        self.calm(now);
        if let Some(fight) = &mut self.fight {
            fight.pause = PAUSE_LONGEST.min(fight.pause * 2);
            fight.until = now + fight.pause;
            return Verdict::LetGo(fight.until);
        }
        while self
            .repairs
            .front()
            .is_some_and(|time| *time + WINDOW <= now)
        {
            self.repairs.pop_front();
        }
        self.repairs.push_back(now);
        if self.repairs.len() < REPAIRS {
            return Verdict::Fine;
        }
        self.repairs.clear();
        let until = now + PAUSE_FIRST;
        self.fight = Some(Fight {
            since: now,
            until,
            pause: PAUSE_FIRST,
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
        self.fight.map(|fight| fight.until + WINDOW)
    }

    /// Since when somebody fights.
    pub(super) fn since(&self) -> Option<Duration> {
        self.fight.map(|fight| fight.since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn repairs_now_and_then_are_no_fight() {
        let mut contention = Contention::default();
        for round in 0..100 {
            assert_eq!(contention.repaired(at(31 * round)), Verdict::Fine);
        }
        assert_eq!(contention.since(), None);
    }

    #[test]
    fn the_third_repair_in_a_minute_is_the_last_for_a_while_and_pauses_grow() {
        let mut contention = Contention::default();
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
            assert!(until - now <= PAUSE_LONGEST);
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
