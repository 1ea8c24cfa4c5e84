//! `kproxy run`.

use core::str::FromStr;
use core::time::Duration;
use std::collections::HashSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread;

use clap::Args;
use svc_planner::mailbox::{self, Receiver, Wake};

use super::{CliError, Exit, ProxyOptions, Target};
use crate::engine::{Engine, EngineError, Saver, Wait};
use crate::watch::{Reader, Signals};

/// First pause after a failure; doubled each time.
const RETRY_FIRST: Duration = Duration::from_secs(1);
/// Longest pause after a failure, kube-proxy's.
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Keep the kernel programmed while manifests change
///
/// A file counts as changed when its writer closes it, so files are best written elsewhere and moved
/// in; mounted ConfigMaps work. A file that can no longer be read keeps serving what it served, and so
/// does the folder when it is gone. A file outside that a link leads to is read with the link only.
///
/// Ends on SIGTERM and SIGINT and leaves the rules in place, so that connections and new flows go
/// on; `kproxy cleanup` removes them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  kproxy run --source dir:/etc/kproxy/manifests --cluster-cidr 10.244.0.0/16
  kproxy run --source dir:manifests --netns blue -v

Exit codes:
  0   asked to end
  1   failed
  64  wrong arguments")]
pub(super) struct Run {
    /// Where Services come from: `dir:PATH`, a folder of YAML and JSON files, watched
    #[arg(long, value_name = "dir:PATH")]
    source: SourceSpec,

    #[command(flatten)]
    target: Target,

    #[command(flatten)]
    proxy: ProxyOptions,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SourceSpec {
    Dir(PathBuf),
}

impl FromStr for SourceSpec {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            Some(("dir", path)) if !path.is_empty() => Ok(Self::Dir(path.into())),
            _ => Err("a source is dir:PATH"),
        }
    }
}

impl Run {
    pub(super) fn run(self) -> Result<Exit, CliError> {
        let SourceSpec::Dir(folder) = &self.source;
        let signals = Signals::new().map_err(CliError::Watch)?;
        let mut engine = Engine::open(&self.target.netns(), |family| self.proxy.config(family))?;
        let state = self.proxy.state(&self.target.netns())?;
        engine.adopt(state.as_ref())?;
        let mut saver = Saver::new(state);
        let reader = Reader::new(folder, signals, &self.proxy.node_name());
        let mut reader = reader.map_err(|error| CliError::Folder {
            folder: folder.clone(),
            error,
        })?;
        // Straight into the engine: nothing is programmed before everything was read once.
        reader.load(|change| engine.apply(change));
        keep_up(reader, &mut engine, &mut saver)?;
        tracing::info!("asked to end; the rules stay");
        saver.finish(&mut engine)?;
        Ok(Exit::Done)
    }
}

/// Reads on one thread, programs on this one, until the process is asked to end or programming is
/// hopeless.
fn keep_up(reader: Reader, engine: &mut Engine, saver: &mut Saver) -> Result<(), CliError> {
    thread::scope(|scope| {
        let (publisher, receiver) = mailbox::open();
        let (running, stop) = UnixStream::pair().map_err(CliError::Watch)?;
        // It owns the publisher: however it ends, this thread hears of it.
        let reading = thread::Builder::new()
            .name("reader".to_owned())
            .spawn_scoped(scope, move || reader.run(&publisher, &stop))
            .map_err(CliError::Watch)?;
        let programmed = program(engine, saver, receiver);
        drop(running);
        let ended = reading
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        programmed?;
        ended.map_err(CliError::Watch)
    })
}

/// Programs what is there and what comes, until nothing will come.
fn program(engine: &mut Engine, saver: &mut Saver, mut changes: Receiver) -> Result<(), CliError> {
    let mut log = Log::default();
    let mut retry = RETRY_FIRST;
    loop {
        let timeout = match engine.sync(|applied, _| tracing::info!("{applied}")) {
            Ok(wait) => {
                retry = RETRY_FIRST;
                log.reports(engine);
                match wait.sooner(saver.idle(engine)) {
                    Wait::Until(time) => Some(time.saturating_sub(engine.clock().now())),
                    Wait::Change => None,
                }
            }
            Err(error) => {
                fatal(&error)?;
                tracing::error!("{error}; next try in {} s", retry.as_secs());
                let pause = retry;
                retry = RETRY_LONGEST.min(retry * 2);
                Some(pause)
            }
        };
        match changes.wait(timeout) {
            Wake::Closed => return Ok(()),
            Wake::Changes => {
                for change in changes.drain() {
                    engine.apply(change);
                }
            }
            Wake::Timeout | Wake::Rung => {}
        }
    }
}

/// Passes on what no second try will cure.
fn fatal(error: &EngineError) -> Result<(), CliError> {
    match error {
        EngineError::Rejected(rejected) if rejected.errno == nft_batch::Errno::EPERM => {
            Err(CliError::Refused(rejected.to_string()))
        }
        _ => Ok(()),
    }
}

/// Says each thing once.
#[derive(Debug, Default)]
struct Log {
    reports: HashSet<String>,
}

impl Log {
    fn reports(&mut self, engine: &Engine) {
        let reports: HashSet<_> = engine
            .reports()
            .into_iter()
            .map(|(family, report)| format!("{family}: {}: {}", report.port, report.reason))
            .collect();
        for report in reports.difference(&self.reports) {
            tracing::error!("{report}");
        }
        for report in self.reports.difference(&reports) {
            tracing::info!("no longer: {report}");
        }
        self.reports = reports;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources() {
        let spec = "dir:/etc/a:b".parse();
        assert_eq!(spec, Ok(SourceSpec::Dir("/etc/a:b".into())));
        for wrong in ["", "dir", "dir:", "/etc", "api:x"] {
            assert!(wrong.parse::<SourceSpec>().is_err(), "{wrong}");
        }
    }
}
