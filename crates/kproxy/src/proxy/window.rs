//! What is planned, for people to look at: asked for from other threads, answered by the loop between
//! two syncs, a slice at a time. Nobody's packets wait for somebody who looks, and it costs nothing
//! while nobody does.
//!
//! All Services are looked at for each page of their list, and no more than a page of them is kept.

mod listing;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use nft_batch::Transport;
use svc_planner::ServiceDetail;
use svc_planner::mailbox::Bell;
use svc_planner::object::ObjectName;
use svc_planner::plan::Family;
use tokio::sync::oneshot;

pub use self::listing::{Listing, Only, Place, ServiceRow, Wanted};

use self::listing::Collector;
use crate::engine::{Engine, Wait};

/// Services and endpoints looked at in a slice: a fraction of a millisecond.
const SLICE: usize = 4096;
/// Questions that may wait.
const QUESTIONS: usize = 256;
/// Lists that are written at the same time; so many more may wait.
const LISTS: usize = 16;
/// Endpoints that are told of at once, whatever was asked for.
const ENDPOINTS: usize = 1_000;

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
    Services(Wanted, oneshot::Sender<Listing>),
    Service(
        ObjectName,
        usize,
        oneshot::Sender<Vec<(Family, ServiceDetail)>>,
    ),
}

impl Window {
    /// A page of Services; `None` if the loop does not run, or too many ask.
    pub async fn services(&self, wanted: Wanted) -> Option<Listing> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Services(wanted, sender))?;
        answer.await.ok()
    }

    /// A Service in each family that has it, with at most a thousand of its endpoints, from a position
    /// on; `None` if the loop does not run.
    pub async fn service(
        &self,
        name: ObjectName,
        from: usize,
    ) -> Option<Vec<(Family, ServiceDetail)>> {
        let (sender, answer) = oneshot::channel();
        self.ask(Question::Service(name, from, sender))?;
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
    /// Lists for which Services are being looked at.
    writing: Option<Writing>,
    /// Those that come with the next look.
    waiting: Vec<Order>,
}

#[derive(Debug)]
struct Order {
    collector: Collector,
    reader: oneshot::Sender<Listing>,
}

#[derive(Debug)]
struct Writing {
    family: usize,
    from: u32,
    orders: Vec<Order>,
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
                Question::Services(wanted, reader) => {
                    // Who is one too many hears at once that nobody answers.
                    if self.waiting.len() < LISTS {
                        self.waiting.push(Order {
                            collector: Collector::new(wanted),
                            reader,
                        });
                    }
                }
                Question::Service(name, from, reader) => {
                    let part = from..from.saturating_add(ENDPOINTS);
                    let families = engine.families();
                    let details = families.filter_map(|family| {
                        let detail = engine.planner(family)?.service(&name, part.clone())?;
                        Some((family, detail))
                    });
                    // Who asked may have gone.
                    let _ = reader.send(details.collect());
                }
            }
        }
        if self.writing.is_none() && !self.waiting.is_empty() {
            self.writing = Some(Writing {
                family: 0,
                from: 0,
                orders: core::mem::take(&mut self.waiting),
            });
        }
        let Some(writing) = &mut self.writing else {
            return Wait::Change;
        };
        if !writing.go_on(engine)
            && let Some(done) = self.writing.take()
        {
            done.finish();
            if self.waiting.is_empty() {
                return Wait::Change;
            }
        }
        Wait::Until(engine.clock().now())
    }
}

impl Writing {
    /// Looks at a slice; false if there is none any more.
    fn go_on<T: Transport>(&mut self, engine: &Engine<T>) -> bool {
        // Nobody may be left who wants to know.
        self.orders.retain(|order| !order.reader.is_closed());
        let Some(family) = engine.families().nth(self.family) else {
            return false;
        };
        let orders = &mut self.orders;
        let next = engine.planner(family).and_then(|planner| {
            planner.services(self.from, SLICE, |service| {
                for order in &mut *orders {
                    order.collector.see(family, &service);
                }
            })
        });
        match next {
            Some(from) => self.from = from,
            None => (self.family, self.from) = (self.family + 1, 0),
        }
        !self.orders.is_empty()
    }

    fn finish(self) {
        for order in self.orders {
            let _ = order.reader.send(order.collector.finish());
        }
    }
}
