//! Faults of the socket under the loop of `run`.

use core::time::Duration;
use std::{collections::BTreeMap, thread, time::Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use e2e::{
    bystander,
    chaos::{Chaos, Fault},
    dice::{self, Dice},
    folder::Folder,
};
use kproxy::{
    engine::{Engine, GuardOptions, Saver, StateDir, Wait},
    netns::Netns,
    proxy::{Periods, Proxy},
};
use nft_batch::{Connection, Socket};
use svc_planner::{Config, object::Change};
use test_support::in_new_netns;

use crate::{
    cluster::{Cluster, FAMILIES, config, sets},
    editor::Editor,
};

/// Rounds, each with faults of its own; with `KPROXY_LONG=1` ten times as many.
const ROUNDS: u64 = 6;
/// How long there are changes and faults in a round.
const CHURN: Duration = Duration::from_secs(4);
/// One batch in so many meets a fault.
const RATES: [u64; 3] = [2, 4, 12];
const PERIODS: Periods = Periods {
    min_sync: Duration::ZERO,
    sync: Duration::from_millis(50),
};
/// How long it may take after the last fault until all is as wanted: a pause or two, and what the
/// machine is slow at.
const BOUND: Duration = Duration::from_secs(60);

/// A proxy whose socket fails, and what it stands for.
struct Bench {
    proxy: Proxy<Chaos>,
    cluster: Cluster,
    dice: Dice,
    folder: Folder,
    rate: u64,
    happened: BTreeMap<Fault, u32>,
}

impl Bench {
    fn new(seed: u64) -> Result<Self> {
        let mut dice = Dice::new(seed);
        let rate = RATES[usize::try_from(dice.below(3))?];
        let folder = Folder::new()?;
        let cluster = Cluster::new();
        Ok(Self {
            proxy: start(&mut dice, &folder, &cluster)?,
            cluster,
            dice,
            folder,
            rate,
            happened: BTreeMap::new(),
        })
    }

    fn socket(&mut self) -> &mut Chaos {
        self.proxy.engine().connection().transport_mut()
    }

    /// Changes and syncs for a while.
    fn churn(&mut self) -> Result<()> {
        let rate = self.rate;
        self.socket().stir(rate);
        let start = Instant::now();
        while start.elapsed() < CHURN {
            for _ in 0..=self.dice.below(4) {
                let change = self.cluster.change(&mut self.dice);
                self.proxy.apply(change);
            }
            self.proxy.sync();
            if self.dice.one_in(100) {
                self.crash()?;
            }
            // Its pace is what is random here.
            thread::sleep(Duration::from_millis(self.dice.below(20)));
        }
        Ok(())
    }

    /// Another process goes on, from whatever was written down.
    fn crash(&mut self) -> Result<()> {
        let happened = self.socket().happened().clone();
        add(&mut self.happened, &happened);
        // The lock goes with the process.
        let (folder, cluster) = (&self.folder, &self.cluster);
        let stopped = start_stopped();
        drop(core::mem::replace(&mut self.proxy, stopped?));
        self.proxy = start(&mut self.dice, folder, cluster)?;
        let rate = self.rate;
        self.socket().stir(rate);
        Ok(())
    }

    /// Nothing fails any more: how long it takes until there is nothing left to do and every packet is
    /// decided as it should be.
    fn settle(&mut self) -> Result<Duration> {
        self.socket().calm();
        let start = Instant::now();
        loop {
            let wait = self.proxy.sync();
            let now = self.proxy.engine().clock().now();
            let families = self.proxy.board().read().families;
            let is_fine = families
                .iter()
                .all(|it| it.failures == 0 && it.queued_since.is_none());
            // What is tidied up is due by then, also if that was refused once; the rest of the waits is
            // the guard's.
            let tidied = now + 11 * Config::default().hold;
            let soon = matches!(wait, Wait::Until(time) if time < tidied);
            let mut verdict = Ok(());
            if is_fine && !soon && self.proxy.engine().is_complete() {
                let settled = start.elapsed();
                // What somebody did last may not have been heard of yet.
                verdict = self.cluster.check_packets();
                if verdict.is_ok() {
                    return Ok(settled);
                }
            }
            ensure!(
                start.elapsed() < BOUND,
                "{verdict:?} after {BOUND:?}: {families:?}, next {wait:?} at {now:?}; {:?}",
                self.proxy.engine().reports()
            );
            if let Wait::Until(time) = wait {
                // Deadlines are points in time: there is no event.
                thread::sleep(time.saturating_sub(now).min(Duration::from_millis(50)));
            }
        }
    }

    /// A process that knows nothing but what was written down finds nothing to do; there are no sets
    /// but those that a new engine makes in a new namespace.
    fn check(mut self) -> Result<BTreeMap<Fault, u32>> {
        let reports = self.proxy.engine().reports();
        ensure!(reports.is_empty(), "not served: {reports:?}");
        let mut held = Vec::new();
        for family in FAMILIES {
            held.push(sets(self.proxy.engine().connection(), family)?);
        }
        let happened = self.socket().happened().clone();
        add(&mut self.happened, &happened);
        self.proxy.finish()?;
        let state = StateDir::look(self.folder.path(), &Netns::Current)?;
        self.cluster.check_saved(&state)?;
        let changes = self.cluster.changes();
        let fresh = isolated(move || fresh(changes))?;
        ensure!(held == fresh, "{held:?}, a new engine {fresh:?}");
        Ok(self.happened)
    }
}

/// The sets of a table made by an engine that nothing happened to.
fn fresh(changes: Vec<Change>) -> Result<Vec<Vec<String>>> {
    let mut engine = Engine::new(Connection::open()?, config);
    for change in changes {
        engine.apply(change);
    }
    e2e::engine::rest(&mut engine, |_| ())?;
    FAMILIES
        .into_iter()
        .map(|family| sets(engine.connection(), family))
        .collect()
}

/// A proxy that has nothing to do with anything, to stand in for one that is dropped.
fn start_stopped() -> Result<Proxy<Chaos>> {
    let connection = Connection::new(Chaos::new(Socket::open()?, 1))?;
    Ok(Proxy::new(
        Engine::new(connection, config),
        Saver::new(None),
        PERIODS,
    ))
}

fn start(dice: &mut Dice, folder: &Folder, cluster: &Cluster) -> Result<Proxy<Chaos>> {
    let chaos = Chaos::new(Socket::open()?, dice.below(u64::MAX));
    let mut engine = Engine::new(Connection::new(chaos)?, config);
    let state = StateDir::open(folder.path(), &Netns::Current)?;
    engine.adopt(Some(&state))?;
    let mut proxy = Proxy::new(engine, Saver::new(Some(state)), PERIODS);
    for change in cluster.changes() {
        proxy.apply(change);
    }
    // Somebody who fights is let go at once, and soon forgiven.
    let options = GuardOptions {
        window: Duration::from_millis(500),
        first_pause: Duration::from_millis(100),
        longest_pause: Duration::from_secs(1),
        ..GuardOptions::default()
    };
    let guarded = proxy.engine().guard(&Netns::Current, options, || ());
    guarded.context("guard")?;
    Ok(proxy)
}

fn add(total: &mut BTreeMap<Fault, u32>, more: &BTreeMap<Fault, u32>) {
    for (fault, count) in more {
        *total.entry(*fault).or_default() += count;
    }
}

/// Runs a test that may fail in a new network namespace.
pub(crate) fn isolated<T: Send + 'static>(
    test: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let (sender, receiver) = std::sync::mpsc::channel();
    in_new_netns(move || drop(sender.send(test())));
    receiver
        .recv()
        .map_err(|_| anyhow!("no network namespace"))?
}

