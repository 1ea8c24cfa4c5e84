//! What is planned, for people to look at: asked for from other threads, answered by the loop between
//! two syncs, a slice at a time. Nobody's packets wait for somebody who looks, and it costs nothing
//! while nobody does.

use core::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::SystemTime;

use nft_batch::Transport;
use svc_planner::mailbox::Bell;
use svc_planner::object::{ObjectName, TrafficPolicy};
use svc_planner::plan::Family;
use svc_planner::{ServiceDetail, ServiceSummary};
use tokio::sync::oneshot;

use crate::engine::{Engine, Wait};

/// Services and endpoints looked at in a slice: a fraction of a millisecond.
const SLICE: usize = 4096;
/// Questions that may wait.
const QUESTIONS: usize = 256;

/// Where other threads ask. Clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Window(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    questions: Mutex<Vec<Question>>,
    bell: OnceLock<Bell>,
}

#[derive(Debug)]
enum Question {
    Services(oneshot::Sender<Listing>),
    Service(ObjectName, oneshot::Sender<Vec<(Family, ServiceDetail)>>),
}

/// All Services as they were within a short time, in no particular order, one row for each family.
#[derive(Debug)]
pub struct Listing {
    /// When the last row was read.
    pub time: SystemTime,
    /// Rows.
    pub rows: Vec<ServiceRow>,
}

/// A Service of a family.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceRow {
    /// Namespace and name, with a slash between.
    pub name: Box<str>,
    /// Family.
    pub family: Family,
    /// First ClusterIP.
    pub cluster_ip: IpAddr,
    /// Addresses besides ClusterIPs.
    pub other_addresses: usize,
    /// Ports.
    pub ports: usize,
    /// Those with a node port.
    pub node_ports: usize,
    /// Endpoints.
    pub endpoints: usize,
    /// Those that are ready.
    pub ready: usize,
    /// Those on this node.
    pub local: usize,
    /// Internal traffic policy.
    pub internal: TrafficPolicy,
    /// External traffic policy.
    pub external: TrafficPolicy,
    /// ClientIP affinity timeout in seconds.
    pub affinity: Option<u32>,
}

impl Window {
    /// All Services; `None` if the loop does not run.
    pub async fn services(&self) -> Option<Listing> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Services(sender))?;
        answer.await.ok()
    }

    /// All about a Service, in each family that has it; `None` if the loop does not run.
    pub async fn service(&self, name: ObjectName) -> Option<Vec<(Family, ServiceDetail)>> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Service(name, sender))?;
        answer.await.ok()
    }

    fn ask(&self, question: Question) -> Option<()> {
        let bell = self.0.bell.get()?;
        let mut questions = self.lock();
        if questions.len() >= QUESTIONS {
            return None;
        }
        questions.push(question);
        drop(questions);
        bell.ring();
        Some(())
    }

    pub(super) fn attach(&self, bell: Bell) {
        // A loop runs once.
        let _ = self.0.bell.set(bell);
    }

    /// Each edit leaves it whole, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, Vec<Question>> {
        self.0
            .questions
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// The loop's side.
#[derive(Debug, Default)]
pub(super) struct Clerk {
    window: Window,
    writing: Option<Writing>,
}

/// A listing that is being written.
#[derive(Debug)]
struct Writing {
    family: usize,
    from: u32,
    rows: Vec<ServiceRow>,
    readers: Vec<oneshot::Sender<Listing>>,
}

impl Clerk {
    pub(super) const fn window(&self) -> &Window {
        &self.window
    }

    /// Answers a little; says when to be called again.
    pub(super) fn idle<T: Transport>(&mut self, engine: &Engine<T>) -> Wait {
        let questions = core::mem::take(&mut *self.window.lock());
        for question in questions {
            match question {
                Question::Services(reader) => {
                    let writing = self.writing.get_or_insert_with(|| Writing {
                        family: 0,
                        from: 0,
                        rows: Vec::new(),
                        readers: Vec::new(),
                    });
                    writing.readers.push(reader);
                }
                Question::Service(name, reader) => {
                    let families = engine.families();
                    let details = families.filter_map(|family| {
                        let detail = engine.planner(family)?.service(&name)?;
                        Some((family, detail))
                    });
                    // Who asked may have gone.
                    let _ = reader.send(details.collect());
                }
            }
        }
        let Some(writing) = &mut self.writing else {
            return Wait::Change;
        };
        if writing.go_on(engine) {
            return Wait::Until(engine.clock().now());
        }
        if let Some(writing) = self.writing.take() {
            writing.finish();
        }
        Wait::Change
    }
}

impl Writing {
    /// Writes a slice; false if that was the last.
    fn go_on<T: Transport>(&mut self, engine: &Engine<T>) -> bool {
        let Some(family) = engine.families().nth(self.family) else {
            return false;
        };
        let rows = &mut self.rows;
        let next = engine.planner(family).and_then(|planner| {
            planner.services(self.from, SLICE, |service| rows.push(row(family, &service)))
        });
        match next {
            Some(from) => self.from = from,
            None => (self.family, self.from) = (self.family + 1, 0),
        }
        true
    }

    fn finish(self) {
        let mut readers = self.readers;
        let time = SystemTime::now();
        // Few ask at the same time; each gets a copy, the last one the rows themselves.
        let last = readers.pop();
        for reader in readers {
            let rows = self.rows.clone();
            let _ = reader.send(Listing { time, rows });
        }
        if let Some(reader) = last {
            let rows = self.rows;
            let _ = reader.send(Listing { time, rows });
        }
    }
}

fn row(family: Family, service: &ServiceSummary<'_>) -> ServiceRow {
    ServiceRow {
        name: format!("{}/{}", service.namespace, service.name).into(),
        family,
        cluster_ip: service.cluster_ip,
        other_addresses: service.other_addresses,
        ports: service.ports,
        node_ports: service.node_ports,
        endpoints: service.endpoints,
        ready: service.ready,
        local: service.local,
        internal: service.internal,
        external: service.external,
        affinity: service.affinity,
    }
}
