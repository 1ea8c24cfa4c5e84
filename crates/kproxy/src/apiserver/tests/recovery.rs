//! After the first list: what a server may do to a watch, and what it never leads to.

use super::fake::{Asked, Fake, Reply, Step, bookmark, end, event, gone, whole};
use super::*;

/// Empty but for Services, which `handler` answers.
fn services(handler: impl Fn(&Asked) -> Reply + Send + Sync + 'static) -> Fake {
    Fake::start(only(Kind::Service, handler))
}

fn number(fake: &Fake) -> usize {
    fake.asked(Kind::Service).len()
}

#[test]
fn changes_are_published_and_a_watch_that_ends_goes_on_where_it_was() {
    let fake = services(in_turn([
        |asked| {
            let changes = [
                ("MODIFIED", service("a", 6, "10.96.0.6")),
                ("DELETED", service("b", 7, "10.96.0.2")),
                ("BOOKMARK", bookmark("12")),
            ];
            let first = whole(asked, "5", &two());
            Reply::body(
                asked,
                [Step::Bytes(first), Step::Bytes(events(asked, &changes))],
            )
        },
        |asked| {
            let added = events(asked, &[("ADDED", service("c", 13, "10.96.0.3"))]);
            Reply::body(asked, [Step::Bytes(added)])
        },
    ]));
    let mut running = Running::start(reader(options(fake.url()), quick()));
    let expected = [
        "a 10.96.0.1",
        "b 10.96.0.2",
        "a 10.96.0.6",
        "b gone",
        "c 10.96.0.3",
    ];
    assert_eq!(running.all(5), expected);
    until(|| number(&fake) == 3);
    let asked = fake.asked(Kind::Service);
    assert!(asked[1].query.contains("resourceVersion=12&") && !asked[1].is_list());
    assert!(asked[2].query.contains("resourceVersion=13&"));
}

/// As a status and as an event: list anew, tell only what differs, remove what is gone at the end.
#[test]
fn a_version_that_is_too_old_leads_to_a_new_list() {
    let in_status = |_: &Asked| Reply::refuse(410, "Expired", "too old resource version: 5 (9)");
    let in_event =
        |asked: &Asked| Reply::body(asked, [Step::Bytes(event(asked, "ERROR", &gone()))]);
    for too_old in [in_status as fn(&Asked) -> Reply, in_event] {
        let replies = once([
            (|asked| Reply::body(asked, [Step::Bytes(whole(asked, "5", &two()))]))
                as fn(&Asked) -> Reply,
            too_old,
            |asked| {
                let all = [service("b", 2, "10.96.0.2"), service("c", 8, "10.96.0.3")];
                Reply::all(asked, "9", &all)
            },
        ]);
        let fake = services(move |asked| {
            replies().map_or_else(|| Reply::body(asked, [Step::Hang]), |reply| reply(asked))
        });
        let mut running = Running::start(reader(options(fake.url()), quick()));
        assert_eq!(running.all(4)[2..], ["c 10.96.0.3", "a gone"]);
        let asked = fake.asked(Kind::Service);
        // Not older than what is known, and not by a quorum read.
        assert!(asked[2].is_list() && asked[2].query.contains("resourceVersion=5&"));
        running.until(Kind::Service, |it| it.lists == 2 && it.objects == 2);
    }
}

#[test]
fn a_list_that_breaks_removes_nothing() {
    let fake = services(in_turn([
        |asked| Reply::body(asked, [Step::Bytes(whole(asked, "5", &two()))]),
        |_| Reply::refuse(410, "Gone", "too old"),
        // Cut within an object, between objects, and closed without an end.
        |asked| {
            let mut half = whole(asked, "9", &[service("b", 2, "10.96.0.2")]);
            half.truncate(half.len() / 3);
            Reply::body(asked, [Step::Bytes(half), Step::Cut])
        },
        |asked| {
            Reply::body(
                asked,
                [
                    Step::Bytes(events(asked, &[("ADDED", service("b", 2, "10.96.0.2"))])),
                    Step::Cut,
                ],
            )
        },
        |asked| {
            Reply::body(
                asked,
                [Step::Bytes(events(
                    asked,
                    &[("ADDED", service("b", 2, "10.96.0.2"))],
                ))],
            )
        },
        |_| Reply::refuse(503, "ServiceUnavailable", "etcd is gone"),
        |asked| {
            Reply::all(
                asked,
                "9",
                &[service("a", 1, "10.96.0.1"), service("b", 9, "10.96.0.9")],
            )
        },
    ]));
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.all(3)[2..], ["b 10.96.0.9"]);
    running.until(Kind::Service, |it| {
        it.lists == 2 && it.errors >= 4 && it.last_error.is_none()
    });
}

