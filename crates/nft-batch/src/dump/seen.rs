//! Which elements of a set a dump has told already.

use core::hash::{BuildHasher, Hash, Hasher};
use std::collections::HashMap;
use std::hash::RandomState;

use nl_codec::nft::{Data, Elem};

/// Room kept for the next dump.
const KEPT: usize = 4096;

/// Elements told so far, as hashes of 8 bytes: of a million, two share one once in 37 million times.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    hasher: RandomState,
    /// The pass that told it last.
    elements: HashMap<u64, u32>,
    pass: u32,
    /// The current pass told an element twice.
    repeats: bool,
}

impl Seen {
    /// The set is read from its beginning again.
    pub(super) fn begin_pass(&mut self) {
        self.pass += 1;
        self.repeats = false;
    }

    /// See the field.
    pub(super) fn repeats(&self) -> bool {
        self.repeats
    }

    /// The dump has come to its end.
    pub(super) fn forget(&mut self) {
        self.elements.clear();
        self.elements.shrink_to(KEPT);
        (self.pass, self.repeats) = (0, false);
    }

    /// Notes an element; whether no pass has told it before.
    pub(super) fn is_new(&mut self, elem: &Elem<'_>) -> bool {
        match self.elements.insert(self.identity(elem), self.pass) {
            None => true,
            Some(before) => {
                self.repeats |= before == self.pass;
                false
            }
        }
    }

    /// What tells an element from the others of its set: the end of an interval may have the key
    /// that another one begins with, and only the flags tell them apart.
    fn identity(&self, elem: &Elem<'_>) -> u64 {
        let mut hash = self.hasher.build_hasher();
        elem.flags.hash(&mut hash);
        for bound in [&elem.key, &elem.key_end] {
            let bytes = match bound {
                Some(Data::Value(value)) => Some(value.as_bytes()),
                _ => None,
            };
            bytes.hash(&mut hash);
        }
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use nl_codec::nft::Value;
    use nl_codec::nft::elem::ElemFlags;

    use super::*;

    #[test]
    fn what_tells_elements_apart() {
        let mut elems = Vec::new();
        for number in [1, 2] {
            elems.push(Elem::new(Value::u32_be(number)));
        }
        let mut end = Elem::new(Value::u32_be(1));
        end.flags = Some(ElemFlags::INTERVAL_END);
        elems.push(end);
        for last in [1, 2] {
            let mut interval = Elem::new(Value::u32_be(1));
            interval.key_end = Some(Data::Value(Value::u32_be(last)));
            elems.push(interval);
        }
        let mut rest = Elem::default();
        rest.flags = Some(ElemFlags::CATCHALL);
        elems.push(rest);

        let mut seen = Seen::default();
        seen.begin_pass();
        assert!(elems.iter().all(|elem| seen.is_new(elem)));
        assert!(!seen.repeats());
        assert!(!seen.is_new(&elems[3]));
        assert!(seen.repeats());
        // What an earlier pass told is no repeat.
        seen.begin_pass();
        assert!(elems.iter().all(|elem| !seen.is_new(elem)));
        assert!(!seen.repeats());
        seen.forget();
        seen.begin_pass();
        assert!(elems.iter().all(|elem| seen.is_new(elem)));
    }
}
