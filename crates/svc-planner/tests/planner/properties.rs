use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use svc_planner::config::Config;
use svc_planner::plan::Family;

use crate::cluster::{Action, config, frontends_as_endpoints, history, host};
use crate::driver::Driver;
use crate::packets::{few_packets, packets};

/// Cases of each property: the same in every run, unless `PROPTEST_CASES` asks for so many random
/// ones.
const CASES: u32 = 24;

fn cases() -> ProptestConfig {
    let wanted = std::env::var("PROPTEST_CASES");
    let wanted = wanted.ok().and_then(|cases| cases.parse().ok());
    ProptestConfig {
        cases: wanted.unwrap_or(CASES),
        rng_seed: match wanted {
            Some(_) => RngSeed::Random,
            None => RngSeed::Fixed(1),
        },
        ..ProptestConfig::default()
    }
}

fn family() -> impl Strategy<Value = Family> {
    prop_oneof![2 => Just(Family::Ipv4), 1 => Just(Family::Ipv6)]
}

fn story() -> impl Strategy<Value = (Family, Config, Vec<Action>)> {
    family().prop_flat_map(|family| (Just(family), config(family), history(family)))
}

fn run(family: Family, config: Config, actions: Vec<Action>) -> Driver {
    let mut driver = Driver::new(family, config);
    for action in actions {
        match action {
            Action::Change(change) => driver.change(*change),
            Action::Commit => {
                driver.commit();
            }
            Action::Reject => driver.reject(),
            Action::Wait(time) => driver.now += time,
            Action::Settle => {
                driver.settle();
            }
            Action::Drain => {
                driver.drain();
            }
            Action::Restart => driver.restart(),
            Action::Resume => driver.resume(),
            Action::Reconfigure(config) => driver.reconfigure(*config),
        }
    }
    driver.drain();
    driver
}

proptest! {
    #![proptest_config(cases())]

    /// In the end packets go where Kubernetes wants them.
    #[test]
    fn packets_go_where_the_oracle_says((family, config, actions) in story()) {
        let driver = run(family, config, actions);
        driver.compare(&packets(family), &host(family));
    }

    /// What is translated to an address of a Service is judged by what that Service has.
    #[test]
    fn nothing_is_translated_twice(
        ((family, config, actions), changes) in story()
            .prop_flat_map(|story| (Just(story.clone()), frontends_as_endpoints(story.0))),
    ) {
        let mut driver = run(family, config, actions);
        for change in changes {
            driver.change(change);
        }
        driver.drain();
        driver.check_expected();
        for packet in packets(family) {
            driver.compare_ends(&packet, &host(family));
        }
    }

    /// Nothing is left of what was, but for room in the sets.
    #[test]
    fn a_fresh_planner_builds_the_same((family, config, actions) in story()) {
        let old = run(family, config, actions);
        let mut fresh = Driver::new(family, old.config.clone());
        for change in old.oracle.changes() {
            fresh.change(change);
        }
        fresh.drain();
        fresh.compare(&packets(family), &host(family));
        prop_assert_eq!(old.inventory(), fresh.inventory());
        prop_assert_eq!(old.endpoint_rows(), fresh.endpoint_rows());
        let stems = |driver: &Driver| driver.class_stems();
        prop_assert!(stems(&old).is_superset(&stems(&fresh)));
    }

    /// On the way there no packet is lost or misled.
    #[test]
    fn updates_lose_no_packet((family, config, actions) in story()) {
        let driver = run(family, config, actions);
        driver.check_quiescence(&few_packets(family), &host(family));
    }

    /// The order in which objects are learnt does not matter.
    #[test]
    fn the_order_of_events_does_not_matter(
        ((family, config, actions), seed) in (story(), any::<u64>()),
    ) {
        let first = run(family, config, actions);
        let mut changes = first.oracle.changes();
        let mut state = seed | 1;
        for at in (1..changes.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let other = usize::try_from(state >> 33).unwrap() % (at + 1);
            changes.swap(at, other);
        }
        let mut second = Driver::new(family, first.config.clone());
        for change in changes {
            second.change(change);
            second.settle();
        }
        second.drain();
        second.compare(&packets(family), &host(family));
        prop_assert_eq!(first.inventory(), second.inventory());
    }
}
