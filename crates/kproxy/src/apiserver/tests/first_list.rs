//! The first reading, however the server lets itself be read.

use super::fake::{Asked, Fake, Reply, Step, event, gzip, list, whole};
use super::*;

fn objects(asked: &Asked) -> Vec<Json> {
    match asked.kind() {
        Kind::Service => vec![
            service("web", 3, "10.96.0.1"),
            service("api", 7, "10.96.0.2"),
        ],
        Kind::EndpointSlice => vec![slice("web-1", 5, "10.1.0.1")],
        Kind::Node => vec![node()],
        Kind::ServiceCidr => Vec::new(),
    }
}

const ALL: [&str; 4] = [
    "api 10.96.0.2",
    "node node-a 192.0.2.1",
    "web 10.96.0.1",
    "web-1 10.1.0.1",
];

#[test]
fn a_streaming_list_in_protobuf_is_asked_for_and_never_a_quorum_read() {
    let fake = Fake::start(|asked| Reply::all(asked, "9", &objects(asked)));
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    for kind in [
        Kind::Service,
        Kind::EndpointSlice,
        Kind::ServiceCidr,
        Kind::Node,
    ] {
        let asked = fake.asked(kind);
        assert_eq!(asked.len(), 1, "{kind}");
        for part in [
            "watch=true",
            "sendInitialEvents=true",
            "resourceVersionMatch=NotOlderThan",
            "resourceVersion=0",
            "allowWatchBookmarks=true",
            "timeoutSeconds=",
        ] {
            assert!(
                asked[0].query.split('&').any(|it| it.starts_with(part)),
                "{kind} {part}"
            );
        }
        assert_eq!(
            asked[0].header("accept"),
            "application/vnd.kubernetes.protobuf,application/json"
        );
        assert_eq!(asked[0].header("accept-encoding"), "gzip");
        assert!(asked[0].header("user-agent").starts_with("kproxy/"));
    }
    assert!(running.board.is_synced());
}

#[test]
fn nothing_counts_as_read_before_services_and_slices_and_node_are() {
    for held in [Kind::Service, Kind::EndpointSlice, Kind::Node] {
        let (release, later) = tokio::sync::mpsc::unbounded_channel();
        let later = once([later]);
        let fake = Fake::start(move |asked| {
            if asked.kind() == held {
                return Reply::body(asked, [Step::Later(later().unwrap())]);
            }
            Reply::all(asked, "9", &objects(asked))
        });
        let mut reader = reader(options(fake.url()), quick());
        let board = reader.board();
        let loading = std::thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
        let others = |it: &super::super::WatchStatus| it.kind == held || it.synced;
        until(|| board.snapshot().iter().all(others));
        until(|| !fake.asked(held).is_empty());
        // All but the end of it.
        let asked = &fake.asked(held)[0];
        let first = objects(asked);
        for object in &first {
            release.send(event(asked, "ADDED", object)).unwrap();
        }
        until(|| {
            board
                .snapshot()
                .iter()
                .any(|it| it.kind == held && it.objects == first.len())
        });
        assert!(!loading.is_finished());
        release.send(whole(asked, "9", &[])).unwrap();
        assert_eq!(loading.join().unwrap(), Loaded::Synced);
    }
}

