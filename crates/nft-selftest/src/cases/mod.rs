//! The cases, one topic a module.

mod abort;
mod conntrack;
mod dump;
mod dynset;
mod enobufs;
mod errors;
mod events;
mod generation;
mod limits;
mod numgen;
mod owner;
mod race;
mod reference;
mod replace;
mod scratch;
mod sets;
mod validation;

use crate::Case;

/// Every case, in the order in which they are run.
pub fn all() -> impl Iterator<Item = &'static Case> {
    [
        reference::CASES,
        limits::CASES,
        errors::CASES,
        generation::CASES,
        abort::CASES,
        replace::CASES,
        sets::CASES,
        numgen::CASES,
        dynset::CASES,
        scratch::CASES,
        owner::CASES,
        dump::CASES,
        events::CASES,
        enobufs::CASES,
        conntrack::CASES,
        validation::CASES,
        race::CASES,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn names_are_unique_and_tell_the_topic_first() {
        let mut names = HashSet::new();
        for case in all() {
            assert!(names.insert(case.full_name()), "{case} twice");
            assert!(!case.name.contains([':', ' ']), "{case}");
        }
    }
}
