//! Taking down what goes over the engine's socket.

use std::path::PathBuf;

use nft_batch::record::{Recorder, Section};

use super::{Engine, EngineError};

/// A recording that `nft-replay` shows and replays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// Where it goes, a pcapng file; with `.1` appended the part before.
    pub file: PathBuf,
    /// Bytes of both files together.
    pub limit: u64,
}

impl Engine {
    /// Takes down every datagram to nf_tables and from it, from now on. A recording that cannot go on
    /// ends, the engine does not.
    ///
    /// # Errors
    /// [`EngineError::Record`] when the file cannot be made.
    pub fn record(&mut self, recording: &Recording) -> Result<(), EngineError> {
        let section = Section::here(concat!("kproxy ", env!("CARGO_PKG_VERSION")));
        let shown = recording.file.display().to_string();
        let stopped = move |error: &std::io::Error| {
            tracing::warn!("{shown}: {error}: the recording ends here");
        };
        let recorder = Recorder::create(&recording.file, Some(recording.limit), section, stopped)
            .map_err(|error| EngineError::Record {
            path: recording.file.clone(),
            error,
        })?;
        self.connection().transport_mut().record(Some(recorder));
        Ok(())
    }
}
