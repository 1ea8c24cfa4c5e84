//! Where events are told.

use core::time::Duration;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::SystemTime;

use svc_planner::object::{ObjectName, Uid};

use super::event::{Event, EventType, Regarding, fault_name};
use super::worker::{Fault, News, Worker};
use super::{Counters, Sink};

/// How events are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Name of the own Node; also decides when in `jitter` each fault is told.
    pub node: Box<str>,
    /// Faults of Services wait for up to so long.
    pub jitter: Duration,
    /// So many events at once, …
    pub burst: u32,
    /// … and then one in so long: 5,000 nodes that all have much to tell make 84 requests a second.
    pub period: Duration,
    /// For so long the same words about the same thing are not told again.
    pub quiet: Duration,
    /// Pause before another try, twice as long each time.
    pub retry: Duration,
}

impl Options {
    /// What is usual, for a node.
    #[must_use]
    pub fn new(node: &str) -> Self {
        Self {
            node: node.into(),
            jitter: Duration::from_secs(5 * 60),
            burst: 10,
            period: Duration::from_secs(60),
            quiet: Duration::from_secs(6 * 60),
            retry: Duration::from_secs(10),
        }
    }
}

/// Where events are told; cheap to clone. Telling never waits.
#[derive(Debug, Clone)]
pub struct Recorder {
    news: Sender<News>,
    node: Box<str>,
}

/// The thread that writes events. It ends when this is dropped, but for an event that is being written:
/// the API server may take its time, and nobody waits for it. What waits is not written any more.
#[derive(Debug)]
pub struct Recording {
    recorder: Recorder,
    counters: Arc<Counters>,
}

impl Recording {
    /// Starts the thread.
    ///
    /// # Errors
    /// When there can be no thread.
    pub fn start(options: Options, sink: impl Sink + 'static) -> io::Result<Self> {
        let (news, heard) = mpsc::channel();
        let recorder = Recorder {
            news,
            node: options.node.clone(),
        };
        let counters = Arc::<Counters>::default();
        let worker = Worker::new(options, Box::new(sink), Arc::clone(&counters));
        thread::Builder::new()
            .name("events".to_owned())
            .spawn(move || worker.run(&heard))?;
        Ok(Self { recorder, counters })
    }

    /// Where events are told.
    #[must_use]
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// What became of them.
    #[must_use]
    pub fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.recorder.news.send(News::Stop);
    }
}

impl Recorder {
    /// Name of the own Node.
    #[must_use]
    pub fn node_name(&self) -> &str {
        &self.node
    }

    /// Tells something about this node.
    pub fn node(&self, kind: EventType, reason: &'static str, action: &'static str, note: String) {
        self.own(
            kind,
            Regarding::Node(self.node.clone()),
            reason,
            action,
            note,
        );
    }

    /// Warns of something about a Service that is so on this node alone.
    pub fn service(
        &self,
        service: ObjectName,
        uid: Option<Uid>,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let regarding = Regarding::Service(service, uid);
        self.own(EventType::Warning, regarding, reason, action, note);
    }

    /// Warns of something about a Service object, which is so on every node. Nothing is told about one
    /// without uid: it is not from the API.
    pub fn fault(
        &self,
        service: &ObjectName,
        uid: Option<Uid>,
        reason: &'static str,
        note: String,
    ) {
        let Some(uid) = uid else {
            return;
        };
        let event = Event {
            name: fault_name(&service.name, uid, reason),
            kind: EventType::Warning,
            regarding: Regarding::Service(service.clone(), Some(uid)),
            reason,
            action: "Serve",
            note,
            time: SystemTime::now(),
            node: self.node.clone(),
        };
        self.send(News::Fault(Fault { uid, reason }, Box::new(event)));
    }

    /// It is so no longer.
    pub fn fault_over(&self, uid: Uid, reason: &'static str) {
        self.send(News::Over(Fault { uid, reason }));
    }

    fn own(
        &self,
        kind: EventType,
        regarding: Regarding,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let event = Event {
            // The thread gives it one.
            name: String::new(),
            kind,
            regarding,
            reason,
            action,
            note,
            time: SystemTime::now(),
            node: self.node.clone(),
        };
        self.send(News::Own(Box::new(event)));
    }

    fn send(&self, news: News) {
        // At the end of the process nobody listens any more.
        let _ = self.news.send(news);
    }
}
