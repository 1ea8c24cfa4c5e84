//! The thread over a fake ctnetlink.

use core::net::SocketAddr;
use std::thread::{self, JoinHandle};

use nft_batch::Errno;
use svc_planner::flows::{FlowChanges, Frontend, Served};
use svc_planner::object::Protocol;

use super::super::fake::{Fake, FakeSocket, Fault};
use super::*;

const VIP: &str = "10.96.0.10:53";
const A: &str = "10.0.0.1:53";
const B: &str = "10.0.0.2:53";

/// Waits for nothing that a test does not want to see.
const PACE: Pace = Pace {
    hold: Duration::from_secs(3600),
    rests: 0,
    longest_rest: Duration::ZERO,
    slow: 0,
    full: Duration::from_secs(3600),
    retry: Duration::ZERO,
};

fn worker(
    fake: &Fake,
    mailbox: &Mailbox,
    counters: &Arc<Counters>,
    pace: Pace,
) -> Worker<FakeSocket, impl FnMut() -> Result<[FakeSocket; 2], OpenError> + Send + use<>> {
    let reopened = fake.clone();
    Worker::new(
        Family::Ipv4,
        mailbox.clone(),
        Arc::clone(counters),
        pace,
        fake.sockets(),
        move || Ok(reopened.sockets()),
    )
}

fn serving(endpoints: &[&str]) -> FlowChanges {
    let vip: SocketAddr = VIP.parse().unwrap();
    let frontend = Frontend {
        address: Some(vip.ip()),
        protocol: Protocol::Udp,
        port: vip.port(),
    };
    let served = Served {
        by: endpoints.iter().map(|it| it.parse().unwrap()).collect(),
        at_cluster_ip: false,
    };
    FlowChanges {
        serving: vec![(frontend, served)],
        ..FlowChanges::default()
    }
}

/// The frontend is none any more.
fn gone(endpoints: &[&str]) -> FlowChanges {
    let FlowChanges { serving, .. } = serving(&[]);
    let endpoints: Vec<SocketAddr> = endpoints.iter().map(|it| it.parse().unwrap()).collect();
    FlowChanges {
        gone: serving
            .into_iter()
            .map(|(frontend, _)| (frontend, endpoints.clone()))
            .collect(),
        ..FlowChanges::default()
    }
}

/// Runs a thread until its mailbox is closed and it has looked into what is in it.
struct Running {
    fake: Fake,
    mailbox: Mailbox,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
}

impl Running {
    fn start(fake: Fake, pace: Pace) -> Self {
        let (mailbox, counters) = (Mailbox::default(), Arc::default());
        let worker = worker(&fake, &mailbox, &counters, pace);
        Self {
            thread: thread::spawn(move || worker.run()),
            fake,
            mailbox,
            counters,
        }
    }

    fn end(self) -> (Fake, Totals) {
        self.mailbox.close();
        self.thread.join().unwrap();
        (self.fake, self.counters.of(Family::Ipv4))
    }

    /// Waits until this is so; the test's runner ends it if it never is.
    fn until(&self, what: impl Fn(&Totals) -> bool) {
        while !what(&self.counters.of(Family::Ipv4)) {
            thread::yield_now();
        }
    }
}

fn holding(entries: &[&str]) -> Fake {
    let fake = Fake::default();
    entries
        .iter()
        .for_each(|by| fake.add(Protocol::Udp, VIP, by));
    fake
}

#[test]
fn what_was_told_is_looked_into_before_the_end() {
    let running = Running::start(holding(&[A, B, VIP]), PACE);
    running.mailbox.publish(serving(&[B]));
    let (fake, totals) = running.end();
    assert_eq!(fake.served_by(), [B]);
    assert_eq!((totals.deleted, totals.failures), (2, 0));
}

#[test]
fn without_news_nothing_is_asked() {
    let running = Running::start(holding(&[A]), PACE);
    running.mailbox.begin();
    running.mailbox.publish(FlowChanges::default());
    let (fake, totals) = running.end();
    assert_eq!((fake.dumps(), totals), (0, Totals::default()));
}

#[test]
fn flows_to_an_endpoint_that_is_not_told_yet_are_not_taken_for_stale() {
    let fake = holding(&[A, B]);
    let (mailbox, counters) = (Mailbox::default(), Arc::default());
    let mut worker = worker(&fake, &mailbox, &counters, PACE);
    mailbox.publish(serving(&[A]));
    if let Some(news) = mailbox.take() {
        worker.frontends.take(news);
    }
    // The kernel sends flows to B, and nobody has said so, when the pass begins.
    mailbox.begin();
    let pass = thread::spawn(move || {
        worker.pass(Instant::now(), false);
        worker.frontends.has_news()
    });
    // Whether it waits already or not.
    while fake.dumps() == 0 {
        thread::yield_now();
    }
    assert_eq!(fake.served_by(), [A, B]);
    mailbox.publish(serving(&[B]));
    let has_news = pass.join().unwrap();
    assert!(has_news, "another pass is due");
    // The one to A was right by what was known when it was seen.
    assert_eq!(fake.served_by(), [A, B]);
}

