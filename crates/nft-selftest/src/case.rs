use core::fmt;

use crate::bench::Bench;
use crate::verdict::Verdict;

/// One claim about the kernel, and how it is asked.
#[derive(Clone, Copy)]
pub struct Case {
    /// What it is about; the module that holds it.
    pub topic: &'static str,
    /// What is claimed, in words.
    pub name: &'static str,
    pub(crate) run: fn(&mut Bench) -> Verdict,
}

impl Case {
    /// `topic.name`, by which it is listed and asked for; stable.
    #[must_use]
    pub fn full_name(&self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.topic, self.name)
    }
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Case").field(&self.full_name()).finish()
    }
}

/// The cases of a module: the functions named, which are in it or below it.
macro_rules! cases {
    ($topic:literal: $($($path:ident)::+),+ $(,)?) => {
        /// The cases of this topic.
        pub(in crate::cases) const CASES: &[$crate::Case] = &[
            $($crate::Case {
                topic: $topic,
                name: $crate::case::last(stringify!($($path)::+)),
                run: $($path)::+,
            }),+
        ];
    };
}
pub(crate) use cases;

/// The last name of a path.
pub(crate) const fn last(path: &'static str) -> &'static str {
    let bytes = path.as_bytes();
    let mut start = bytes.len();
    while start > 0 && bytes[start - 1] != b':' && bytes[start - 1] != b' ' {
        start -= 1;
    }
    path.split_at(start).1
}
