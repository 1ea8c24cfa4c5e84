//! One event, as the API has it (`events.k8s.io/v1`).

use core::fmt::Write as _;
use std::time::SystemTime;

use serde_json::json;
use svc_planner::object::{ObjectName, Uid};

use crate::timestamp::Timestamp;

/// kube-proxy's name: who looks for its events finds ours.
const CONTROLLER: &str = "kube-proxy";
/// Longest `note` that the API takes, in bytes.
const NOTE_MAX: usize = 1024;
/// Where events of objects without a namespace are.
const DEFAULT: &str = "default";

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventType {
    /// It is as it should be.
    Normal,
    /// Somebody should look.
    Warning,
}

/// What it is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Regarding {
    /// A Node, by its name, which is the uid that kubelet and kube-proxy name as well.
    Node(Box<str>),
    /// A Service.
    Service(ObjectName, Option<Uid>),
}

/// An event that is to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// `metadata.name`.
    pub name: String,
    /// How bad it is.
    pub kind: EventType,
    /// What it is about.
    pub regarding: Regarding,
    /// Why, one word.
    pub reason: &'static str,
    /// What was done, one word.
    pub action: &'static str,
    /// Why, for people.
    pub note: String,
    /// When.
    pub time: SystemTime,
    /// Who says so: the node's name.
    pub node: Box<str>,
}

impl Event {
    /// Its namespace: that of what it is about.
    #[must_use]
    pub fn namespace(&self) -> &str {
        match &self.regarding {
            Regarding::Node(_) => DEFAULT,
            Regarding::Service(name, _) => &name.namespace,
        }
    }

    /// Where it is created.
    #[must_use]
    pub fn path(&self) -> String {
        format!(
            "/apis/events.k8s.io/v1/namespaces/{}/events",
            self.namespace()
        )
    }

    /// The object.
    #[must_use]
    pub fn object(&self) -> serde_json::Value {
        let regarding = match &self.regarding {
            Regarding::Node(name) => json!({"kind": "Node", "name": name, "uid": name}),
            Regarding::Service(ObjectName { namespace, name }, uid) => json!({
                "kind": "Service", "apiVersion": "v1", "namespace": namespace, "name": name,
                "uid": uid.map(|uid| uid.to_string()).unwrap_or_default(),
            }),
        };
        json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": {"name": self.name, "namespace": self.namespace()},
            "eventTime": Timestamp(self.time).micros().to_string(),
            "type": match self.kind {
                EventType::Normal => "Normal",
                EventType::Warning => "Warning",
            },
            "reason": self.reason, "action": self.action, "note": short(&self.note),
            "regarding": regarding,
            "reportingController": CONTROLLER,
            "reportingInstance": format!("{CONTROLLER}-{}", self.node),
        })
    }
}

/// Name of the event about a fault of a Service, the same on every node: the Service's name, its uid
/// and the reason, `CamelCase` as `camel-case`.
pub(super) fn fault_name(service: &str, uid: Uid, reason: &str) -> String {
    let mut name = format!("{service}.{uid}.");
    for (position, letter) in reason.chars().enumerate() {
        if letter.is_ascii_uppercase() && position > 0 {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

/// Name of an event of this node: what it is about, and a number that no other has.
pub(super) fn own_name(regarding: &Regarding, number: u64) -> String {
    let mut name = match regarding {
        Regarding::Node(name) => name.to_string(),
        Regarding::Service(name, _) => name.name.to_string(),
    };
    // Names have 253 bytes at most, of one byte a letter; a number has 16 digits at most.
    name.truncate(230);
    let name_end = name.trim_end_matches(['-', '.']).len();
    name.truncate(name_end);
    // Writing to a string does not fail.
    let _ = write!(name, ".{number:x}");
    name
}

/// A note that is not too long.
fn short(note: &str) -> &str {
    let mut end = note.len().min(NOTE_MAX);
    while !note.is_char_boundary(end) {
        end -= 1;
    }
    note.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn an_event_is_written_as_the_api_has_it() {
        let uid = Uid::parse("0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0").unwrap();
        let service = ObjectName {
            namespace: "shop".into(),
            name: "web".into(),
        };
        let event = Event {
            name: fault_name("web", uid, "SourceRangesFull"),
            kind: EventType::Warning,
            regarding: Regarding::Service(service, Some(uid)),
            reason: "SourceRangesFull",
            action: "Serve",
            note: "é".repeat(600),
            time: SystemTime::UNIX_EPOCH + Duration::from_nanos(1_500_000_999),
            node: "n1".into(),
        };
        assert_eq!(
            event.path(),
            "/apis/events.k8s.io/v1/namespaces/shop/events"
        );
        let object = event.object();
        assert_eq!(
            object["metadata"]["name"],
            "web.0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0.source-ranges-full"
        );
        assert_eq!(object["eventTime"], "1970-01-01T00:00:01.500000Z");
        assert_eq!(
            object["regarding"]["uid"],
            "0f1e2d3c-4b5a-6978-8796-a5b4c3d2e1f0"
        );
        assert_eq!(object["note"].as_str().unwrap().len(), 1024);
        assert_eq!(object["reportingInstance"], "kube-proxy-n1");

        let node = Regarding::Node("n1".into());
        assert_eq!(own_name(&node, 255), "n1.ff");
    }
}
