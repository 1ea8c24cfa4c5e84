//! The thread that writes events.

use core::hash::BuildHasher as _;
use core::time::Duration;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use foldhash::fast::FixedState;
use svc_planner::object::Uid;

use super::bucket::Bucket;
use super::counters::count;
use super::event::{Event, Regarding, own_name};
use super::{Counters, Options, Sink, SinkError, Told};

/// Events that may wait.
const WAITING_MAX: usize = 10_000;
/// How often one is tried.
const TRIES: u32 = 5;

/// What is told to the thread.
#[derive(Debug)]
pub(super) enum News {
    /// Of this node.
    Own(Box<Event>),
    /// Of a Service, the same on every node.
    Fault(Fault, Box<Event>),
    /// It is over.
    Over(Fault),
    Stop,
}

/// What is wrong with which Service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Fault {
    pub(super) uid: Uid,
    pub(super) reason: &'static str,
}

/// See the module.
pub(super) struct Worker {
    options: Options,
    sink: Box<dyn Sink>,
    counters: Arc<Counters>,
    bucket: Bucket,
    clock: Instant,
    /// By the time when they are to be written, and a number.
    waiting: BTreeMap<(Duration, u64), Waiting>,
    faults: HashMap<Fault, (Duration, u64)>,
    /// Faults that are written.
    told: HashSet<Fault>,
    /// What was told of this node, and when.
    recent: HashMap<(Regarding, &'static str, String), Duration>,
    number: u64,
}

struct Waiting {
    event: Box<Event>,
    fault: Option<Fault>,
    tries: u32,
}

impl Worker {
    pub(super) fn new(options: Options, sink: Box<dyn Sink>, counters: Arc<Counters>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            bucket: Bucket::new(options.burst, options.period),
            options,
            sink,
            counters,
            clock: Instant::now(),
            waiting: BTreeMap::new(),
            faults: HashMap::new(),
            told: HashSet::new(),
            recent: HashMap::new(),
            // Names of events of an earlier process end in smaller numbers.
            number: u64::try_from(since.unwrap_or_default().as_nanos()).unwrap_or_default(),
        }
    }

    pub(super) fn run(mut self, heard: &Receiver<News>) {
        loop {
            let next = self.write_due();
            let news = match next {
                Some(time) => heard.recv_timeout(time.saturating_sub(self.clock.elapsed())),
                None => heard.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match news {
                Ok(News::Own(event)) => self.own(event),
                Ok(News::Fault(fault, event)) => self.fault(fault, event),
                Ok(News::Over(fault)) => self.over(fault),
                Ok(News::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    fn own(&mut self, mut event: Box<Event>) {
        let now = self.clock.elapsed();
        let quiet = self.options.quiet;
        self.recent
            .retain(|_, told| now.saturating_sub(*told) < quiet);
        let words = (event.regarding.clone(), event.reason, event.note.clone());
        if self.recent.contains_key(&words) {
            return count(&self.counters.dropped);
        }
        self.recent.insert(words, now);
        self.number = self.number.saturating_add(1);
        event.name = own_name(&event.regarding, self.number);
        self.wait(now, event, None, 0);
    }

    fn fault(&mut self, fault: Fault, event: Box<Event>) {
        if self.told.contains(&fault) || self.faults.contains_key(&fault) {
            return;
        }
        let due = self.clock.elapsed().saturating_add(self.delay(&event.name));
        self.wait(due, event, Some(fault), 0);
    }

    fn over(&mut self, fault: Fault) {
        self.told.remove(&fault);
        if let Some(key) = self.faults.remove(&fault) {
            self.waiting.remove(&key);
            count(&self.counters.withdrawn);
        }
    }

    /// How long this node waits before it tells of a fault: of all nodes each for another time.
    fn delay(&self, name: &str) -> Duration {
        let hash = FixedState::default().hash_one((&*self.options.node, name));
        let part = u32::try_from(hash >> 32).unwrap_or(u32::MAX);
        self.options
            .jitter
            .mul_f64(f64::from(part) / f64::from(u32::MAX))
    }

    fn wait(&mut self, due: Duration, event: Box<Event>, fault: Option<Fault>, tries: u32) {
        if self.waiting.len() >= WAITING_MAX {
            return count(&self.counters.dropped);
        }
        self.number = self.number.saturating_add(1);
        let key = (due, self.number);
        if let Some(fault) = fault {
            self.faults.insert(fault, key);
        }
        let waiting = Waiting {
            event,
            fault,
            tries,
        };
        self.waiting.insert(key, waiting);
    }

    /// Writes what is due, as far as tokens go; says when there will be something to do.
    fn write_due(&mut self) -> Option<Duration> {
        loop {
            let now = self.clock.elapsed();
            let (&(due, _), _) = self.waiting.first_key_value()?;
            if due > now {
                return Some(due);
            }
            if let Err(there) = self.bucket.take(now) {
                return Some(there);
            }
            let (_, waiting) = self.waiting.pop_first()?;
            if let Some(fault) = &waiting.fault {
                self.faults.remove(fault);
            }
            self.write(waiting);
        }
    }

    fn write(&mut self, waiting: Waiting) {
        let Waiting {
            event,
            fault,
            tries,
        } = waiting;
        match self.sink.create(&event) {
            Ok(told) => {
                count(match told {
                    Told::Created => &self.counters.created,
                    Told::Known => &self.counters.known,
                });
                self.told.extend(fault);
            }
            Err(SinkError::Failed(why)) if tries + 1 < TRIES => {
                tracing::debug!("event {}: {why}", event.name);
                let pause = self.options.retry.saturating_mul(1 << tries);
                let due = self.clock.elapsed().saturating_add(pause);
                self.wait(due, event, fault, tries + 1);
            }
            Err(error) => {
                count(&self.counters.failed);
                tracing::warn!(
                    "event {} ({}) was not written: {error}",
                    event.name,
                    event.note
                );
            }
        }
    }
}
