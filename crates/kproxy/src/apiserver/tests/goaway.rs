//! HTTP/2 connections that the server wants to be rid of: what was being received goes on where it was.

use std::collections::BTreeSet;
use std::path::Path;

use tokio::sync::mpsc::unbounded_channel;

use super::fake::{Asked, Fake, Reply, Step, event, gone, list, whole};
use super::secure::GoAway;
use super::*;

const KINDS: [Kind; 4] = [
    Kind::Service,
    Kind::EndpointSlice,
    Kind::ServiceCidr,
    Kind::Node,
];

/// Makes a reader of a fake that speaks HTTP/2.
fn secure_reader(folder: &Path, fake: &Fake) -> ApiReader {
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": fake.url(), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "it", "user": {"token": "any"}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]});
    let file = folder.join("kubeconfig");
    std::fs::write(&file, config.to_string()).unwrap();
    let options = ConnectionOptions {
        kubeconfig: Some(file),
        qps: -1.0,
        ..ConnectionOptions::default()
    };
    reader(options, quick())
}

fn started(fake: &Fake) -> Running {
    let folder = tempfile::tempdir().unwrap();
    Running::start(secure_reader(folder.path(), fake))
}

/// How often each kind was asked for as a list.
fn lists(fake: &Fake) -> [usize; 4] {
    KINDS.map(|kind| fake.asked(kind).iter().filter(|it| it.is_list()).count())
}

/// Those that requests came by.
fn connections(fake: &Fake) -> BTreeSet<usize> {
    let asked = KINDS.into_iter().flat_map(|kind| fake.asked(kind));
    asked.map(|it| it.connection).collect()
}

#[test]
fn a_drained_watch_is_received_to_its_end_and_goes_on_elsewhere() {
    let (send, later) = unbounded_channel();
    let later = once([later]);
    let fake = Fake::start_secure(only(Kind::Service, move |asked| match later() {
        Some(later) => Reply::body(
            asked,
            [Step::Bytes(whole(asked, "5", &two())), Step::Later(later)],
        ),
        None => {
            let more = event(asked, "MODIFIED", &service("b", 7, "10.96.0.7"));
            Reply::body(asked, [Step::Bytes(more), Step::Hang])
        }
    }));
    let mut running = started(&fake);
    assert_eq!(connections(&fake).len(), 1, "all kinds share it");
    fake.go_away(GoAway::Drain);
    let asked = fake.asked(Kind::Service).remove(0);
    send.send(event(&asked, "MODIFIED", &service("a", 6, "10.96.0.6")))
        .unwrap();
    assert_eq!(running.all(3)[2..], ["a 10.96.0.6"]);
    assert_eq!(fake.asked(Kind::Service).len(), 1);
    // It ends.
    drop(send);
    assert_eq!(running.all(4)[3..], ["b 10.96.0.7"]);
    let asked = fake.asked(Kind::Service);
    assert!(asked[1].query.contains("resourceVersion=6&"));
    assert_eq!(lists(&fake), [1; 4]);
    // The old connection is left to those that it still serves.
    assert_eq!(connections(&fake).len(), 2);
    running.until(Kind::Service, |it| it.errors == 0);
    running.until(Kind::EndpointSlice, |it| it.watches == 1 && it.errors == 0);
}

#[test]
fn watches_that_are_cut_off_go_on_where_they_were() {
    for how in [GoAway::Close, GoAway::Refuse] {
        let fake = Fake::start_secure(|asked| {
            let change = event(asked, "MODIFIED", &service("a", 6, "10.96.0.6"));
            match asked.kind() {
                _ if asked.is_list() => Reply::all(asked, "5", &two_of(asked.kind())),
                Kind::Service => Reply::body(asked, [Step::Bytes(change), Step::Hang]),
                _ => Reply::body(asked, [Step::Hang]),
            }
        });
        let mut running = started(&fake);
        fake.go_away(how);
        assert_eq!(running.all(3)[2..], ["a 10.96.0.6"]);
        for kind in KINDS {
            running.until(kind, |it| it.watches >= 2);
            until(|| fake.asked(kind).len() >= 2);
            let asked = fake.asked(kind);
            let again = &asked[1].query;
            assert!(again.contains("resourceVersion=5&"), "{how:?}: {again}");
            // One more may have been on its way into the old connection.
            assert!(asked.len() <= 3, "{how:?}: {}", asked.len());
        }
        assert_eq!(lists(&fake), [1; 4], "{how:?}");
        assert!(connections(&fake).len() <= 3, "{how:?}");
        running.until(Kind::Service, |it| it.lists == 1 && it.objects == 2);
    }
}

