//! The body of `/healthz` and `/livez`.

use core::time::Duration;
use std::collections::BTreeMap;
use std::time::SystemTime;

use serde::Serialize;

use super::family_label;
use crate::proxy::Status;
use crate::timestamp::Timestamp;

/// Field by field as kube-proxy's.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Body {
    /// Now if the answer is 200, else when a family was programmed last.
    last_updated: Timestamp,
    current_time: Timestamp,
    /// Not in `/livez`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_eligible: Option<bool>,
    pub(super) healthy: bool,
    status: BTreeMap<&'static str, FamilyBody>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct FamilyBody {
    last_updated: Timestamp,
    healthy: bool,
}

impl Body {
    pub(super) fn new(
        status: &Status,
        now: Duration,
        patience: Duration,
        time_of_day: impl Fn(Duration) -> SystemTime,
    ) -> Self {
        let mut newest = Duration::ZERO;
        let mut families = BTreeMap::new();
        for family in &status.families {
            let healthy = family.is_in_step(now, patience);
            // Before the first success: the start.
            let success = family.last_success.unwrap_or_default();
            newest = newest.max(success);
            let body = FamilyBody {
                last_updated: Timestamp(time_of_day(success)),
                healthy,
            };
            families.insert(family_label(family.family), body);
        }
        Self {
            last_updated: Timestamp(time_of_day(newest)),
            current_time: Timestamp(time_of_day(now)),
            node_eligible: None,
            healthy: families.values().all(|family| family.healthy),
            status: families,
        }
    }

    /// Marks the body of an answer that all is well.
    pub(super) const fn well(&mut self) {
        self.last_updated = self.current_time;
    }
}

#[cfg(test)]
mod tests {
    use svc_planner::plan::Family;

    use super::*;
    use crate::proxy::{FamilyStatus, NodeStatus};

    /// Parity HZ-1 to HZ-3 and the table above them.
    #[test]
    fn bodies() {
        let at = Duration::from_secs;
        let day = |time| SystemTime::UNIX_EPOCH + time;
        let mut status = Status {
            node: NodeStatus::default(),
            families: vec![
                FamilyStatus::new(Family::Ipv4),
                FamilyStatus::new(Family::Ipv6),
            ],
        };
        let text = |status: &Status, now, eligible: Option<bool>| {
            let mut body = Body::new(status, at(now), at(60), day);
            body.node_eligible = eligible;
            if body.healthy && eligible != Some(false) {
                body.well();
            }
            serde_json::to_string(&body).unwrap()
        };
        // Nothing to do for ever.
        assert_eq!(
            text(&status, 3600, Some(true)),
            "{\"lastUpdated\":\"1970-01-01T01:00:00Z\",\"currentTime\":\"1970-01-01T01:00:00Z\",\
             \"nodeEligible\":true,\"healthy\":true,\"status\":{\
             \"IPv4\":{\"lastUpdated\":\"1970-01-01T00:00:00Z\",\"healthy\":true},\
             \"IPv6\":{\"lastUpdated\":\"1970-01-01T00:00:00Z\",\"healthy\":true}}}"
        );
        // Its node is about to go: 503.
        assert!(
            text(&status, 3600, Some(false))
                .starts_with("{\"lastUpdated\":\"1970-01-01T00:00:00Z\"")
        );
        status.families[1].queued_since = Some(at(40));
        status.families[1].last_success = Some(at(30));
        status.families[0].last_success = Some(at(60));
        assert!(text(&status, 99, None).contains("\"healthy\":true,\"status\""));
        assert_eq!(
            text(&status, 100, None),
            "{\"lastUpdated\":\"1970-01-01T00:01:00Z\",\"currentTime\":\"1970-01-01T00:01:40Z\",\
             \"healthy\":false,\"status\":{\
             \"IPv4\":{\"lastUpdated\":\"1970-01-01T00:01:00Z\",\"healthy\":true},\
             \"IPv6\":{\"lastUpdated\":\"1970-01-01T00:00:30Z\",\"healthy\":false}}}"
        );
    }
}
