//! Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input"):
//! leaves out ever smaller pieces as long as what remains still fails.

/// The smallest list, in order, for which `fails` is still true; none of its items can be left out
/// alone. `items` itself must fail.
pub(super) fn minimise<T: Clone>(items: &[T], fails: &mut impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut kept = items.to_vec();
    if kept.is_empty() || fails(&[]) {
        return Vec::new();
    }
    let mut pieces = 2;
    while kept.len() >= 2 {
        let size = kept.len().div_ceil(pieces);
        let mut smaller = None;
        // One piece alone would be the greatest step; after the first halving it hardly ever fails.
        if pieces == 2 {
            smaller = kept
                .chunks(size)
                .find(|piece| fails(piece))
                .map(<[T]>::to_vec);
        }
        if smaller.is_none() {
            let mut start = 0;
            while start < kept.len() {
                let end = (start + size).min(kept.len());
                let rest: Vec<T> = kept
                    .iter()
                    .enumerate()
                    .filter(|(index, _)| !(start..end).contains(index))
                    .map(|(_, item)| item.clone())
                    .collect();
                if fails(&rest) {
                    smaller = Some(rest);
                    break;
                }
                start = end;
            }
            if smaller.is_some() {
                pieces = pieces.saturating_sub(1).max(2);
            }
        } else {
            pieces = 2;
        }
        match smaller {
            Some(smaller) => kept = smaller,
            None if pieces >= kept.len() => break,
            None => pieces = (pieces * 2).min(kept.len()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_needed_is_kept() {
        for needed in [&[][..], &[0], &[99], &[3, 70], &[1, 2, 3, 50]] {
            let items: Vec<usize> = (0..100).collect();
            let mut tried = 0;
            let kept = minimise(&items, &mut |kept| {
                tried += 1;
                needed.iter().all(|item| kept.contains(item))
            });
            assert_eq!(kept, needed);
            assert!(tried < 250, "{tried} trials for {needed:?}");
        }
    }

    #[test]
    fn items_that_need_each_other_stay_together() {
        // Everything from an even item on needs the item before it.
        let items: Vec<usize> = (0..40).collect();
        let kept = minimise(&items, &mut |kept| {
            kept.contains(&21)
                && kept
                    .iter()
                    .all(|item| *item == 0 || kept.contains(&(item / 2)))
        });
        assert_eq!(kept, [0, 1, 2, 5, 10, 21]);
    }
}
