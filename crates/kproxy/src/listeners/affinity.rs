//! Which endpoint a connection to a node port at a loopback address goes to.

use core::hash::{BuildHasher as _, Hasher as _};
use core::net::SocketAddr;
use core::time::Duration;
use std::hash::RandomState;
use std::time::Instant;

/// Endpoints of a node port, and the one that is stuck to.
#[derive(Debug, Default)]
pub(super) struct Endpoints {
    endpoints: Vec<SocketAddr>,
    affinity: Option<Duration>,
    /// All clients have the same address, so all stick to one endpoint, until none came for the
    /// affinity's timeout.
    stuck: Option<(SocketAddr, Instant)>,
}

impl Endpoints {
    /// Replaces them; what is stuck to stays so while it is among them.
    pub(super) fn set(&mut self, endpoints: &[SocketAddr], affinity: Option<u32>) {
        self.endpoints.clear();
        self.endpoints.extend_from_slice(endpoints);
        self.affinity = affinity.map(|seconds| Duration::from_secs(seconds.into()));
    }

    /// The endpoint of a connection that comes now.
    pub(super) fn choose(&mut self, now: Instant) -> Option<SocketAddr> {
        let Some(timeout) = self.affinity else {
            self.stuck = None;
            return self.any();
        };
        let stuck = self.stuck.filter(|(endpoint, since)| {
            now.saturating_duration_since(*since) < timeout && self.endpoints.contains(endpoint)
        });
        let chosen = match stuck {
            Some((endpoint, _)) => endpoint,
            None => self.any()?,
        };
        self.stuck = Some((chosen, now));
        Some(chosen)
    }

    fn any(&self) -> Option<SocketAddr> {
        let count = u64::try_from(self.endpoints.len()).ok()?;
        let random = RandomState::new().build_hasher().finish();
        let index = random.checked_rem(count)?;
        self.endpoints.get(usize::try_from(index).ok()?).copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn sockets(ports: &[u16]) -> Vec<SocketAddr> {
        let sockets = ports
            .iter()
            .map(|port| SocketAddr::from(([10, 0, 0, 1], *port)));
        sockets.collect()
    }

    #[test]
    fn without_affinity_all_are_chosen() {
        let mut endpoints = Endpoints::default();
        assert_eq!(endpoints.choose(Instant::now()), None);
        endpoints.set(&sockets(&[1, 2, 3]), None);
        let chosen: HashSet<_> = (0..200).map(|_| endpoints.choose(Instant::now())).collect();
        assert_eq!(chosen.len(), 3);
    }

    #[test]
    fn with_affinity_one_is_stuck_to() {
        let mut endpoints = Endpoints::default();
        let all = sockets(&[1, 2, 3, 4, 5, 6, 7, 8]);
        endpoints.set(&all, Some(60));
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let first = endpoints.choose(start).unwrap();
        // Each connection prolongs it.
        for step in 1..10 {
            assert_eq!(endpoints.choose(after(step * 50)), Some(first));
        }
        // Others may come and go.
        endpoints.set(&[first, "10.0.0.2:80".parse().unwrap()], Some(60));
        assert_eq!(endpoints.choose(after(500)), Some(first));
        endpoints.set(&["10.0.0.2:80".parse().unwrap()], Some(60));
        assert_ne!(endpoints.choose(after(500)), Some(first));

        endpoints.set(&all, Some(60));
        let anew: HashSet<_> = (1..200)
            .map(|it| endpoints.choose(after(600 + it * 60)))
            .collect();
        assert!(anew.len() > 1);
    }
}
