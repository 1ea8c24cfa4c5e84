//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the soft limit to the hard one, for which nobody needs a privilege: so does every Go program when it
/// starts (os/rlimit.go). The soft one is 1024 where systemd has its way, and whoever opens as many connections
/// to health checks would keep us from the API server and the kernel.
pub(super) fn raise_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let wanted = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, wanted) {
        tracing::warn!("the limit of open files stays as it is: {error}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let before = getrlimit(Resource::Nofile);
        let lower = Rlimit {
            current: before.maximum.or(before.current).map(|most| most - 1),
            ..before
        };
        setrlimit(Resource::Nofile, lower).unwrap();
        raise_limit();
        assert_eq!(getrlimit(Resource::Nofile).current, before.maximum);
    }
}
