//! Where objects come from: each kind of source is read in full once, then followed.

use std::io;
use std::path::PathBuf;

use svc_planner::mailbox::Publisher;
use svc_planner::object::Change;

use super::{Identity, NodeError, Settings};
use crate::watch::{Reader, Stop};

/// Which source.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum SourceSettings {
    /// A folder of manifests, watched.
    Folder(PathBuf),
}

/// A source that is open: what changes from then on is not missed.
#[derive(Debug)]
pub(super) enum Source {
    Folder(Reader),
}

impl Source {
    pub(super) fn open(settings: &Settings) -> Result<Self, NodeError> {
        match &settings.source {
            SourceSettings::Folder(folder) => match Reader::new(folder, &settings.node.name) {
                Ok(reader) => Ok(Self::Folder(reader)),
                Err(error) => Err(NodeError::Folder {
                    folder: folder.clone(),
                    error,
                }),
            },
        }
    }

    /// Reads everything once.
    pub(super) fn load(&mut self, node: &Identity, mut on_change: impl FnMut(Change)) {
        match self {
            Self::Folder(reader) => {
                let read = reader.load(&mut on_change);
                if node.is_needed && !node.is_named && read.nodes == 0 {
                    tracing::warn!(
                        "no Node in {}, and none is named: node ports are served on all addresses, \
                         as with --no-node",
                        reader.folder().display()
                    );
                    on_change(node.stand_in());
                }
            }
        }
    }

    /// Publishes what changes, until the order to stop, or nobody takes changes any more.
    pub(super) fn run(self, publisher: &Publisher, stop: &Stop) -> io::Result<()> {
        match self {
            Self::Folder(reader) => reader.run(publisher, stop),
        }
    }
}
