//! The examples do what they say.

#![allow(clippy::unwrap_used, reason = "test code outside #[test] functions")]

#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/dump.rs"]
mod dump;
#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/round_trip.rs"]
mod round_trip;
#[allow(dead_code, reason = "its `main`")]
#[path = "../examples/ruleset.rs"]
mod ruleset;

#[test]
fn rules_are_dumped() {
    test_support::in_new_netns(|| dump::run().unwrap());
}

#[test]
fn a_transaction_is_built() {
    ruleset::run().unwrap();
}

#[test]
fn a_message_goes_there_and_back_without_an_allocation() {
    let mut buf = [0; 512];
    let mut rows = 0;
    let allocated = allocation_counter::measure(|| {
        let len = round_trip::encode(&mut buf).unwrap();
        round_trip::decode(&buf[..len], |address, port| {
            assert_eq!((address.len(), port.len()), (4, 2));
            rows += 1;
        })
        .unwrap();
    });
    assert_eq!((rows, allocated.count_total), (2, 0));
}