#[test]
fn a_watch_that_is_cut_goes_on_where_it_was() {
    let fake = services(in_turn([
        |asked| {
            let mut bytes = whole(asked, "5", &two());
            let next = event(asked, "MODIFIED", &service("a", 6, "10.96.0.6"));
            bytes.extend(&next[..next.len() / 2]);
            Reply::body(asked, [Step::Bytes(bytes), Step::Cut])
        },
        |asked| {
            let again = event(asked, "MODIFIED", &service("a", 6, "10.96.0.6"));
            Reply::body(asked, [Step::Bytes(again), Step::Hang])
        },
    ]));
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.all(3)[2..], ["a 10.96.0.6"]);
    assert!(
        fake.asked(Kind::Service)[1]
            .query
            .contains("resourceVersion=5&")
    );
}

/// Whether it is asked for the newest version, and for nothing else.
fn is_probe(asked: &Asked) -> bool {
    let is = asked.query.contains("fieldSelector=metadata.name%3D-&");
    assert!(!is || asked.query.contains("resourceVersionMatch=NotOlderThan"));
    is
}

const BRIEF: Pace = Pace {
    silence: Duration::from_secs(2),
    backoff: Limits {
        first: Duration::from_millis(10),
        most: Duration::from_millis(100),
        healthy: Duration::from_secs(120),
    },
    watch: Duration::from_secs(300),
    grace: Duration::from_secs(30),
    absent: Duration::from_secs(300),
    longest_request: Duration::from_secs(120),
};

/// By bookmarks that do not come any more, or do not come at all though there is something to tell.
#[test]
fn a_watch_that_dies_in_silence_is_noticed() {
    for bookmarks in [true, false] {
        let turns = in_turn([
            |asked| Reply::body(asked, [Step::Bytes(whole(asked, "5", &two())), Step::Hang]),
            |asked| {
                let change = event(asked, "DELETED", &service("a", 6, "10.96.0.1"));
                Reply::body(asked, [Step::Bytes(change), Step::Hang])
            },
        ]);
        let fake = services(move |asked| {
            if is_probe(asked) {
                assert!(!bookmarks);
                return Reply::all(asked, "6", &[]);
            }
            if bookmarks && asked.is_list() {
                let told = event(asked, "BOOKMARK", &bookmark("5"));
                let first = [whole(asked, "5", &two()), told].concat();
                turns(asked);
                return Reply::body(asked, [Step::Bytes(first), Step::Hang]);
            }
            turns(asked)
        });
        let mut running = Running::start(reader(options(fake.url()), BRIEF));
        assert_eq!(running.all(3)[2..], ["a gone"]);
        running.until(Kind::Service, |it| it.errors == 1);
    }
}

/// A kind of which nothing happens, so that there is nothing to tell in a bookmark either.
#[test]
fn a_watch_with_nothing_to_tell_is_left_alone() {
    let (send, later) = tokio::sync::mpsc::unbounded_channel();
    let later = once([later]);
    let fake = services(move |asked| {
        if is_probe(asked) {
            return Reply::all(asked, "5", &[]);
        }
        assert!(asked.is_list(), "the same watch goes on");
        let first = whole(asked, "5", &two());
        Reply::body(asked, [Step::Bytes(first), Step::Later(later().unwrap())])
    });
    let mut running = Running::start(reader(options(fake.url()), BRIEF));
    let probes = |kind| fake.asked(kind).iter().filter(|it| is_probe(it)).count();
    until(|| probes(Kind::Service) == 1 && probes(Kind::EndpointSlice) == 1);
    let list = fake.asked(Kind::Service).remove(0);
    send.send(event(&list, "DELETED", &service("a", 6, "10.96.0.1")))
        .unwrap();
    assert_eq!(running.all(3)[2..], ["a gone"]);
    running.until(Kind::Service, |it| it.errors == 0 && it.watches == 1);
    assert_eq!(probes(Kind::Service), 1);
}

/// etcd was restored from a backup while nobody looked: the server sends nothing before it comes to
/// our version again.
#[test]
fn a_watch_from_the_future_is_given_up() {
    let turns = in_turn([
        |asked| Reply::body(asked, [Step::Bytes(whole(asked, "50", &two())), Step::Cut]),
        |asked| {
            assert!(!asked.is_list());
            Reply::body(asked, [Step::Hang])
        },
        |asked| {
            assert!(is_probe(asked));
            Reply::refuse(504, "Timeout", "Too large resource version: 50, current: 9")
        },
        |asked| Reply::all(asked, "9", &[service("a", 1, "10.96.0.1")]),
    ]);
    let fake = services(turns);
    let mut running = Running::start(reader(options(fake.url()), BRIEF));
    assert_eq!(running.all(3)[2..], ["b gone"]);
}

