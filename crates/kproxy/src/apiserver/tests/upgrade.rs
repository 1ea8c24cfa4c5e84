//! What a cluster gains and loses while we watch: kinds of a newer server, the own Node.

use super::fake::{Asked, Fake, Reply, Step, event, gone, whole};
use super::*;

/// A server of before 1.33 becomes a newer one; nobody restarts us.
#[test]
fn service_cidrs_are_received_once_the_server_has_them() {
    let missing = "the server could not find the requested resource";
    let fake = Fake::start(move |asked| match asked.kind() {
        Kind::ServiceCidr => Reply::refuse(404, "NotFound", missing),
        Kind::Service => Reply::all(asked, "5", &two()),
        _ => Reply::all(asked, "5", &[]),
    });
    let address = fake.address;
    let soon = Pace {
        absent: Duration::from_millis(50),
        ..quick()
    };
    let mut running = Running::start(reader(options(fake.url()), soon));
    running.until(Kind::ServiceCidr, |it| it.absent && it.errors == 0);
    // It is asked again, which is no failure, and tells nothing.
    until(|| fake.asked(Kind::ServiceCidr).len() >= 3);
    drop(fake);
    let upgraded = Fake::start_at(address, |asked| {
        let cidr = |version: u32, range: &str| {
            json!({"metadata": {"name": "kubernetes", "resourceVersion": version.to_string()},
                "spec": {"cidrs": [range]}})
        };
        match asked.kind() {
            Kind::ServiceCidr => {
                let changed = event(asked, "MODIFIED", &cidr(9, "10.97.0.0/16"));
                let list = whole(asked, "8", &[cidr(8, "10.96.0.0/16")]);
                Reply::body(asked, [Step::Bytes(list), Step::Bytes(changed), Step::Hang])
            }
            // What was known of the old one still holds.
            _ => {
                assert!(!asked.is_list(), "{}", asked.query);
                Reply::body(asked, [Step::Hang])
            }
        }
    });
    let last = "cidrs 10.97.0.0/16".to_owned();
    while running.changes.last() != Some(&last) {
        let so_far = running.changes.len();
        running.all(so_far + 1);
    }
    assert!(running.changes.iter().all(|it| !it.ends_with("gone")));
    running.until(Kind::ServiceCidr, |it| !it.absent && it.objects == 1);
    drop(running);
    drop(upgraded);
}

/// By events, and while nobody watched.
#[test]
fn a_node_that_is_deleted_and_made_again_is_told_in_that_order() {
    let (send, later) = tokio::sync::mpsc::unbounded_channel();
    let turn = once([Some(later), None]);
    let (list_again, again) = tokio::sync::mpsc::unbounded_channel();
    let again = once([again]);
    let fake = Fake::start(only(Kind::Node, move |asked: &Asked| match turn() {
        Some(Some(later)) => Reply::body(
            asked,
            [
                Step::Bytes(whole(asked, "5", &[node()])),
                Step::Later(later),
            ],
        ),
        // The watch after that is too old.
        Some(None) => Reply::body(asked, [Step::Bytes(event(asked, "ERROR", &gone()))]),
        None => Reply::body(asked, [Step::Later(again().unwrap())]),
    }));
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ["node node-a 192.0.2.1"]);
    let asked = fake.asked(Kind::Node).remove(0);
    assert!(asked.query.contains("fieldSelector=metadata.name%3Dnode-a"));
    send.send(event(&asked, "DELETED", &node_at(6, "192.0.2.1")))
        .unwrap();
    assert_eq!(running.all(2)[1..], ["node gone"]);
    // Of another UID, version and address.
    send.send(event(&asked, "ADDED", &node_at(7, "192.0.2.7")))
        .unwrap();
    assert_eq!(running.all(3)[2..], ["node node-a 192.0.2.7"]);
    drop(send);
    // It is not among what the next list holds, and comes back behind it.
    list_again.send(whole(&asked, "9", &[])).unwrap();
    assert_eq!(running.all(4)[3..], ["node gone"]);
    list_again
        .send(event(&asked, "ADDED", &node_at(10, "192.0.2.8")))
        .unwrap();
    assert_eq!(running.all(5)[4..], ["node node-a 192.0.2.8"]);
    running.until(Kind::Node, |it| it.lists == 2 && it.objects == 1);
    let lists = fake.asked(Kind::Node);
    assert_eq!(lists.iter().filter(|it| it.is_list()).count(), 2);
}
