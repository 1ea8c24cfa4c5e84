//! Another program that wants the tables for itself.

use core::time::Duration;

use kproxy::engine::{GuardOptions, Wait};

use crate::bench::{PATIENCE, SERVICES, guarded_with};

/// Somebody who undoes each repair is let go, for longer and longer, and is forgiven once he stops.
#[test]
fn a_second_writer_is_not_fought_for_ever() {
    let options = GuardOptions {
        window: Duration::from_millis(1500),
        first_pause: Duration::from_millis(300),
        ..GuardOptions::default()
    };
    guarded_with(options, SERVICES, |mut bench| {
        for round in 1..=3 {
            bench.nft("insert rule $table services drop");
            bench.recover();
            assert_eq!(bench.seen().mends, round);
            assert_eq!(bench.seen().contended_since.is_some(), round == 3);
        }
        bench.check("the third repair is made");
        assert_eq!(bench.seen().fights, 1);
        let mut pauses = Vec::new();
        for round in 4..=6 {
            let start = bench.engine.clock().now();
            bench.nft("insert rule $table services drop");
            bench.woken.recv_timeout(PATIENCE).unwrap();
            let Wait::Until(until) = bench.engine.sync(|_, _| ()).unwrap() else {
                panic!("no pause");
            };
            assert_eq!(bench.seen().mends, round - 1, "nothing is done for now");
            pauses.push(until - start);
            while bench.seen().mends < round {
                bench.sync();
            }
            assert!(bench.engine.clock().now() >= until);
            bench.check("after a pause");
        }
        assert!(pauses.is_sorted(), "{pauses:?}");
        assert_eq!(bench.seen().fights, 1);
        // He stops.
        loop {
            let wait = bench.engine.sync(|_, _| ()).unwrap();
            let Wait::Until(time) = wait else {
                panic!("contended for ever");
            };
            if bench.seen().contended_since.is_none() {
                break;
            }
            let left = time.saturating_sub(bench.engine.clock().now());
            // There is nothing to wait for but time.
            let _ = bench.woken.recv_timeout(left);
        }
        bench.nft("insert rule $table services drop");
        bench.recover();
        assert_eq!(bench.seen().contended_since, None);
    });
}