#[test]
fn events_out_of_order_do_not_bring_the_past_back() {
    let fake = services(in_turn([|asked| {
        let changes = [
            ("MODIFIED", service("a", 9, "10.96.0.9")),
            ("MODIFIED", service("a", 8, "10.96.0.8")),
            ("DELETED", service("b", 11, "10.96.0.2")),
            ("MODIFIED", service("b", 10, "10.96.0.7")),
            // Not of its own past.
            ("ADDED", service("c", 7, "10.96.0.3")),
            ("ADDED", service("b", 12, "10.96.0.4")),
        ];
        let steps = [
            Step::Bytes(whole(asked, "5", &two())),
            Step::Bytes(events(asked, &changes)),
            Step::Hang,
        ];
        Reply::body(asked, steps)
    }]));
    let mut reader = reader(options(fake.url()), quick());
    let mut told = Vec::new();
    reader
        .load(&never(), |change| told.push(brief(&change)))
        .unwrap();
    let (publisher, mut receiver) = mailbox::open();
    let (stop, stopped) = UnixStream::pair().unwrap();
    let thread = std::thread::spawn(move || reader.run(&publisher, &stopped).unwrap());
    let last = "b 10.96.0.4".to_owned();
    while !told.contains(&last) {
        assert_eq!(receiver.wait(Some(PATIENCE)), Wake::Changes, "{told:?}");
        told.extend(receiver.drain().iter().map(brief));
    }
    drop(stop);
    thread.join().unwrap();
    told.sort();
    let possible = [
        "a 10.96.0.1",
        "a 10.96.0.9",
        "b 10.96.0.2",
        "b 10.96.0.4",
        "b gone",
        "c 10.96.0.3",
    ];
    assert!(
        told.iter().all(|it| possible.contains(&it.as_str())),
        "{told:?}"
    );
    for must in ["a 10.96.0.9", "c 10.96.0.3"] {
        assert!(told.contains(&must.to_owned()), "{told:?}");
    }
}

#[test]
fn a_server_that_is_gone_for_a_while_takes_nothing_with_it() {
    let all = |asked: &Asked| Reply::all(asked, "5", &two());
    let fake = services(all);
    let address = fake.address;
    let mut running = Running::start(reader(options(fake.url()), quick()));
    drop(fake);
    running.until(Kind::Service, |it| it.errors >= 5);
    running.until(Kind::EndpointSlice, |it| it.errors >= 5);
    let back = Fake::start_at(
        address,
        only(Kind::Service, |asked: &Asked| {
            assert!(!asked.is_list(), "it goes on where it was");
            let change = event(asked, "MODIFIED", &service("a", 6, "10.96.0.6"));
            Reply::body(asked, [Step::Bytes(change), Step::Hang])
        }),
    );
    assert_eq!(running.all(3)[2..], ["a 10.96.0.6"]);
    drop(back);
}

#[test]
fn whoever_asks_for_a_pause_gets_it() {
    let fake = services(in_turn([
        |_| Reply::refuse(429, "TooManyRequests", "slow down").header("retry-after", "1"),
        |asked| Reply::all(asked, "5", &two()),
    ]));
    let began = Instant::now();
    let running = Running::start(reader(options(fake.url()), quick()));
    assert!(began.elapsed() >= Duration::from_secs(1));
    assert_eq!(running.sorted().len(), 2);
}

/// etcd was restored from a backup: the server has never heard of our version.
#[test]
fn a_server_that_went_back_in_time_is_believed_in_the_end() {
    let fake = services(in_turn([
        |asked| Reply::body(asked, [Step::Bytes(whole(asked, "50", &two()))]),
        |_| Reply::refuse(504, "Timeout", "Too large resource version: 50, current: 9"),
        |asked| Reply::all(asked, "9", &[service("a", 1, "10.96.0.1")]),
    ]));
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.all(3)[2..], ["b gone"]);
    // By a consistent list: another server may only lag behind, and is not to take us back.
    let query = &fake.asked(Kind::Service)[2].query;
    assert!(
        query.contains("sendInitialEvents=true") && !query.contains("resourceVersion="),
        "{query}"
    );
}

/// The same without streaming lists: whoever only lags behind gets time to catch up.
#[test]
fn a_server_that_lags_behind_does_not_take_us_back() {
    let refuse = |_: &Asked| Reply::refuse(504, "Timeout", "Too large resource version: 50");
    let turns = in_turn([
        (|asked| Reply::all(asked, "50", &two())) as fn(&Asked) -> Reply,
        |_| Reply::refuse(410, "Expired", "too old resource version"),
        refuse,
        refuse,
        |asked| {
            assert!(
                asked.query.contains("resourceVersion=50&"),
                "{}",
                asked.query
            );
            Reply::all(asked, "51", &[service("a", 1, "10.96.0.1")])
        },
    ]);
    let fake = services(move |asked| {
        if asked.query.contains("sendInitialEvents") {
            return Reply::refuse(422, "Invalid", "sendInitialEvents is forbidden");
        }
        turns(asked)
    });
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.all(3)[2..], ["b gone"]);
}

