//! Load-balancer addresses that only some sources may reach.

use super::*;
use crate::kernel::source_list::NOBODY;

pub(super) const VIP: &str = "192.0.2.1";

pub(super) fn restricted(name: &str, ip: &str, ranges: &[&str]) -> Service {
    let mut service = service(name, ip);
    service.load_balancer_ips.push(VIP.parse().unwrap());
    service.source_ranges = ranges.iter().map(|range| range.parse().unwrap()).collect();
    service
}

/// The Service `web` now has these ranges.
fn restrict(bench: &mut Bench, ranges: &[&str]) {
    bench.apply(Change::Service(restricted("web", "10.96.0.1", ranges)));
}

/// What becomes of a connection to the address from a source.
pub(super) fn from(bench: &Bench, source: &str) -> String {
    let [source, vip] = [source, VIP].map(|ip| ip.parse().unwrap());
    let packet = Packet::arriving("eth0", source, vip, Protocol::Tcp, 80);
    let verdicts: BTreeSet<String> = bench
        .kernel
        .outcomes(&packet, &host())
        .into_iter()
        .inspect(|(outcome, _)| {
            assert!(outcome.scratch == 0 || outcome.verdict == Verdict::Dropped);
        })
        .map(|(outcome, _)| outcome.verdict.to_string())
        .collect();
    verdicts.into_iter().collect::<Vec<_>>().join(" or ")
}

pub(super) fn ranges(bench: &Bench) -> BTreeMap<u32, Vec<String>> {
    let mut lists: BTreeMap<u32, Vec<String>> = BTreeMap::new();
    for key in bench.set("source-ranges").into_keys() {
        let Key::Source { list, range } = key else {
            panic!("{key}");
        };
        lists.entry(list).or_default().push(range.to_string());
    }
    lists
}

pub(super) fn list_of(bench: &Bench, vip: &str) -> Option<u32> {
    let key = Key::Frontend {
        address: vip.parse().unwrap(),
        protocol: Protocol::Tcp,
        port: 80,
    };
    match bench.set("firewall").get(&key) {
        Some(Datum::List(list)) => Some(*list),
        other => {
            assert_eq!(other, None);
            None
        }
    }
}

#[test]
fn an_address_opens_only_behind_its_guard() {
    let mut bench = Bench::new(config());
    bench.apply(Change::Service(service("other", "10.96.0.9")));
    bench.drain();
    restrict(&mut bench, &["203.0.113.0/24"]);
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.settle();
    // The guard is there, what it guards is not yet; the ClusterIP does not wait.
    assert!(list_of(&bench, VIP).is_some());
    assert_eq!(bench.balances("10.96.0.1"), ["10.0.0.1:8080"]);
    assert_eq!(from(&bench, "203.0.113.9"), "untouched");
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    bench.drain();
    let delivered = "delivered to 10.0.0.1:8080, masqueraded";
    assert_eq!(from(&bench, "203.0.113.9"), delivered);
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    assert_eq!(bench.planner.reports(), []);
    // Without endpoints silence is stronger than refusal.
    bench.apply(Change::EndpointSliceGone(name("web-a")));
    bench.drain();
    assert_eq!(from(&bench, "203.0.113.9"), "rejected");
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    // Everybody.
    let mut open = restricted("web", "10.96.0.1", &["203.0.113.0/24", "::/0"]);
    bench.apply(Change::Service(open.clone()));
    bench.settle();
    assert_eq!(from(&bench, "198.51.100.5"), "rejected");
    assert_eq!(ranges(&bench).len(), 1);
    bench.drain();
    assert_eq!(ranges(&bench).len(), 0);
    // External addresses, ClusterIPs and node ports are open.
    open.source_ranges = smallvec!["203.0.113.0/24".parse().unwrap()];
    open.external_ips.push("192.0.2.7".parse().unwrap());
    open.external_ips.push(VIP.parse().unwrap());
    bench.apply(Change::Service(open));
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(bench.set("firewall").len(), 1);
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    bench.apply(Change::ServiceGone(name("web")));
    bench.drain();
    for set in ["firewall", "source-ranges", "services"] {
        assert!(bench.set(set).is_empty(), "{set}");
    }
    bench.check();
}

