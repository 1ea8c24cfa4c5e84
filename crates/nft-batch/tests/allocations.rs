//! A transaction costs no heap allocation once the buffers are there.

mod support;

use allocation_counter::measure;
use nl_codec::nft::{Elem, ElemRow, Exprs, Rule};
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
            let rule = Rule::new(T, "c", Exprs::new(&exprs));
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

/// Reads by key and dumps hand out what is in the receive buffer.
#[test]
fn reading_allocates_nothing() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        let m = b.add_set(IP, &set("m", true, None)).unwrap();
        b.add_elements(m, (0..1_000).map(|n| row(n, n))).unwrap();
        let exprs = [nl_codec::nft::expr::Counter::default().into()];
        let rule = Rule::new(T, "c", Exprs::new(&exprs));
        b.add_rule(IP, &rule).unwrap();
        commit(&mut connection, b);

        let mut seen = [0; 7];
        let mut read = || {
            seen = [0; 7];
            let [tables, chains, rules, sets, elements, found, missed] = &mut seen;
            connection.generation().unwrap();
            connection.dump_tables(IP, |_, _| *tables += 1).unwrap();
            connection.dump_chains(IP, T, |_| *chains += 1).unwrap();
            connection.dump_rules(IP, T, None, |_| *rules += 1).unwrap();
            connection.dump_sets(IP, T, |_| *sets += 1).unwrap();
            let dump = connection.dump_elements(IP, T, "m", |_| *elements += 1);
            assert!(dump.unwrap().consistent);
            for number in [5, 2_000] {
                let is_row = |elem: &Elem<'_>| elem.data == row(number, number).data;
                match connection
                    .element(IP, T, "m", &key(number), is_row)
                    .unwrap()
                {
                    Some(is_row) => *found += i32::from(is_row),
                    None => *missed += 1,
                }
            }
        };
        // The first round makes the buffers.
        read();
        assert_eq!(measure(&mut read).count_total, 0);
        assert_eq!(seen, [1, 1, 1, 1, 1_000, 1, 1]);
    });
}
