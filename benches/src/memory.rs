//! Memory of a planner that holds a whole cluster; no kernel is involved.

use core::time::Duration;

use allocation_counter::measure;
use svc_planner::plan::Family;
use svc_planner::{Config, Next, Planner};

use crate::cluster::Cluster;

/// What a planner takes, in bytes.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Once all is planned.
    pub settled: u64,
    /// The most at any time while it was planned, with one transaction after the other.
    pub peak: u64,
    /// The most that writing its state down took besides.
    pub saving: u64,
    /// Rows of all transactions.
    pub rows: usize,
    /// Transactions.
    pub transactions: usize,
}

/// Loads a cluster into a planner and takes all its transactions, one at a time.
#[must_use]
pub fn of_planner(cluster: Cluster) -> Memory {
    let mut planner = Planner::new(Family::Ipv4, Config::default());
    let (mut rows, mut transactions) = (0, 0);
    let counted = measure(|| {
        for change in cluster.changes() {
            planner.apply(change);
        }
        let mut clock = Duration::ZERO;
        loop {
            match planner.next(clock) {
                Next::Commit(transaction) => {
                    rows += transaction.rows();
                    transactions += 1;
                    planner.committed(clock);
                    planner.recycle(transaction);
                }
                Next::WaitUntil(time) => clock = time,
                _ => return,
            }
        }
    });
    let saving = measure(|| {
        let written = serde_json::to_writer(std::io::sink(), &planner.live_snapshot());
        debug_assert!(written.is_ok());
    });
    Memory {
        saving: saving.bytes_max,
        settled: u64::try_from(counted.bytes_current).unwrap_or_default(),
        peak: counted.bytes_max,
        rows,
        transactions,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_with_ten_endpoints_takes_two_kilobytes_at_most() {
        let cluster = Cluster {
            services: 5_000,
            endpoints: 10,
        };
        let memory = of_planner(cluster);
        println!("{memory:?}");
        // A ClusterIP, a frontend and ten endpoints each; the rest is few.
        let rows = 12 * usize::try_from(cluster.services).unwrap();
        assert!((rows..rows + 100).contains(&memory.rows), "{memory:?}");
        let each = memory.settled / u64::from(cluster.services);
        assert!(each <= 2_000, "{each} bytes: {memory:?}");
        assert!(memory.peak >= memory.settled, "{memory:?}");
        assert!(memory.saving < 64 << 10, "{memory:?}");
    }
}