#[test]
fn a_new_table_needs_no_time_to_open_its_addresses() {
    let mut bench = Bench::new(config());
    restrict(&mut bench, &["203.0.113.0/24"]);
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.settle();
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    assert!(from(&bench, "203.0.113.9").starts_with("delivered"));
    bench.check();
}

#[test]
fn equal_ranges_share_a_list_and_a_change_takes_another() {
    let mut bench = Bench::new(config());
    let mut twin = restricted("twin", "10.96.0.2", &["10.1.0.0/16", "10.0.0.0/8"]);
    twin.load_balancer_ips = smallvec!["192.0.2.2".parse().unwrap()];
    bench.apply(Change::Service(twin.clone()));
    restrict(&mut bench, &["10.0.0.1/8"]);
    for name in ["twin", "web"] {
        bench.apply(slice(name, name, &["10.0.0.1"]));
    }
    bench.drain();
    let shared = list_of(&bench, VIP).unwrap();
    assert_eq!(list_of(&bench, "192.0.2.2"), Some(shared));
    assert_eq!(ranges(&bench), [(shared, vec!["10.0.0.0/8".into()])].into());
    // A wider range replaces the narrower ones in one row; who was admitted stays so throughout.
    restrict(&mut bench, &["10.0.0.0/7"]);
    bench.settle();
    let other = list_of(&bench, VIP).unwrap();
    assert_ne!(other, shared);
    assert_eq!(ranges(&bench).len(), 2);
    twin.source_ranges = smallvec!["10.0.0.0/7".parse().unwrap()];
    bench.apply(Change::Service(twin));
    bench.drain();
    assert_eq!(ranges(&bench), [(other, vec!["10.0.0.0/7".into()])].into());
    bench.check();
}

#[test]
fn ranges_of_the_other_family_admit_nobody_and_are_reported() {
    let mut bench = Bench::new(config());
    restrict(&mut bench, &["2001:db8::/32"]);
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(list_of(&bench, VIP), Some(NOBODY));
    assert_eq!(from(&bench, "203.0.113.9"), "dropped");
    let [report] = &bench.planner.reports()[..] else {
        panic!("one report");
    };
    assert_eq!(report.reason, Reason::SourceRangesOfOtherFamily);
    assert_eq!(&*report.port.service.name, "web");
    restrict(&mut bench, &[]);
    bench.drain();
    assert_eq!(bench.planner.reports(), []);
    assert!(from(&bench, "203.0.113.9").starts_with("delivered"));
    bench.check();
}

#[test]
fn the_winner_of_an_address_decides_and_its_heir_takes_over_closed() {
    let mut bench = Bench::new(config());
    let old = restricted("old", "10.96.0.1", &["203.0.113.0/24"]);
    let mut young = restricted("young", "10.96.0.2", &["198.51.100.0/24"]);
    young.created = Some(2);
    bench.apply(Change::Service(old));
    bench.apply(Change::Service(young.clone()));
    bench.apply(slice("old", "old", &["10.0.0.1"]));
    bench.apply(slice("young", "young", &["10.0.0.2"]));
    bench.drain();
    assert!(from(&bench, "203.0.113.9").starts_with("delivered to 10.0.0.1"));
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    bench.apply(Change::ServiceGone(name("old")));
    bench.settle();
    // Neither list speaks for both Services.
    assert_eq!(list_of(&bench, VIP), Some(NOBODY));
    bench.drain();
    assert_eq!(from(&bench, "203.0.113.9"), "dropped");
    assert!(from(&bench, "198.51.100.5").starts_with("delivered to 10.0.0.2"));
    // An heir that is open to everybody opens the address with its first packet.
    let mut heir = restricted("heir", "10.96.0.3", &[]);
    heir.created = Some(3);
    bench.apply(Change::Service(heir));
    bench.apply(slice("heir", "heir", &["10.0.0.3"]));
    bench.drain();
    bench.apply(Change::ServiceGone(name("young")));
    bench.settle();
    assert!(from(&bench, "203.0.113.9").starts_with("delivered to 10.0.0.3"));
    // And an older one that is not closes it before it serves.
    bench.apply(Change::Service(young));
    bench.settle();
    assert_eq!(from(&bench, "203.0.113.9"), "dropped");
    assert!(from(&bench, "198.51.100.5").starts_with("delivered to 10.0.0.3"));
    bench.drain();
    assert!(from(&bench, "198.51.100.5").starts_with("delivered to 10.0.0.2"));
    assert_eq!(bench.planner.reports().len(), 1);
    bench.check();
}

