//! What the engine makes of a socket and a kernel that misbehave: replies that are lost, batches that are
//! dropped or too long, one Service's row that is spoiled on the way.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod faulty;

use std::process::Command;

use faulty::{
    Fault, How, Refusal, Which, add, add_endpoint, faulty, frontend, is_served, reports,
    services_maps, sync, try_sync, with_engine,
};
use kproxy::engine::EngineError;
use nft_batch::Errno;
use svc_planner::plan::Family;

/// A short send buffer; one message of elements takes up to 8 KiB.
const LIMIT: usize = 12 << 10;

#[test]
fn a_refused_service_is_named_and_costs_no_other() {
    with_engine(|mut engine| {
        let maps = services_maps(&mut engine);
        for number in [2, 66, 3] {
            add(&mut engine, number);
        }
        faulty(&mut engine).spoiled = vec![frontend(66)];
        sync(&mut engine);
        let name = "shop/s66:http/TCP: refused by the kernel";
        let [report] = reports(&engine).try_into().unwrap();
        assert!(report.ends_with(name), "{report}");
        let served = [1, 2, 3, 66].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true, true, false]);
        assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");

        // Not tried again before it changes.
        assert_eq!(sync(&mut engine), 0);
        faulty(&mut engine).spoiled.clear();
        add_endpoint(&mut engine, 66, 2);
        sync(&mut engine);
        assert_eq!(reports(&engine), [""; 0]);
        assert!(is_served(&mut engine, 66));
    });
}

#[test]
fn lost_replies_to_a_committed_transaction_are_found_out() {
    for fault in [Fault::RepliesLost, Fault::NoBuffer] {
        with_engine(move |mut engine| {
            let maps = services_maps(&mut engine);
            add(&mut engine, 2);
            let before = engine.connection().generation().unwrap();
            faulty(&mut engine).faults.push(fault);
            let transactions = sync(&mut engine);
            assert!(faulty(&mut engine).faults.is_empty());
            assert!(is_served(&mut engine, 2));
            let after = engine.connection().generation().unwrap();
            let commits = usize::try_from(after - before).unwrap();
            assert_eq!(commits, transactions, "{fault:?}: each was sent once");
            assert_eq!(services_maps(&mut engine), maps, "nothing was rebuilt");
        });
    }
}

#[test]
fn a_lost_transaction_is_made_good() {
    with_engine(|mut engine| {
        let maps = services_maps(&mut engine);
        add(&mut engine, 2);
        faulty(&mut engine).faults.push(Fault::BatchLost);
        sync(&mut engine);
        let served = [1, 2].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true]);
        assert_ne!(services_maps(&mut engine), maps, "rebuilt beside");
    });
}

#[test]
fn when_every_transaction_gets_lost_the_caller_may_pause() {
    with_engine(|mut engine| {
        add(&mut engine, 2);
        faulty(&mut engine).faults = vec![Fault::BatchLost; 2];
        let error = try_sync(&mut engine).unwrap_err();
        assert!(
            matches!(&error, EngineError::NotCommitted(why) if why.contains("no ack")),
            "{error}"
        );
        assert!(is_served(&mut engine, 1), "what was there is still there");
        sync(&mut engine);
        let served = [1, 2].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true]);
    });
}

#[test]
fn a_refusal_that_gets_lost_is_heard_the_next_time() {
    with_engine(|mut engine| {
        add(&mut engine, 2);
        add(&mut engine, 66);
        let faulty = faulty(&mut engine);
        faulty.spoiled = vec![frontend(66)];
        faulty.faults.push(Fault::NoBuffer);
        sync(&mut engine);
        let [report] = reports(&engine).try_into().unwrap();
        assert!(report.contains("shop/s66:http/TCP"), "{report}");
        let served = [1, 2, 66].map(|number| is_served(&mut engine, number));
        assert_eq!(served, [true, true, false]);
    });
}

/// In the middle of things, and when a table is begun anew, where the next transaction would look much
/// the same.
#[test]
fn a_transaction_of_which_nothing_can_be_found_out_is_made_good() {
    for begun_anew in [false, true] {
        for fault in [Fault::RepliesLost, Fault::BatchLost] {
            with_engine(move |mut engine| {
                if begun_anew {
                    engine.adopt(None).unwrap();
                    add(&mut engine, 1);
                }
                add(&mut engine, 2);
                faulty(&mut engine).faults.push(fault);
                // Service 2 is of IPv4; of tables, the one of IPv6 is made first.
                let family = [Family::Ipv4, Family::Ipv6][usize::from(begun_anew)];
                faulty(&mut engine).mute = Some(family);
                try_sync(&mut engine).unwrap_err();
                assert!(faulty(&mut engine).faults.is_empty());
                faulty(&mut engine).mute = None;
                sync(&mut engine);
                let served = [1, 2].map(|number| is_served(&mut engine, number));
                assert_eq!(served, [true, true], "{begun_anew}, {fault:?}");
                assert_eq!(reports(&engine), [""; 0]);
                assert!(engine.is_complete());
            });
        }
    }
}