#[test]
fn a_sync_that_never_succeeds_deletes_nothing() {
    let running = Running::start(holding(&[A, B]), PACE);
    running.mailbox.publish(serving(&[A, B]));
    running.until(|totals| totals.passes == 1);
    running.mailbox.begin();
    // A periodic look, or one that came too late, would wait; here the process ends.
    let (fake, totals) = running.end();
    assert_eq!(fake.served_by(), [A, B]);
    assert_eq!(totals.deleted, 0);
}

#[test]
fn a_change_is_looked_into_again_when_no_packet_is_late() {
    let pace = Pace {
        hold: Duration::ZERO,
        ..PACE
    };
    let running = Running::start(holding(&[A]), pace);
    running.mailbox.publish(serving(&[B]));
    running.until(|totals| totals.passes == 2);
    let (fake, totals) = running.end();
    // And then not any more. Each time to and from the port.
    assert_eq!((fake.dumps(), totals.passes), (4, 2));
}

#[test]
fn everything_is_looked_through_from_time_to_time() {
    let pace = Pace {
        full: Duration::from_millis(1),
        slow: 1,
        ..PACE
    };
    let running = Running::start(holding(&[B]), pace);
    running.mailbox.publish(serving(&[B]));
    running.until(|totals| totals.passes >= 1);
    running.fake.add(Protocol::Udp, VIP, A);
    running.until(|totals| totals.deleted == 1);
    let (fake, _) = running.end();
    assert_eq!(fake.served_by(), [B]);
}

#[test]
fn a_dump_that_fails_is_repeated_on_new_sockets() {
    for fault in [
        Fault::Overrun,
        Fault::Interrupted,
        Fault::Refused(Errno::EPERM),
    ] {
        let fake = holding(&[A, B]);
        fake.fail(fault);
        let running = Running::start(fake, PACE);
        running.mailbox.publish(serving(&[B]));
        running.until(|totals| totals.failures >= 1 && totals.passes >= 1);
        let (fake, totals) = running.end();
        assert!(fake.opened() >= 2, "{fault:?}");
        assert_eq!(totals.passes, 1, "{fault:?}: {totals:?}");
    }
}

#[test]
fn a_flow_that_a_late_reply_brings_back_is_cut_again() {
    for (late, change) in [1, 2, 30]
        .into_iter()
        .flat_map(|late| [serving(&[B]), gone(&[B])].map(|change| (late, change)))
    {
        let fake = holding(&[VIP]);
        fake.set_late_replies(late);
        let pace = Pace {
            hold: Duration::ZERO,
            ..PACE
        };
        let running = Running::start(fake, pace);
        running.mailbox.publish(change.clone());
        running.until(|totals| totals.deleted > late.into());
        let (fake, totals) = running.end();
        assert!(
            fake.served_by().is_empty(),
            "{late}, {change:?}: {totals:?}"
        );
        assert_eq!(totals.deleted, u64::from(late) + 1);
    }
}

#[test]
fn what_cannot_be_deleted_is_counted_and_tried_again() {
    let fake = holding(&[A, B]);
    fake.set_busy(true);
    let running = Running::start(fake, PACE);
    running.mailbox.publish(serving(&[B]));
    running.until(|totals| totals.not_deleted > 0);
    running.fake.set_busy(false);
    running.until(|totals| totals.passes == 1);
    let (fake, totals) = running.end();
    assert_eq!((fake.served_by(), totals.deleted), (vec![B.to_owned()], 1));
}

#[test]
fn an_entry_that_is_gone_or_another_by_now_is_no_failure() {
    let fake = holding(&[A]);
    fake.fail(Fault::Replaced);
    let running = Running::start(fake, PACE);
    running.mailbox.publish(serving(&[B]));
    let (fake, totals) = running.end();
    // Another flow of the same client.
    assert_eq!(fake.served_by(), [A]);
    assert_eq!(
        (totals.passes, totals.deleted, totals.not_deleted),
        (1, 0, 0)
    );
}

#[test]
fn without_ctnetlink_it_is_said_once_and_asked_rarely() {
    let fake = holding(&[A]);
    for _ in 0..3 {
        fake.fail(Fault::Refused(Errno::EINVAL));
    }
    let (mailbox, counters) = (Mailbox::default(), Arc::default());
    let mut worker = worker(&fake, &mailbox, &counters, PACE);
    mailbox.publish(serving(&[B]));
    if let Some(news) = mailbox.take() {
        worker.frontends.take(news);
    }
    let begin = Instant::now();
    worker.pass(begin, false);
    assert_eq!(worker.failure, Some(ConntrackError::Missing));
    let (next, _) = worker.next_time().unwrap();
    assert!(next >= begin + PACE.full);
    assert_eq!(counters.of(Family::Ipv4).failures, 1);
}