#[test]
fn a_server_that_speaks_json_only_is_read_in_json() {
    let fake = Fake::start(|asked| {
        let mut asked = asked.clone();
        // It does not look at what is asked for.
        asked.headers.remove("accept");
        Reply::all(&asked, "9", &objects(&asked))
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    drop(running);

    let fake = Fake::start(|asked| {
        if asked.wants_protobuf() {
            return Reply::refuse(406, "NotAcceptable", "only application/json");
        }
        Reply::all(asked, "9", &objects(asked))
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    assert_eq!(
        fake.asked(Kind::Service)[1].header("accept"),
        "application/json"
    );
}

#[test]
fn the_configured_content_type_is_asked_for() {
    let fake = Fake::start(|asked| Reply::all(asked, "9", &objects(asked)));
    let json = ConnectionOptions {
        content_type: super::super::JSON.to_owned(),
        ..options(fake.url())
    };
    let running = Running::start(reader(json, quick()));
    assert_eq!(running.sorted(), ALL);
    assert_eq!(
        fake.asked(Kind::Node)[0].header("accept"),
        "application/json"
    );
}

#[test]
fn where_streaming_lists_are_refused_pages_are_read() {
    let fake = Fake::start(|asked| {
        if asked.query.contains("sendInitialEvents") {
            return Reply::refuse(422, "Invalid", "sendInitialEvents is forbidden");
        }
        if asked.is_stream() {
            return Reply::body(asked, [Step::Hang]);
        }
        let all = objects(asked);
        let (first, rest) = all.split_at(all.len().min(1));
        if asked.query.contains("continue=a%2Fb") {
            return Reply::body(asked, [Step::Bytes(list(asked, "9", "", rest))]);
        }
        let token = if rest.is_empty() { "" } else { "a/b" };
        Reply::body(asked, [Step::Bytes(list(asked, "9", token, first))])
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    running.until(Kind::Service, |it| it.watches == 2);
    until(|| fake.asked(Kind::Service).len() == 4);
    let queries: Vec<_> = fake
        .asked(Kind::Service)
        .into_iter()
        .map(|it| it.query)
        .collect();
    assert!(
        queries[1].ends_with("limit=500&resourceVersion=0"),
        "{queries:?}"
    );
    assert!(
        queries[2].ends_with("limit=500&continue=a%2Fb"),
        "{queries:?}"
    );
    assert!(queries[3].contains("resourceVersion=9&"), "{queries:?}");
}

#[test]
fn a_token_that_expires_between_pages_costs_one_more_list() {
    let fake = Fake::start(|asked| {
        if asked.query.contains("sendInitialEvents") {
            return Reply::refuse(400, "BadRequest", "unknown parameter");
        }
        if asked.is_stream() {
            return Reply::body(asked, [Step::Hang]);
        }
        if asked.query.contains("continue=") {
            return Reply::refuse(410, "Expired", "The provided continue parameter is too old");
        }
        let all = objects(asked);
        let cut = asked.query.contains("limit=") && all.len() > 1;
        let (token, items) = if cut {
            ("t", &all[..1])
        } else {
            ("", &all[..])
        };
        Reply::body(asked, [Step::Bytes(list(asked, "9", token, items))])
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    let queries: Vec<_> = fake
        .asked(Kind::Service)
        .into_iter()
        .map(|it| it.query)
        .collect();
    assert!(queries[3].ends_with("resourceVersion=0"), "{queries:?}");
}

#[test]
fn an_old_server_without_service_cidrs_and_without_a_selector_of_cluster_ips_is_fine() {
    let fake = Fake::start(|asked| {
        if asked.kind() == Kind::ServiceCidr {
            return Reply::refuse(
                404,
                "NotFound",
                "the server could not find the requested resource",
            );
        }
        if asked.query.contains("spec.clusterIP") {
            let message = "Unable to find \"/v1, Resource=services\": field label not supported: spec.clusterIP";
            return Reply::refuse(400, "BadRequest", message);
        }
        Reply::all(asked, "9", &objects(asked))
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
    running.until(Kind::ServiceCidr, |it| it.absent);
    // The next try is minutes away.
    assert!(fake.asked(Kind::ServiceCidr).len() == 1);
}

#[test]
fn answers_may_be_compressed_and_come_byte_by_byte() {
    let fake = Fake::start(|asked| {
        let objects = objects(asked);
        let events = objects
            .iter()
            .map(|object| gzip(&event(asked, "ADDED", object)));
        let bytes: Vec<u8> = events
            .chain([gzip(&whole(asked, "9", &[]))])
            .flatten()
            .collect();
        let steps = bytes.chunks(1).map(|byte| Step::Bytes(byte.to_vec()));
        Reply::body(asked, steps.chain([Step::Hang])).header("content-encoding", "gzip")
    });
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), ALL);
}

#[test]
fn an_empty_cluster_without_the_node_is_read_to_its_end() {
    let fake = Fake::start(|asked| Reply::all(asked, "9", &[]));
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted(), Vec::<String>::new());
}
