//! A transaction costs no heap allocation once the buffers are there.

mod support;

use allocation_counter::measure;
use nl_codec::nft::ElemRow;
use support::*;

/// Replaces rows in two sets and swaps a rule: what a change of one Service looks like.
#[test]
fn a_transaction_in_steady_state_allocates_nothing() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        for name in ["m", "n"] {
            let set = b.add_set(IP, &set(name, true, None)).unwrap();
            b.add_elements(set, (0..100).map(|n| row(n, 0))).unwrap();
        }
        let mut reuse = Some(commit(&mut connection, b).reuse());

        let mut round = 0_u32;
        let mut change = || {
            round += 1;
            let mut b = reuse.take().unwrap();
            let exprs = [nl_codec::nft::expr::Counter::default().into()];
            let rule = nl_codec::nft::Rule::new(T, "c", nl_codec::nft::Exprs::new(&exprs));
            b.flush_chain(IP, T, "c").unwrap();
            b.add_rule(IP, &rule).unwrap();
            for name in ["m", "n"] {
                let set = b.set(IP, T, name).unwrap();
                b.delete_elements(set, (0..10).map(key)).unwrap();
                b.add_elements(set, (0..10).map(|n| row(n, round))).unwrap();
                let (key, data) = (50_u32.to_be_bytes(), round.to_be_bytes());
                let row = ElemRow {
                    key: &key,
                    data: None,
                };
                b.delete_elements(set, [row]).unwrap();
                b.add_elements(
                    set,
                    [ElemRow {
                        data: Some(&data),
                        ..row
                    }],
                )
                .unwrap();
            }
            let mut sealed = b.seal();
            let outcome = connection.commit(&mut sealed);
            assert!(outcome.is_committed(), "{outcome}");
            reuse = Some(sealed.reuse());
        };

        // The first rounds make the buffers, which is what the counter sees.
        assert_ne!(measure(&mut change).count_total, 0);
        change();
        for _ in 0..100 {
            let allocations = measure(&mut change);
            assert_eq!(allocations.count_total, 0);
        }
        assert_eq!(
            lookup(&mut connection, 5),
            Some(102_u32.to_be_bytes().to_vec())
        );
        assert_eq!(
            lookup(&mut connection, 50),
            Some(102_u32.to_be_bytes().to_vec())
        );
    });
}
