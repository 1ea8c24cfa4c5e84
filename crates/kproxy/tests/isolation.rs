//! What the kernel refuses costs the Services that are to blame, and nobody else; a family that fails
//! costs the other nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod faulty;

use std::collections::BTreeSet;

use faulty::{
    How, Proxy, Refusal, Which, add, add_endpoint, faulty, frontend, is_served, reports,
    services_maps, sync, try_sync, with_engine,
};
use kproxy::engine::EngineError;
use nft_batch::Errno;
use svc_planner::plan::Family;

/// Batches handed to the kernel or turned away so far.
fn batches(engine: &mut Proxy) -> usize {
    let faulty = faulty(engine);
    faulty.sent.len() + faulty.turned_away
}

/// Numbers of the Services set aside in IPv4.
fn set_aside(engine: &Proxy) -> BTreeSet<u8> {
    let number = |report: &String| {
        let (name, _) = report.strip_prefix("ip: shop/s")?.split_once(':')?;
        assert!(report.ends_with("refused by the kernel"), "{report}");
        name.parse().ok()
    };
    reports(engine).iter().filter_map(number).collect()
}

fn all_but<'a>(bad: &'a BTreeSet<u8>) -> impl Iterator<Item = u8> + 'a {
    (1..=200).filter(|number| !bad.contains(number))
}

#[test]
fn many_bad_rows_are_named_at_once() {
    with_engine(|mut engine| {
        let maps = services_maps(&mut engine);
        let bad: BTreeSet<u8> = (5..=200).step_by(5).collect();
        for number in 2..=200 {
            add(&mut engine, number);
        }
        faulty(&mut engine).spoiled = bad.iter().map(|number| frontend(*number)).collect();
        let before = batches(&mut engine);
        let committed = sync(&mut engine);
        assert_eq!(set_aside(&engine), bad);
        let failed = batches(&mut engine) - before - committed;
        assert_eq!(failed, 2, "one names a few, one all the others");
        assert!(all_but(&bad).all(|number| is_served(&mut engine, number)));
        assert!(bad.iter().all(|number| !is_served(&mut engine, *number)));
        assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");

        // A bad one that changes is tried again, and the others with nothing.
        faulty(&mut engine).spoiled.clear();
        add_endpoint(&mut engine, 5, 2);
        sync(&mut engine);
        assert!(is_served(&mut engine, 5));
        assert_eq!(set_aside(&engine).len(), bad.len() - 1);
    });
}

#[test]
fn what_the_kernel_does_not_name_is_found_by_halving() {
    for how in [
        How::Whole(Errno::ENOMEM),
        How::Commit(Errno::EMLINK),
        How::Commit(Errno::ELOOP),
    ] {
        with_engine(move |mut engine| {
            let maps = services_maps(&mut engine);
            for number in 2..=200 {
                add(&mut engine, number);
            }
            let bad = BTreeSet::from([77, 150]);
            faulty(&mut engine).refusals = bad
                .iter()
                .map(|number| Refusal(Which::With(frontend(*number)), how))
                .collect();
            sync(&mut engine);
            assert_eq!(set_aside(&engine), bad, "{how:?}");
            assert!(all_but(&bad).all(|number| is_served(&mut engine, number)));
            assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");
            let turned_away = faulty(&mut engine).turned_away;
            assert!(turned_away <= 2 * 9, "{how:?}: {turned_away} refused");

            // They wait; others do not.
            add_endpoint(&mut engine, 3, 2);
            assert!(sync(&mut engine) > 0);
            assert_eq!(faulty(&mut engine).turned_away, turned_away);
        });
    }
}

#[test]
fn a_kernel_out_of_memory_is_nobodys_fault() {
    for how in [How::Whole(Errno::ENOMEM), How::Send(Errno::ENOBUFS)] {
        with_engine(move |mut engine| {
            for number in 2..=200 {
                add(&mut engine, number);
            }
            faulty(&mut engine).refusals = vec![Refusal(Which::Of(Family::Ipv4), how)];
            let error = try_sync(&mut engine).unwrap_err();
            assert!(
                matches!(
                    error,
                    EngineError::Rejected(_) | EngineError::NotCommitted(_)
                ),
                "{error}"
            );
            assert_eq!(reports(&engine), [""; 0], "{how:?}");
            let turned_away = faulty(&mut engine).turned_away;
            assert!(turned_away <= 12, "{how:?}: {turned_away} refused");

            faulty(&mut engine).refusals.clear();
            sync(&mut engine);
            assert!((1..=200).all(|number| is_served(&mut engine, number)));
        });
    }
}

#[test]
fn what_is_too_much_at_once_is_sent_in_parts() {
    with_engine(|mut engine| {
        for number in 2..=200 {
            add(&mut engine, number);
        }
        let how = How::Send(Errno::ENOBUFS);
        faulty(&mut engine).refusals = vec![Refusal(Which::Longer(4 << 10), how)];
        sync(&mut engine);
        assert!((1..=200).all(|number| is_served(&mut engine, number)));
        assert_eq!(reports(&engine), [""; 0]);
    });
}

#[test]
fn a_family_that_fails_does_not_stop_the_other() {
    for errno in [Errno::EPERM, Errno::EOPNOTSUPP, Errno::EAFNOSUPPORT] {
        with_engine(move |mut engine| {
            let refusal = Refusal(Which::Of(Family::Ipv6), How::Whole(errno));
            faulty(&mut engine).refusals = vec![refusal];
            // The rules of the other family are to change, too.
            engine.apply(faulty::node(&["192.0.2.1", "2001:db8::1"]));
            for number in 2..=5 {
                add(&mut engine, number);
            }
            for _ in 0..3 {
                let error = try_sync(&mut engine).unwrap_err();
                assert!(error.to_string().contains(&errno.to_string()), "{error}");
            }
            assert!((1..=5).all(|number| is_served(&mut engine, number)));
            assert_eq!(reports(&engine), [""; 0]);

            faulty(&mut engine).refusals.clear();
            assert!(sync(&mut engine) > 0, "nothing of it is lost");
            assert_eq!(sync(&mut engine), 0);
        });
    }
}

#[test]
fn a_table_that_cannot_be_read_at_the_start_does_not_stop_the_other() {
    with_engine(|mut engine| {
        engine.connection().transport_mut().mute = Some(Family::Ipv6);
        engine.adopt(None).unwrap();
        engine.apply(faulty::node(&["192.0.2.1", "2001:db8::1"]));
        for number in 1..=3 {
            add(&mut engine, number);
        }
        for _ in 0..2 {
            let error = try_sync(&mut engine).unwrap_err();
            assert!(error.to_string().contains("ENOMEM"), "{error}");
        }
        assert!((1..=3).all(|number| is_served(&mut engine, number)));

        engine.connection().transport_mut().mute = None;
        assert!(sync(&mut engine) > 0, "now the other is taken over");
        assert_eq!(sync(&mut engine), 0);
    });
}
