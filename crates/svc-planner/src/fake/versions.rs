use smallvec::SmallVec;

/// Values of one object by generation: what it was at every commit.
#[derive(Debug, Clone)]
pub(super) struct Versions<T>(SmallVec<[(u64, Option<T>); 2]>);

/// A value and the generations, both included, at which it is what readers see.
#[derive(Debug)]
pub(super) struct Span<'a, T> {
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) value: Option<&'a T>,
}

impl<T> Clone for Span<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Span<'_, T> {}

impl<T> Default for Versions<T> {
    fn default() -> Self {
        Self(SmallVec::new())
    }
}

impl<T> Versions<T> {
    /// The value at a generation.
    pub(super) fn at(&self, generation: u64) -> Option<&T> {
        let newer = self.0.partition_point(|(first, _)| *first <= generation);
        self.0.get(newer.checked_sub(1)?)?.1.as_ref()
    }

    /// The value after the newest change, committed or pending.
    pub(super) fn latest(&self) -> Option<&T> {
        self.0.last()?.1.as_ref()
    }

    /// Sets the value from `generation` on; generations never go back.
    pub(super) fn set(&mut self, generation: u64, value: Option<T>) {
        match self.0.last_mut() {
            Some((last, old)) if *last == generation => *old = value,
            _ => self.0.push((generation, value)),
        }
    }

    /// Takes back what `generation` changed.
    pub(super) fn undo(&mut self, generation: u64) {
        if self.0.last().is_some_and(|(last, _)| *last == generation) {
            self.0.pop();
        }
    }

    /// Forgets what no reader at `oldest` or later can see; true when nothing is left.
    pub(super) fn forget(&mut self, oldest: u64) -> bool {
        let newer = self.0.partition_point(|(first, _)| *first <= oldest);
        self.0.drain(..newer.saturating_sub(1));
        if self
            .0
            .first()
            .is_some_and(|(first, value)| *first <= oldest && value.is_none())
        {
            self.0.remove(0);
        }
        self.0.is_empty()
    }

    /// Generations in `(after, until]` at which something changed.
    pub(super) fn changes(&self, after: u64, until: u64) -> impl Iterator<Item = u64> + '_ {
        self.0
            .iter()
            .map(|(first, _)| *first)
            .filter(move |at| *at > after && *at <= until)
    }

    /// The values that readers at `first ..= last` can see, oldest first.
    pub(super) fn spans(&self, first: u64, last: u64) -> SmallVec<[Span<'_, T>; 2]> {
        let mut spans: SmallVec<[Span<'_, T>; 2]> = SmallVec::new();
        spans.push(Span {
            first,
            last,
            value: self.at(first),
        });
        for at in self.changes(first, last) {
            if let Some(previous) = spans.last_mut() {
                previous.last = at - 1;
            }
            spans.push(Span {
                first: at,
                last,
                value: self.at(at),
            });
        }
        spans
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_by_generation() {
        let mut versions = Versions::default();
        versions.set(3, Some('a'));
        versions.set(5, None);
        versions.set(9, Some('b'));
        assert_eq!(versions.at(2), None);
        assert_eq!(versions.at(4), Some(&'a'));
        assert_eq!(versions.at(8), None);
        assert_eq!(versions.at(9), Some(&'b'));
        let spans: Vec<_> = versions
            .spans(4, 10)
            .iter()
            .map(|s| (s.first, s.last, s.value.copied()))
            .collect();
        assert_eq!(spans, [(4, 4, Some('a')), (5, 8, None), (9, 10, Some('b'))]);
    }

    #[test]
    fn undoes_the_pending_generation_only() {
        let mut versions = Versions::default();
        versions.set(1, Some(1));
        versions.set(2, Some(2));
        versions.undo(3);
        assert_eq!(versions.latest(), Some(&2));
        versions.undo(2);
        assert_eq!(versions.latest(), Some(&1));
    }

    #[test]
    fn forgets_what_is_out_of_sight() {
        let mut versions = Versions::default();
        versions.set(1, Some(1));
        versions.set(2, None);
        versions.set(7, Some(7));
        assert!(!versions.clone().forget(1));
        let mut seen_from_five = versions.clone();
        assert!(!seen_from_five.forget(5));
        assert_eq!(seen_from_five.at(5), None);
        assert_eq!(seen_from_five.at(7), Some(&7));
        versions.set(8, None);
        assert!(versions.forget(8));
    }
}