/// Somebody else is in the way of a table that is begun anew: the next try looks at what is there.
#[test]
fn a_table_begun_anew_that_does_not_fit_is_looked_at_again() {
    with_engine(|mut engine| {
        engine.adopt(None).unwrap();
        add(&mut engine, 1);
        // What would be made next, but of another kind.
        let nft = Command::new("nft")
            .arg("add map ip kube-proxy dispatch-1 { type inet_service : verdict; }")
            .status();
        assert!(nft.unwrap().success());
        try_sync(&mut engine).unwrap_err();
        sync(&mut engine);
        assert!(is_served(&mut engine, 1));
        assert_eq!(reports(&engine), [""; 0]);
        assert!(engine.is_complete());
    });
}

#[test]
fn transactions_are_cut_only_if_they_do_not_fit() {
    with_engine(|mut engine| {
        for number in 2..250 {
            add(&mut engine, number);
        }
        assert_eq!(faulty(&mut engine).refused, [0; 0]);
        faulty(&mut engine).limit = LIMIT;
        faulty(&mut engine).sent.clear();
        let transactions = sync(&mut engine);
        let sent = faulty(&mut engine).sent.clone();
        assert!(sent.len() > transactions, "{sent:?}, {transactions}");
        assert!(sent.iter().all(|len| *len <= LIMIT), "{sent:?}");
        assert!((1..250).all(|number| is_served(&mut engine, number)));
        assert_eq!(reports(&engine), [""; 0]);

        // From the start, with new sets.
        let maps = services_maps(&mut engine);
        engine.adopt(None).unwrap();
        for number in 1..250 {
            add(&mut engine, number);
        }
        sync(&mut engine);
        assert_ne!(services_maps(&mut engine), maps, "rebuilt beside");
        assert!((1..250).all(|number| is_served(&mut engine, number)));
    });
}

/// What nft lists; rows in alphabetical order.
fn listed(command: &str) -> Vec<String> {
    let output = Command::new("nft").arg(command).output().unwrap();
    assert!(output.status.success(), "{command}: {output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let parts = text.split([',', '\n', '{', '}']).map(str::trim);
    let mut parts: Vec<_> = parts.map(ToOwned::to_owned).collect();
    parts.sort();
    parts
}

/// The new sets get in beside the old; the step that leads packets to them does not.
#[test]
fn a_recovery_whose_second_half_fails_leaves_what_was_there_in_force() {
    with_engine(|mut engine| {
        for number in 2..250 {
            add(&mut engine, number);
        }
        sync(&mut engine);
        // Everything a packet of these Services goes by, from the hook on.
        let in_force = || {
            [
                "list chain ip kube-proxy nat-prerouting",
                "list chain ip kube-proxy nat-output",
                "list chain ip kube-proxy services",
                "list map ip kube-proxy dispatch",
                "list map ip kube-proxy endpoints",
                "list map ip kube-proxy services",
            ]
            .map(listed)
        };
        let before = in_force();
        let maps = services_maps(&mut engine);

        engine.adopt(None).unwrap();
        for number in 1..250 {
            add(&mut engine, number);
        }
        faulty(&mut engine).limit = LIMIT;
        let swap = Which::With(b"nat-prerouting\0".to_vec());
        for how in [How::Whole(Errno::ENOMEM), How::Send(Errno::ENOBUFS)] {
            faulty(&mut engine).refusals = vec![Refusal(swap.clone(), how)];
            for _ in 0..3 {
                try_sync(&mut engine).unwrap_err();
                assert!(in_force() == before, "{how:?}");
            }
            assert!(faulty(&mut engine).turned_away > 0);
        }
        assert!(services_maps(&mut engine).len() > 1, "the first half");

        faulty(&mut engine).refusals.clear();
        sync(&mut engine);
        assert_ne!(services_maps(&mut engine), maps, "rebuilt beside");
        assert!((1..250).all(|number| is_served(&mut engine, number)));
        assert_eq!(reports(&engine), [""; 0]);
    });
}