#[test]
fn where_there_is_no_room_nobody_is_admitted_until_there_is() {
    let mut bench = Bench::new(Config {
        max_source_ranges: 4,
        ..config()
    });
    let mut services = Vec::new();
    for (number, namespace) in [(1, "a"), (2, "a"), (3, "a"), (4, "b")] {
        let ip = format!("10.96.0.{number}");
        let range = format!("203.0.{number}.0/24");
        let mut service = restricted("web", &ip, &[&range]);
        service.name.namespace = namespace.into();
        service.name.name = format!("web-{number}").into();
        service.load_balancer_ips = smallvec![format!("192.0.2.{number}").parse().unwrap()];
        services.push(service.clone());
        bench.apply(Change::Service(service));
    }
    bench.drain();
    let lists = |bench: &Bench| -> Vec<bool> {
        let list = |number| list_of(bench, &format!("192.0.2.{number}")).unwrap();
        (1..=4).map(|number| list(number) == NOBODY).collect()
    };
    // The third of its namespace, but not the other namespace's.
    assert_eq!(lists(&bench), [false, false, true, false]);
    let reports = bench.planner.reports();
    assert_eq!(reports.len(), 1);
    assert_eq!(&*reports[0].port.service.name, "web-3");
    assert_eq!(reports[0].reason, Reason::SourceRangesFull);
    bench.apply(Change::ServiceGone(services[0].name.clone()));
    bench.drain();
    assert_eq!(list_of(&bench, "192.0.2.1"), None);
    assert_ne!(list_of(&bench, "192.0.2.3"), Some(NOBODY));
    assert_eq!(bench.planner.reports(), []);
    bench.check();
}

#[test]
fn the_nodes_address_decides_whether_balancers_addresses_are_sources() {
    let mut bench = Bench::new(config());
    let node = |ip: &str| {
        Change::Node(Node {
            name: "here".into(),
            addresses: smallvec![ip.parse().unwrap()],
            pod_cidrs: smallvec![],
            zone: None,
            eligible: true,
        })
    };
    bench.apply(node("192.168.1.2"));
    restrict(&mut bench, &["192.168.0.0/24"]);
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    bench.drain();
    assert_eq!(from(&bench, VIP), "dropped");
    bench.apply(node("192.168.0.2"));
    bench.drain();
    assert!(from(&bench, VIP).starts_with("delivered"));
    assert!(from(&bench, "192.168.0.2").starts_with("delivered"));
    bench.apply(node("192.168.1.2"));
    bench.drain();
    assert_eq!(from(&bench, VIP), "dropped");
    bench.check();
}

