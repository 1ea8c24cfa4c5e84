//! The connections that a listener has accepted.

use core::future::Future;
use std::collections::VecDeque;

use tokio::task::{AbortHandle, JoinSet};

/// How many there may be, and what happens to those that are too many.
#[derive(Debug, Clone, Copy)]
pub(super) enum Most {
    /// New ones wait until one has ended: all are worth the same.
    Wait(usize),
    /// The oldest is hung up on. Questions are short: whoever has been connected for longest has nothing to
    /// say, or is slow on purpose, and must not keep a load balancer or a kubelet from being answered.
    HangUp(usize),
}

/// Connections that are being served; when this goes, they do.
#[derive(Debug)]
pub(super) struct Connections {
    most: Most,
    all: JoinSet<()>,
    /// Oldest first; some of them have ended.
    order: VecDeque<AbortHandle>,
}

impl Connections {
    pub(super) fn new(most: Most) -> Self {
        Self {
            most,
            all: JoinSet::new(),
            order: VecDeque::new(),
        }
    }

    /// Returns when one more may be accepted.
    pub(super) async fn room(&mut self) {
        self.forget_ended();
        if let Most::Wait(most) = self.most {
            while self.all.len() >= most {
                self.all.join_next().await;
            }
        }
    }

    /// Serves a connection that was accepted.
    pub(super) async fn add(&mut self, serving: impl Future<Output = ()> + Send + 'static) {
        if let Most::HangUp(most) = self.most {
            self.forget_ended();
            while self.all.len() >= most {
                let Some(oldest) = self.order.pop_front() else {
                    break;
                };
                if !oldest.is_finished() {
                    tracing::debug!("more than {most} connections: the oldest is closed");
                    oldest.abort();
                    // It, or another one that ended just now.
                    self.all.join_next().await;
                }
            }
        }
        let added = self.all.spawn(serving);
        if let Most::HangUp(most) = self.most {
            if self.order.len() >= most.saturating_mul(2) {
                self.order.retain(|connection| !connection.is_finished());
            }
            self.order.push_back(added);
        }
    }

    fn forget_ended(&mut self) {
        while self.all.try_join_next().is_some() {}
    }
}

#[cfg(test)]
mod tests {
    use core::future::pending;
    use std::sync::Arc;

    use tokio::runtime;
    use tokio::sync::Semaphore;

    use super::*;

    /// Connections by number, and what is left of them.
    async fn crowd(connections: &mut Connections, count: usize) -> Vec<std::sync::Weak<()>> {
        let mut all = Vec::new();
        for _ in 0..count {
            let held = Arc::new(());
            all.push(Arc::downgrade(&held));
            connections
                .add(async move {
                    let _held = held;
                    pending::<()>().await;
                })
                .await;
        }
        all
    }

    #[test]
    fn the_oldest_makes_room_for_the_newest() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut connections = Connections::new(Most::HangUp(3));
            let all = crowd(&mut connections, 5).await;
            let alive: Vec<_> = all.iter().map(|it| it.strong_count() > 0).collect();
            assert_eq!(alive, [false, false, true, true, true]);
        });
    }

    /// What ended by itself is not remembered for ever, though one older than all of them stays.
    #[test]
    fn short_ones_leave_nothing_behind() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut connections = Connections::new(Most::HangUp(3));
            let first = crowd(&mut connections, 1).await;
            let done = Arc::new(Semaphore::new(0));
            for _ in 0..100 {
                let told = Arc::clone(&done);
                connections.add(async move { told.add_permits(1) }).await;
                done.acquire().await.unwrap().forget();
            }
            assert!(connections.order.len() <= 6);
            assert_eq!(first[0].strong_count(), 1);
            let all = crowd(&mut connections, 3).await;
            assert_eq!(first[0].strong_count(), 0);
            assert!(all.iter().all(|it| it.strong_count() == 1));
        });
    }

    #[test]
    fn others_wait_for_their_turn() {
        let runtime = runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let mut connections = Connections::new(Most::Wait(1));
            let gate = Arc::new(Semaphore::new(0));
            let closed = Arc::clone(&gate);
            connections.room().await;
            connections
                .add(async move { closed.acquire().await.unwrap().forget() })
                .await;
            let mut room = core::pin::pin!(connections.room());
            let early = tokio::select! { biased; () = &mut room => true, () = tokio::task::yield_now() => false };
            assert!(!early);
            gate.add_permits(1);
            room.await;
        });
    }
}
