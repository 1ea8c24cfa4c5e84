//! What is wrong with Services, Node and configuration: said once when it begins and once when it is
//! over.

use std::collections::BTreeSet;

use nft_batch::Transport;
use svc_planner::plan::Family;
use svc_planner::report::Notice;

use crate::engine::Engine;

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    reports: BTreeSet<(Family, String)>,
    notices: BTreeSet<(Family, Notice)>,
}

impl Complaints {
    /// Says what is new about Node and configuration.
    pub(super) fn heed<T: Transport>(&mut self, engine: &Engine<T>) {
        let notices: BTreeSet<_> = engine.notices().collect();
        for (family, notice) in notices.difference(&self.notices) {
            tracing::warn!("{family}: {notice}");
        }
        for (family, notice) in self.notices.difference(&notices) {
            tracing::info!("{family}: no longer: {notice}");
        }
        self.notices = notices;
    }

    /// Says what is new about Services.
    pub(super) fn look<T: Transport>(&mut self, engine: &Engine<T>) {
        let reports: BTreeSet<_> = engine
            .reports()
            .into_iter()
            .map(|(family, report)| (family, format!("{}: {}", report.port, report.reason)))
            .collect();
        for (family, report) in reports.difference(&self.reports) {
            tracing::error!("{family}: {report}");
        }
        for (family, report) in self.reports.difference(&reports) {
            tracing::info!("no longer: {family}: {report}");
        }
        self.reports = reports;
    }

    /// How many Service ports of a family were named last.
    pub(super) fn count(&self, family: Family) -> usize {
        self.reports.iter().filter(|(it, _)| *it == family).count()
    }
}