#[test]
fn lists_and_guards_survive_a_restart() {
    let mut bench = Bench::new(config());
    let web = restricted("web", "10.96.0.1", &["203.0.113.0/24"]);
    let gone = {
        let mut gone = restricted("gone", "10.96.0.2", &["198.51.100.0/24"]);
        gone.load_balancer_ips = smallvec!["192.0.2.2".parse().unwrap()];
        gone
    };
    bench.apply(Change::Service(web.clone()));
    bench.apply(Change::Service(gone));
    let slices = slice("web-a", "web", &["10.0.0.1"]);
    bench.apply(slices.clone());
    bench.drain();
    let list = list_of(&bench, VIP);
    let snapshot = bench.planner.snapshot().unwrap();
    let text = serde_json::to_string(&snapshot).unwrap();
    let snapshot = serde_json::from_str(&text).unwrap();
    bench.planner = Planner::restore(config(), snapshot, bench.now).unwrap();
    bench.apply(Change::Service(web));
    bench.apply(slices);
    bench.drain();
    assert_eq!(list_of(&bench, VIP), list);
    assert_eq!((bench.set("firewall").len(), ranges(&bench).len()), (1, 1));
    assert!(from(&bench, "203.0.113.9").starts_with("delivered"));
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    bench.check();
}

#[test]
fn a_take_over_guards_addresses_before_it_opens_them() {
    let mut bench = Bench::new(config());
    let web = restricted("web", "10.96.0.1", &["203.0.113.0/24"]);
    let slices = slice("web-a", "web", &["10.0.0.1"]);
    let mut open = web.clone();
    open.source_ranges.clear();
    bench.apply(Change::Service(open));
    bench.apply(slices.clone());
    bench.drain();
    let chains = bench.kernel.chains(Family::Ipv4).into_iter();
    let sets = bench.kernel.sets(Family::Ipv4).into_iter();
    let found = Inventory {
        chains: chains.map(|(name, base)| Chain { name, base }).collect(),
        sets: sets.map(|set| set.name.clone()).collect(),
    };
    bench.planner = Planner::new(Family::Ipv4, config());
    bench.apply(Change::Service(web));
    bench.apply(slices);
    bench.planner.rebuild(found);
    bench.settle();
    // The old rules still balance, the new ones decide for whom.
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    assert!(from(&bench, "203.0.113.9").starts_with("delivered"));
    // What comes meanwhile waits for the switch.
    bench.apply(slice("web-a", "web", &["10.0.0.1", "10.0.0.2"]));
    bench.drain();
    assert_eq!(from(&bench, "198.51.100.5"), "dropped");
    assert_eq!(
        bench.balances("10.96.0.1"),
        ["10.0.0.1:8080", "10.0.0.2:8080"]
    );
    assert_eq!(bench.kernel.sets(Family::Ipv4).len(), SETS);
    bench.check();
}

/// Its guard changes twice in one transaction: for as long as the address leads to what others may not
/// reach, and for good.
#[test]
fn an_address_with_ranges_goes_to_a_service_without_endpoints_and_other_ranges() {
    let mut bench = Bench::new(config());
    restrict(&mut bench, &["203.0.113.0/24"]);
    bench.apply(slice("web-a", "web", &["10.0.0.1"]));
    // Keeps the other list in force.
    let mut keeper = restricted("keeper", "10.96.0.2", &["198.51.100.0/24"]);
    keeper.load_balancer_ips = smallvec!["192.0.2.2".parse().unwrap()];
    bench.apply(Change::Service(keeper));
    bench.drain();
    assert_ne!(list_of(&bench, VIP), list_of(&bench, "192.0.2.2"));

    bench.apply(Change::ServiceGone(name("web")));
    bench.apply(Change::Service(restricted(
        "heir",
        "10.96.0.3",
        &["198.51.100.0/24"],
    )));
    bench.drain();
    assert_eq!(list_of(&bench, VIP), list_of(&bench, "192.0.2.2"));
    assert_eq!(from(&bench, "203.0.113.9"), "dropped");
    assert_eq!(from(&bench, "198.51.100.5"), "rejected");
    bench.check();
}