/// Only Services are there.
fn two_of(kind: Kind) -> Vec<Json> {
    if kind == Kind::Service {
        two()
    } else {
        Vec::new()
    }
}

#[test]
fn a_first_list_that_is_cut_off_counts_for_nothing() {
    for how in [GoAway::Close, GoAway::Refuse] {
        let fake = Fake::start_secure(only(
            Kind::Service,
            in_turn([
                |asked| {
                    let first = event(asked, "ADDED", &two()[0]);
                    Reply::body(asked, [Step::Bytes(first), Step::Hang])
                },
                |asked| Reply::all(asked, "5", &two()),
            ]),
        ));
        let folder = tempfile::tempdir().unwrap();
        let mut reader = secure_reader(folder.path(), &fake);
        let board = reader.board();
        let loading = std::thread::spawn(move || {
            let mut changes = Vec::new();
            reader
                .load(&never(), |it| changes.push(brief(&it)))
                .unwrap();
            changes
        });
        let half = |it: &super::super::WatchStatus| it.kind == Kind::Service && it.objects == 1;
        until(|| board.snapshot().iter().any(half));
        let rest = |it: &super::super::WatchStatus| it.kind == Kind::Service || it.synced;
        until(|| board.snapshot().iter().all(rest));
        assert!(!loading.is_finished());
        fake.go_away(how);
        assert_eq!(loading.join().unwrap(), ["a 10.96.0.1", "b 10.96.0.2"]);
        // What had been received of the others is not asked for again.
        assert_eq!(lists(&fake), [2, 1, 1, 1], "{how:?}");
    }
}

#[test]
fn a_drained_list_is_received_to_its_end() {
    let (send, later) = unbounded_channel();
    let later = once([later]);
    let fake = Fake::start_secure(only(Kind::Service, move |asked| {
        let first = event(asked, "ADDED", &two()[0]);
        Reply::body(asked, [Step::Bytes(first), Step::Later(later().unwrap())])
    }));
    let folder = tempfile::tempdir().unwrap();
    let mut reader = secure_reader(folder.path(), &fake);
    let board = reader.board();
    let loading = std::thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
    let half = |it: &super::super::WatchStatus| it.kind == Kind::Service && it.objects == 1;
    until(|| board.snapshot().iter().any(half));
    fake.go_away(GoAway::Drain);
    let asked = fake.asked(Kind::Service).remove(0);
    send.send(whole(&asked, "5", &two()[1..])).unwrap();
    assert_eq!(loading.join().unwrap(), Loaded::Synced);
    assert_eq!(lists(&fake), [1; 4]);
    assert!(board.all(|it| it.errors == 0));
}

/// A list that begins anew, as a stream and in pages: what it would have removed stays.
#[test]
fn a_later_list_that_is_cut_off_removes_nothing() {
    for streams in [true, false] {
        for how in [GoAway::Close, GoAway::Refuse] {
            let turns = in_turn([
                |asked| Reply::body(asked, [Step::Bytes(whole(asked, "5", &two()))]),
                |asked| Reply::body(asked, [Step::Bytes(event(asked, "ERROR", &gone()))]),
                |asked| {
                    let part = if asked.is_stream() {
                        event(asked, "ADDED", &two()[1])
                    } else {
                        let mut part = list(asked, "9", "", &two()[1..]);
                        part.truncate(part.len() - 4);
                        part
                    };
                    Reply::body(asked, [Step::Bytes(part), Step::Hang])
                },
                |asked| Reply::all(asked, "9", &[service("b", 9, "10.96.0.9")]),
            ]);
            let handler = without_streams(!streams, turns);
            let fake = Fake::start_secure(only(Kind::Service, handler));
            let mut running = started(&fake);
            let asked_in_part = || {
                let lists = fake.asked(Kind::Service).into_iter().filter(Asked::is_list);
                lists.filter(|it| it.is_stream() == streams).count() == 2
            };
            until(asked_in_part);
            fake.go_away(how);
            assert_eq!(running.all(4)[2..], ["b 10.96.0.9", "a gone"]);
            running.until(Kind::Service, |it| it.lists == 2 && it.objects == 1);
        }
    }
}

/// Refuses streaming lists if it is so.
fn without_streams(
    refused: bool,
    handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static,
) -> impl Fn(&Asked) -> Reply + Send + Sync + 'static {
    move |asked| {
        if refused && asked.query.contains("sendInitialEvents") {
            return Reply::refuse(422, "Invalid", "sendInitialEvents is forbidden");
        }
        handler(asked)
    }
}
