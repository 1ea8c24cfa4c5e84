/// Decides where an evaluation can go several ways.
pub(super) trait Choose {
    /// A number below `options`, which is at least 1.
    fn choose(&mut self, options: usize) -> usize;
}

/// Takes random numbers from an iterator; 0 when it ends.
pub(super) struct Given<'a>(pub(super) &'a mut dyn Iterator<Item = u32>);

impl Choose for Given<'_> {
    fn choose(&mut self, options: usize) -> usize {
        let number = self.0.next().unwrap_or(0);
        usize::try_from(number).unwrap_or(usize::MAX) % options.max(1)
    }
}

/// Goes all ways, one after the other, by repeating the evaluation: an odometer of choices.
#[derive(Debug, Default)]
pub(super) struct Every {
    /// (taken, options) of every choice of this round.
    taken: Vec<(usize, usize)>,
    next: usize,
}

impl Every {
    /// The share of all ways' weight that this round's way has when each choice is fair.
    pub(super) fn share(&self) -> f64 {
        self.taken
            .iter()
            .map(|(_, options)| 1.0 / *options as f64)
            .product()
    }

    /// Turns to the next way; false after the last one.
    pub(super) fn advance(&mut self) -> bool {
        self.next = 0;
        while let Some((taken, options)) = self.taken.pop() {
            if taken + 1 < options {
                self.taken.push((taken + 1, options));
                return true;
            }
        }
        false
    }
}

impl Choose for Every {
    fn choose(&mut self, options: usize) -> usize {
        let way = match self.taken.get(self.next) {
            Some((taken, _)) => *taken,
            None => {
                self.taken.push((0, options));
                0
            }
        };
        self.next += 1;
        way
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goes_every_way_once() {
        let mut every = Every::default();
        let mut ways = Vec::new();
        loop {
            let first = every.choose(2);
            let second = if first == 0 { every.choose(3) } else { 9 };
            ways.push((first, second));
            if !every.advance() {
                break;
            }
        }
        assert_eq!(ways, [(0, 0), (0, 1), (0, 2), (1, 9)]);
    }

    #[test]
    fn given_numbers_stay_below_the_options() {
        let mut numbers = [5, 2].into_iter();
        let mut given = Given(&mut numbers);
        assert_eq!(
            [given.choose(3), given.choose(3), given.choose(3)],
            [2, 2, 0]
        );
    }
}