/// What came of a round.
struct Round {
    happened: BTreeMap<Fault, u32>,
    /// Edits by somebody else.
    edits: u32,
    settled: Duration,
}

fn round(seed: u64) -> Result<Round> {
    bystander::load()?;
    let others = bystander::listing()?;
    let mut bench = Bench::new(seed)?;
    let editor = seed
        .is_multiple_of(2)
        .then(|| Editor::start(seed))
        .transpose()?;
    bench.churn()?;
    let edits = editor.map_or(Ok(0), Editor::stop)?;
    let settled = bench.settle()?;
    let happened = bench.check()?;
    ensure!(bystander::listing()? == others, "others' tables: {others}");
    Ok(Round {
        happened,
        edits,
        settled,
    })
}

#[test]
fn whatever_the_socket_does_the_kernel_holds_what_is_wanted() -> Result<()> {
    let first = dice::seed()?;
    let rounds = match (
        std::env::var_os("KPROXY_SEED"),
        std::env::var_os("KPROXY_LONG"),
    ) {
        (Some(_), _) => 1,
        (None, Some(_)) => 10 * ROUNDS,
        (None, None) => ROUNDS,
    };
    let (mut total, mut all_edits) = (BTreeMap::new(), 0);
    for seed in first..first + rounds {
        let round = isolated(move || round(seed));
        let Round {
            happened,
            edits,
            settled,
        } = round.with_context(|| format!("KPROXY_SEED={seed}"))?;
        println!("seed {seed}: settled in {settled:.1?} after {edits} edits and {happened:?}");
        add(&mut total, &happened);
        all_edits += edits;
    }
    // Otherwise it proves little.
    let count: u32 = total.values().sum();
    ensure!(rounds < ROUNDS || total.len() == 17, "only {total:?}");
    ensure!(u64::from(count) > 20 * rounds, "only {count} faults");
    ensure!(rounds < ROUNDS || all_edits > 10, "only {all_edits} edits");
    Ok(())
}
