//! Where objects come from: each kind of source is read in full once, then followed.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use svc_planner::mailbox::Publisher;
use svc_planner::object::Change;

use super::{Identity, NodeError, Settings};
use crate::apiserver::{ApiBoard, ApiReader, Client, ConnectionOptions, Loaded};
use crate::metrics::Skipped;
use crate::watch::{Reader, Stop};

/// Which source.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum SourceSettings {
    /// The API server.
    Api(ConnectionOptions),
    /// A folder of manifests, watched.
    Folder(PathBuf),
}

/// A source that is open: what changes from then on is not missed.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one")]
pub(super) enum Source {
    Api(ApiReader),
    Folder(Reader),
}

impl Source {
    pub(super) fn open(settings: &Settings) -> Result<Self, NodeError> {
        let node = &settings.node;
        match &settings.source {
            SourceSettings::Api(options) => {
                let name = node.is_needed.then_some(node.name.as_str());
                Ok(Self::Api(ApiReader::new(options.clone(), name)?))
            }
            SourceSettings::Folder(folder) => match Reader::new(folder, &node.name) {
                Ok(reader) => Ok(Self::Folder(reader)),
                Err(error) => Err(NodeError::Folder {
                    folder: folder.clone(),
                    error,
                }),
            },
        }
    }

    /// What could not be used so far.
    pub(super) fn skipped(&self) -> Arc<Skipped> {
        match self {
            Self::Api(reader) => reader.board().skipped(),
            Self::Folder(reader) => reader.skipped(),
        }
    }

    /// The API server, if that is the source.
    pub(super) fn api(&self) -> Option<(Client, ApiBoard)> {
        match self {
            Self::Api(reader) => Some((reader.client(), reader.board())),
            Self::Folder(_) => None,
        }
    }

    /// Reads everything once; false if the order to stop came before that was done.
    pub(super) fn load(
        &mut self,
        node: &Identity,
        stop: &Stop,
        mut on_change: impl FnMut(Change),
    ) -> io::Result<bool> {
        match self {
            // A cluster has Nodes: this one's will come.
            Self::Api(reader) => Ok(reader.load(stop, on_change)? == Loaded::Synced),
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
                Ok(true)
            }
        }
    }

    /// Publishes what changes, until the order to stop, or nobody takes changes any more.
    pub(super) fn run(self, publisher: &Publisher, stop: &Stop) -> io::Result<()> {
        match self {
            Self::Api(reader) => reader.run(publisher, stop),
            Self::Folder(reader) => reader.run(publisher, stop),
        }
    }
}
