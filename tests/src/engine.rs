//! The engine in a namespace, and when it is done.

use core::time::Duration;
use std::{thread, time::Instant};

use anyhow::{Result, ensure};
use kproxy::engine::{Engine, Wait};
use netns_lab::Namespace;
use nft_batch::{Connection, Transport};
use svc_planner::{
    Config,
    plan::{Family, Transaction},
};

/// How long it may take; a cold load of a big cluster takes seconds.
const PATIENCE: Duration = Duration::from_secs(300);

/// Starts an engine in a namespace, with nothing to do yet.
///
/// # Errors
/// When the kernel refuses.
pub fn start(namespace: &Namespace, config: impl Fn(Family) -> Config) -> Result<Engine> {
    Ok(Engine::new(namespace.run(Connection::open)??, config))
}

/// Sends until the kernel holds what it should; what is only to be tidied up later may be left.
///
/// # Errors
/// When the engine fails.
pub fn settle<T: Transport>(engine: &mut Engine<T>) -> Result<()> {
    sync_up_to(engine, false, |_| ())
}

/// As [`settle`], and shows what is committed.
///
/// # Errors
/// When the engine fails.
pub fn settle_with(engine: &mut Engine, committed: impl FnMut(&Transaction)) -> Result<()> {
    sync_up_to(engine, false, committed)
}

/// Sends until there is nothing to tidy up either, and shows what is committed.
///
/// # Errors
/// When the engine fails.
pub fn rest(engine: &mut Engine, committed: impl FnMut(&Transaction)) -> Result<()> {
    sync_up_to(engine, true, committed)
}

/// Sends until the kernel holds what it should, or until there is nothing to tidy up either.
fn sync_up_to<T: Transport>(
    engine: &mut Engine<T>,
    tidy: bool,
    mut committed: impl FnMut(&Transaction),
) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    while let Wait::Until(time) = engine.sync(|_, transaction| committed(transaction))? {
        if engine.is_complete() && !tidy {
            break;
        }
        ensure!(
            Instant::now() < deadline,
            "the engine is not done after {PATIENCE:?}; it would go on at {time:?}, now is {:?}",
            engine.clock().now()
        );
        // The planner's deadlines are points in time: there is no event to wait for.
        thread::sleep(time.saturating_sub(engine.clock().now()));
    }
    Ok(())
}