/// Not allowed yet: streaming lists are not what is refused, and are asked for again.
#[test]
fn who_may_nothing_asks_for_streaming_lists_again() {
    let fake = services(in_turn([
        |_| Reply::refuse(403, "Forbidden", "no"),
        |_| Reply::refuse(403, "Forbidden", "no"),
        |asked| Reply::all(asked, "5", &two()),
    ]));
    let running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.sorted().len(), 2);
    let asked = fake.asked(Kind::Service);
    let streams: Vec<_> = asked.iter().take(3).map(Asked::is_stream).collect();
    assert_eq!(streams, [true, false, true]);
}

/// Objects may change while a streaming list is being sent.
#[test]
fn changes_within_a_streaming_list_are_part_of_it() {
    let fake = services(in_turn([|asked| {
        let changes = [
            ("ADDED", service("b", 2, "10.96.0.2")),
            ("ADDED", service("a", 1, "10.96.0.1")),
            ("DELETED", service("b", 6, "10.96.0.2")),
            ("MODIFIED", service("a", 7, "10.96.0.7")),
            ("BOOKMARK", end("7")),
        ];
        Reply::body(asked, [Step::Bytes(events(asked, &changes)), Step::Hang])
    }]));
    let running = Running::start(reader(options(fake.url()), quick()));
    let expected = ["b 10.96.0.2", "a 10.96.0.1", "b gone", "a 10.96.0.7"];
    assert_eq!(running.changes, expected);
    running.until(Kind::Service, |it| it.objects == 1);
}

/// In the status or in an event, of whatever kind: where a watch cannot go on, a list does.
#[test]
fn a_watch_that_is_refused_again_and_again_leads_to_a_list() {
    let invalid = |_: &Asked| Reply::refuse(400, "BadRequest", "resourceVersion: Invalid value");
    let broken = |asked: &Asked| {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 500,
            "reason": "InternalError", "message": "unable to decode an object in the watch"});
        Reply::body(asked, [Step::Bytes(event(asked, "ERROR", &status))])
    };
    for (refuse, from) in [
        (invalid as fn(&Asked) -> Reply, "resourceVersion=0&"),
        (broken, "resourceVersion=5&"),
    ] {
        let first = once([()]);
        let fake = services(move |asked| {
            if !asked.is_list() {
                return refuse(asked);
            }
            if first().is_some() {
                return Reply::body(asked, [Step::Bytes(whole(asked, "5", &two()))]);
            }
            assert!(asked.query.contains(from), "{}", asked.query);
            let left = [service("a", 1, "10.96.0.1")];
            Reply::body(asked, [Step::Bytes(whole(asked, "9", &left)), Step::Hang])
        });
        let mut running = Running::start(reader(options(fake.url()), quick()));
        assert_eq!(running.all(3)[2..], ["b gone"]);
        // Not at once: what passes by itself costs no list.
        assert_eq!(number(&fake), 5);
    }
}

/// What is about the moment passes by itself.
#[test]
fn a_watch_that_is_refused_for_now_goes_on_where_it_was() {
    let replies = once([429, 503, 401, 403, 429, 503, 504]);
    let first = once([()]);
    let fake = services(move |asked| {
        if first().is_some() {
            return Reply::body(asked, [Step::Bytes(whole(asked, "5", &two()))]);
        }
        assert!(!asked.is_list(), "{}", asked.query);
        match replies() {
            Some(code) => Reply::refuse(code, "Whatever", "not now"),
            None => {
                let change = event(asked, "DELETED", &service("b", 6, "10.96.0.2"));
                Reply::body(asked, [Step::Bytes(change), Step::Hang])
            }
        }
    });
    let mut running = Running::start(reader(options(fake.url()), quick()));
    assert_eq!(running.all(3)[2..], ["b gone"]);
}

/// A server that has never heard of `sendInitialEvents` sends what there is, and then what changes.
#[test]
fn a_list_that_never_ends_is_read_in_pages() {
    let fake = services(|asked| {
        if asked.is_stream() && asked.is_list() {
            let all = events(asked, &[("ADDED", service("a", 1, "10.96.0.1"))]);
            return Reply::body(asked, [Step::Bytes(all), Step::Hang]);
        }
        if asked.is_list() {
            return Reply::all(asked, "5", &[service("a", 1, "10.96.0.1")]);
        }
        Reply::body(asked, [Step::Hang])
    });
    let running = Running::start(reader(options(fake.url()), BRIEF));
    assert_eq!(running.sorted(), ["a 10.96.0.1"]);
    running.until(Kind::Service, |it| it.lists == 1 && it.synced);
}
