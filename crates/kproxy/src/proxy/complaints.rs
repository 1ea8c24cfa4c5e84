//! What is wrong with Services, Node and configuration: said once when it begins and once when it is
//! over.

use std::collections::{BTreeMap, BTreeSet};

use nft_batch::Transport;
use svc_planner::object::{ObjectName, Uid};
use svc_planner::plan::Family;
use svc_planner::report::{Notice, Report};

use super::{History, NotServed};
use crate::engine::{Engine, Interference, TABLE};
use crate::events::{EventType, Recorder};

/// What was said.
#[derive(Debug, Default)]
pub(super) struct Complaints {
    reports: BTreeSet<(Family, Report)>,
    notices: BTreeSet<(Family, Notice)>,
    /// What of it was told as events, by Service and reason.
    faults: BTreeMap<(ObjectName, &'static str), Option<Uid>>,
    /// Whose table is contended.
    fights: Vec<Family>,
    recorder: Option<Recorder>,
}

impl Complaints {
    pub(super) fn recording(self, recorder: Recorder) -> Self {
        Self {
            recorder: Some(recorder),
            ..self
        }
    }

    /// Tells that somebody keeps changing a table back, when that begins.
    pub(super) fn fight(&mut self, family: Family, interference: &Interference) {
        let fights = interference.contended_since.is_some();
        if fights == self.fights.contains(&family) {
            return;
        }
        if !fights {
            return self.fights.retain(|other| *other != family);
        }
        self.fights.push(family);
        if let Some(recorder) = &self.recorder {
            let who = interference.changed_by();
            let note =
                format!("{who} keeps changing table {family} {TABLE} back; end one of the two");
            recorder.node(EventType::Warning, "ForeignTableChanges", "MendTable", note);
        }
    }

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
    pub(super) fn look<T: Transport>(&mut self, engine: &Engine<T>, history: &History) {
        let reports: BTreeSet<_> = engine.reports().into_iter().collect();
        for (family, Report { port, reason }) in reports.difference(&self.reports) {
            tracing::error!("{family}: {port}: {reason}");
        }
        for (family, Report { port, reason }) in self.reports.difference(&reports) {
            tracing::info!("no longer: {family}: {port}: {reason}");
        }
        if reports != self.reports {
            let named = reports.iter();
            history.problems(
                named.map(|(family, Report { port, reason })| {
                    (*family, format!("{port}: {reason}"))
                }),
            );
            self.reports = reports;
            self.record(engine);
        }
    }

    /// Tells faults that are new, and that others are over. Both families, and all ports of a Service,
    /// are one fault if the reason is the same.
    fn record<T: Transport>(&mut self, engine: &Engine<T>) {
        let Some(recorder) = &self.recorder else {
            return;
        };
        let mut faults = BTreeMap::new();
        for (family, Report { port, reason }) in &self.reports {
            let key = (port.service.clone(), reason.name());
            let known = self.faults.get(&key).copied();
            let uid = known.unwrap_or_else(|| engine.service_uid(&port.service));
            if known.is_none() && !faults.contains_key(&key) {
                let note = format!("{family}: {port}: {reason}");
                recorder.fault(&port.service, uid, reason.name(), note);
            }
            faults.insert(key, uid);
        }
        for ((service, reason), uid) in &self.faults {
            if let Some(uid) = uid
                && !faults.contains_key(&(service.clone(), *reason))
            {
                recorder.fault_over(*uid, reason);
            }
        }
        self.faults = faults;
    }

    /// How many Service ports of a family were named last, by reason.
    pub(super) fn count(&self, family: Family) -> NotServed {
        let mut counts = NotServed::default();
        for (_, report) in self.reports.iter().filter(|(it, _)| *it == family) {
            counts.add(&report.reason);
        }
        counts
    }
}
