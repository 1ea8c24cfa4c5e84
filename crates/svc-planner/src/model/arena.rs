//! Values under reusable 32-bit numbers.

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// A vector with holes; numbers of removed values are used again.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    values: Vec<Option<T>>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    /// An arena of values with given numbers; `None` if a number comes twice or is above `max`.
    pub(crate) fn numbered(values: impl IntoIterator<Item = (u32, T)>, max: u32) -> Option<Self> {
        let mut arena = Self::default();
        for (id, value) in values {
            if id > max {
                return None;
            }
            let place = id as usize;
            if place >= arena.values.len() {
                arena.values.resize_with(place + 1, || None);
            }
            if arena.values[place].replace(value).is_some() {
                return None;
            }
        }
        let holes = (0..)
            .zip(&arena.values)
            .filter(|(_, value)| value.is_none());
        arena.free = holes.map(|(id, _)| id).collect();
        Some(arena)
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(id) = self.free.pop() {
            self.values[id as usize] = Some(value);
            return id;
        }
        // Memory ends long before the numbers do.
        let id = u32::try_from(self.values.len()).unwrap_or(NONE);
        self.values.push(Some(value));
        id
    }

    pub(crate) fn remove(&mut self, id: u32) -> Option<T> {
        let value = self.values.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(value)
    }

    /// Takes a value out but keeps its number from being used again until [`free`](Self::free).
    pub(crate) fn take(&mut self, id: u32) -> Option<T> {
        self.values.get_mut(id as usize)?.take()
    }

    /// Puts a value back that was taken out.
    pub(crate) fn put_back(&mut self, id: u32, value: T) {
        if let Some(place) = self.values.get_mut(id as usize) {
            *place = Some(value);
        }
    }

    /// Lets the number of a taken value be used again.
    pub(crate) fn free(&mut self, id: u32) {
        self.free.push(id);
    }

    pub(crate) fn at(&self, id: u32) -> Option<&T> {
        self.values.get(id as usize)?.as_ref()
    }

    pub(crate) fn at_mut(&mut self, id: u32) -> Option<&mut T> {
        self.values.get_mut(id as usize)?.as_mut()
    }

    /// All values by ascending number.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        (0..)
            .zip(&self.values)
            .filter_map(|(id, value)| Some((id, value.as_ref()?)))
    }

    /// Number of values.
    pub(crate) fn len(&self) -> usize {
        self.values.len() - self.free.len()
    }

    /// One above the greatest number in use.
    pub(crate) fn end(&self) -> u32 {
        u32::try_from(self.values.len()).unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_reused() {
        let mut arena = Arena::default();
        let a = arena.insert('a');
        let b = arena.insert('b');
        assert_eq!(arena.remove(a), Some('a'));
        assert_eq!(arena.remove(a), None);
        assert_eq!(arena.insert('c'), a);
        assert_eq!(arena.iter().collect::<Vec<_>>(), [(a, &'c'), (b, &'b')]);
        assert_eq!((arena.len(), arena.end()), (2, 2));
    }

    #[test]
    fn values_come_back_under_their_numbers() {
        let mut arena = Arena::numbered([(2, 'c'), (0, 'a')], 2).unwrap();
        assert_eq!((arena.at(2), arena.len()), (Some(&'c'), 2));
        assert_eq!(arena.insert('b'), 1);
        assert!(Arena::numbered([(3, 'd')], 2).is_none());
        assert!(Arena::numbered([(1, 'b'), (1, 'd')], 2).is_none());
    }
}
