//! The API server's own record of what it was asked, by whom, and what it answered.

use std::{fs, path::Path};

use anyhow::{Context as _, Result};
use serde_json::Value as Json;

/// See the module.
#[derive(Debug, Clone)]
pub struct Audit {
    entries: Vec<Entry>,
}

/// One stage of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Name of the user.
    pub user: String,
    /// Which of the user's credentials it was, if that has a name.
    pub credential: Option<String>,
    /// What is wanted: `list`, `watch`, `create` …
    pub verb: String,
    /// API group, empty for the core.
    pub group: String,
    /// Plural of the kind.
    pub resource: String,
    /// Path and query.
    pub uri: String,
    /// HTTP status; none while it is not known.
    pub code: Option<u64>,
    /// Whether the user may not do that.
    pub forbidden: bool,
}

impl Audit {
    pub(super) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
        // The last line may be half written.
        let lines = text
            .split_inclusive('\n')
            .filter(|line| line.ends_with('\n'));
        let entries = lines.map(|line| Ok(Entry::of(&serde_json::from_str(line)?)));
        Ok(Self {
            entries: entries.collect::<Result<_>>()?,
        })
    }

    /// What a user asked, oldest first.
    pub fn of<'a>(&'a self, user: &'a str) -> impl Iterator<Item = &'a Entry> {
        self.entries.iter().filter(move |entry| entry.user == user)
    }

    /// All of it, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

impl Entry {
    fn of(event: &Json) -> Self {
        let text = |value: &Json| value.as_str().unwrap_or_default().to_owned();
        let user = &event["user"];
        let credential = &user["extra"]["authentication.kubernetes.io/credential-id"][0];
        let code = event["responseStatus"]["code"].as_u64();
        Self {
            user: text(&user["username"]),
            credential: credential.as_str().map(str::to_owned),
            verb: text(&event["verb"]),
            group: text(&event["objectRef"]["apiGroup"]),
            resource: text(&event["objectRef"]["resource"]),
            uri: text(&event["requestURI"]),
            code,
            forbidden: event["annotations"]["authorization.k8s.io/decision"] == "forbid",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn entries_say_who_may_not() {
        let entry = Entry::of(&json!({
            "verb": "list", "requestURI": "/api/v1/nodes?limit=1",
            "user": {"username": "u", "extra": {
                "authentication.kubernetes.io/credential-id": ["JTI=7"]}},
            "objectRef": {"resource": "nodes"},
            "responseStatus": {"code": 403},
            "annotations": {"authorization.k8s.io/decision": "forbid"}
        }));
        assert_eq!(
            (&*entry.user, entry.code, entry.forbidden),
            ("u", Some(403), true)
        );
        assert_eq!(entry.credential.as_deref(), Some("JTI=7"));
    }
}
