//! Keeps up with a folder of manifests, on a thread of its own.

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::Arc;

use svc_planner::mailbox::Publisher;
use svc_planner::object::Change;

use super::{FolderWatch, wait};
use crate::ingest::Severity;
use crate::manifest::{Input, Source, Stats};
use crate::metrics::Skipped;

/// Reads manifests, first all of them, then those that change, and logs what is wrong with them.
#[derive(Debug)]
pub struct Reader {
    watch: FolderWatch,
    source: Source,
    folder_gone: bool,
    skipped: Arc<Skipped>,
}

impl Reader {
    /// Watches `folder` from here on; of Nodes, only `node_name` matters.
    ///
    /// # Errors
    /// See [`FolderWatch::new`].
    pub fn new(folder: &Path, node_name: &str) -> io::Result<Self> {
        Ok(Self {
            watch: FolderWatch::new(folder)?,
            source: Source::new(node_name),
            folder_gone: false,
            skipped: Arc::default(),
        })
    }

    /// The folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.watch.folder()
    }

    /// What could not be used so far.
    #[must_use]
    pub fn skipped(&self) -> Arc<Skipped> {
        Arc::clone(&self.skipped)
    }

    /// Reads the folder in full. What changes meanwhile is read twice, and not missed.
    pub fn load(&mut self, on_change: impl FnMut(Change)) -> Stats {
        let folder = Input::from(self.watch.folder());
        self.source.load(&folder, on_change);
        self.log_problems();
        self.source.stats()
    }

    /// Publishes what changes, all at once what changed at once, until `stop` is readable or nobody
    /// takes changes any more.
    ///
    /// # Errors
    /// Of waiting for changes.
    pub fn run(mut self, publisher: &Publisher, stop: &impl AsFd) -> io::Result<()> {
        loop {
            let [changed, stopped] = wait([self.watch.as_fd(), stop.as_fd()], None)?;
            if stopped {
                return Ok(());
            }
            if !changed {
                continue;
            }
            let changes = self.watch.drain()?;
            self.log_folder(changes.gone);
            if changes.gone {
                continue;
            }
            let mut batch = Vec::new();
            let folder = self.watch.folder();
            self.source
                .refresh(folder, changes.names(), |change| batch.push(change));
            self.log_problems();
            if publisher.publish_all(batch).is_err() {
                return Ok(());
            }
        }
    }

    fn log_folder(&mut self, gone: bool) {
        let folder = self.watch.folder().display();
        match (self.folder_gone, gone) {
            (false, true) => {
                tracing::error!("{folder}: gone; what it held is kept until it is back");
            }
            (true, false) => tracing::warn!("{folder}: back"),
            _ => {}
        }
        self.folder_gone = gone;
    }

    fn log_problems(&mut self) {
        for problem in self.source.take_problems() {
            match problem.fault.severity() {
                Severity::Warning => tracing::warn!("{problem}"),
                Severity::Error => {
                    self.skipped.count(problem.fault.kind());
                    tracing::error!("{problem}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::{fs, thread};

    use svc_planner::mailbox::{self, Wake};
    use svc_planner::object::ObjectName;

    use super::*;
    use crate::watch::Stop;

    const SERVICE: &str = r#"{"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"], "ports": [{"port": 80}]}}"#;

    #[test]
    fn the_folder_is_read_once_then_its_changes() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("web.json");
        fs::write(&file, SERVICE).unwrap();
        let mut reader = Reader::new(folder.path(), "node").unwrap();
        let mut loaded = Vec::new();
        reader.load(|change| loaded.push(change));
        assert!(matches!(&*loaded, [Change::Service(_)]), "{loaded:?}");

        let (publisher, mut receiver) = mailbox::open();
        let stop = Arc::new(Stop::new().unwrap());
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || reader.run(&publisher, &*stopped));
        fs::remove_file(&file).unwrap();
        assert_eq!(receiver.wait(None), Wake::Changes);
        let gone = Change::ServiceGone(ObjectName {
            namespace: "default".into(),
            name: "web".into(),
        });
        assert_eq!(receiver.drain(), [gone]);
        stop.order();
        assert_eq!(receiver.wait(None), Wake::Closed);
        thread.join().unwrap().unwrap();
    }
}
