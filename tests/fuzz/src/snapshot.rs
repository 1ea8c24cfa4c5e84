//! The saved state of an earlier process, damaged: refused, or gone on with without an end.

use core::time::Duration;

use svc_planner::{Config, Next, Planner, RowCursor, Snapshot};

/// Transactions tried: from a state that is wrong they may be anything.
const TRANSACTIONS: usize = 64;

pub(crate) fn run(input: &[u8]) {
    let Ok(snapshot) = serde_json::from_slice::<Snapshot>(input) else {
        return;
    };
    let Ok(mut planner) = Planner::restore(Config::default(), snapshot, Duration::ZERO) else {
        return;
    };
    let mut now = Duration::ZERO;
    for _ in 0..TRANSACTIONS {
        match planner.next(now) {
            Next::Commit(transaction) => {
                core::hint::black_box(transaction.to_string());
                planner.committed(now);
                planner.recycle(transaction);
            }
            Next::Clients => planner.carry_over([]),
            Next::WaitUntil(time) => now = time.max(now + Duration::from_nanos(1)),
            _ => break,
        }
    }
    let (mut cursor, mut rows) = (RowCursor::default(), Vec::new());
    planner.expected_rows(&mut cursor, 1000, &mut rows);
    core::hint::black_box((planner.snapshot(), planner.reports(), rows));
}
