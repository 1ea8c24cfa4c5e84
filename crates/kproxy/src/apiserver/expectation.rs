//! What may be expected of a watch that is open: bookmarks, or nothing.
//!
//! A server sends a bookmark each minute, but none that says what the client knows already
//! (apiserver/pkg/storage/cacher: `cacheWatcher.process`). So a watch that never sent anything may be
//! that of a kind of which nothing happens, of which the server hears from etcd every ten minutes only
//! (`--watch-progress-notify-interval`). It may also be dead, or one of a version that lies in the
//! server's future since etcd was restored from a backup: then the server sends nothing until that
//! version is reached. A list of nothing, answered from the server's cache, tells which.

/// See the module.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expectation {
    /// It has sent nothing since it began.
    Unknown,
    /// It sends bookmarks: silence is a fault.
    Bookmarks,
    /// The server knew nothing newer when it was asked.
    Nothing,
}

impl Expectation {
    /// Of a watch from version `known` on, while the server's newest one is `newest`.
    pub(super) fn of(known: &str, newest: &str) -> Self {
        match (known.parse::<u64>(), newest.parse::<u64>()) {
            // It is to be told in a bookmark within a minute.
            (Ok(known), Ok(newest)) if newest > known => Self::Bookmarks,
            _ => Self::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_newer_is_to_be_told() {
        assert_eq!(Expectation::of("5", "6"), Expectation::Bookmarks);
        assert_eq!(Expectation::of("10", "9"), Expectation::Nothing);
        assert_eq!(Expectation::of("5", "5"), Expectation::Nothing);
        assert_eq!(Expectation::of("a", "b"), Expectation::Nothing);
    }
}
