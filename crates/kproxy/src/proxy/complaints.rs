//! What is wrong with Services, said once when it begins and once when it is over.

use std::collections::BTreeSet;

use nft_batch::Transport;

use crate::engine::Engine;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    reports: BTreeSet<String>,
}

impl Complaints {
    /// Says what is new.
    pub(super) fn look<T: Transport>(&mut self, engine: &Engine<T>) {
        let reports: BTreeSet<_> = engine
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
