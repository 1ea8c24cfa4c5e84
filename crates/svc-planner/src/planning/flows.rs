//! Which endpoints a frontend led to when it went.

use super::Work;
use crate::model::flow_notes::is_told;

impl Work<'_> {
    /// Notes a frontend whose rows are about to be deleted.
    pub(super) fn note_gone(&mut self, id: u32) {
        let Some(frontend) = self.model.frontends.arena.at(id) else {
            return;
        };
        if !is_told(frontend.key.protocol, self.config.reconcile_sctp) {
            return;
        }
        let group = |number: u32| self.kernel.groups.at(number);
        let own = frontend.route.and_then(|route| group(route.group()));
        let cluster = own
            .and_then(|own| own.facts.shortcuts[0])
            .and_then(|route| group(route.group()));
        let groups = own.into_iter().chain(cluster);
        let endpoints = groups.flat_map(|group| &group.slots).copied().collect();
        self.model.flows.gone.push((frontend.key, endpoints));
    }
}
