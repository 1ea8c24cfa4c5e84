//! Manifests in the API server, and what it makes of them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value as Json, json};

use super::trial::{Trial, TrialStep};
use crate::{
    control_plane::{
        ControlPlane, Key, MARKER_NAMESPACE, Method, Request, Response, namespace_request,
    },
    folder::Folder,
};

/// Lists that are read back: file name and path.
const LISTS: [(&str, &str); 4] = [
    ("cidrs.json", "/apis/networking.k8s.io/v1/servicecidrs"),
    ("nodes.json", "/api/v1/nodes"),
    ("services.json", "/api/v1/services"),
    ("slices.json", "/apis/discovery.k8s.io/v1/endpointslices"),
];

/// The objects of a trial; all deleted by [`Cluster::clear`].
#[derive(Debug)]
pub struct Cluster<'a> {
    control: &'a ControlPlane,
    /// Which objects each file holds.
    files: BTreeMap<String, Vec<Key>>,
    /// Objects that the API server has.
    present: BTreeSet<Key>,
    namespaces: BTreeSet<String>,
    refused: Vec<String>,
}

impl<'a> Cluster<'a> {
    /// No objects yet.
    #[must_use]
    pub fn new(control: &'a ControlPlane) -> Self {
        Self {
            control,
            files: BTreeMap::new(),
            present: BTreeSet::new(),
            namespaces: BTreeSet::from([String::new(), "default".to_owned()]),
            refused: Vec::new(),
        }
    }

    /// Makes the own Node, as its kubelet would, unless the trial's first step does.
    pub(super) fn provide_node(&mut self, trial: &Trial) -> Result<()> {
        let written = trial
            .steps
            .first()
            .into_iter()
            .flat_map(|step| step.write.values());
        for text in written {
            for object in documents(text)? {
                if object["kind"] == "Node" && object["metadata"]["name"] == *trial.node.name {
                    return Ok(());
                }
            }
        }
        let addresses = trial.node.addresses.iter();
        let addresses = addresses.map(|address| json!({"type": "InternalIP", "address": address}));
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": trial.node.name},
            "status": {"addresses": addresses.take(1).collect::<Vec<_>>()}
        });
        self.files.insert(String::new(), vec![Key::of(&node)?]);
        self.put(&node)
    }

    /// Writes what a step changes. What the API server refuses is left as it was.
    ///
    /// # Errors
    /// When a manifest is malformed, or the API server cannot be reached.
    pub fn apply(&mut self, step: &TrialStep) -> Result<()> {
        let mut written = Vec::new();
        for (file, text) in &step.write {
            let objects = documents(text).with_context(|| file.clone())?;
            let keys = objects.iter().map(Key::of).collect::<Result<Vec<_>>>()?;
            self.files.insert(file.clone(), keys);
            written.extend(objects);
        }
        for file in &step.remove {
            ensure!(
                self.files.remove(file).is_some(),
                "no file {file} to remove"
            );
        }
        let wanted: BTreeSet<_> = self.files.values().flatten().cloned().collect();
        let gone: Vec<_> = self.present.difference(&wanted).cloned().collect();
        for key in gone {
            self.delete(&key)?;
        }
        written.iter().try_for_each(|object| self.put(object))
    }

    /// Writes the objects as the API server has them into a folder.
    pub(super) fn read_back(&self, folder: &Folder) -> Result<()> {
        let requests = LISTS.map(|(_, path)| Request::new(Method::Get, path));
        let responses = self.control.client().send(&requests)?;
        for ((file, path), response) in LISTS.into_iter().zip(responses) {
            ensure!(response.is_ok(), "{path}: {}", response.message());
            let mut list: Json = serde_json::from_str(&response.body)?;
            if let Some(items) = list["items"].as_array_mut() {
                items.retain(|item| item["metadata"]["namespace"] != *MARKER_NAMESPACE);
            }
            folder.write(file, &list.to_string())?;
        }
        Ok(())
    }

    /// Deletes everything; returns what was refused.
    ///
    /// # Errors
    /// When the API server cannot be reached.
    pub fn clear(mut self) -> Result<Vec<String>> {
        for key in self.present.clone() {
            self.delete(&key)?;
        }
        Ok(self.refused)
    }

    fn put(&mut self, object: &Json) -> Result<()> {
        let key = Key::of(object)?;
        self.provide_namespace(&key.namespace)?;
        let mut response = if self.present.contains(&key) {
            self.send(Method::Put, key.path()?, object)?
        } else {
            self.send(Method::Post, key.collection()?, object)?
        };
        // A field that cannot be changed: whoever wants it changed makes the object anew.
        if response.code == 422 && self.present.contains(&key) && is_about_change(&response) {
            self.delete(&key)?;
            response = self.send(Method::Post, key.collection()?, object)?;
        }
        if !response.is_ok() {
            let Key {
                kind,
                namespace,
                name,
            } = &key;
            self.refused
                .push(format!("{kind} {namespace}/{name}: {}", response.message()));
            return Ok(());
        }
        self.present.insert(key.clone());
        if matches!(key.kind.as_str(), "Service" | "Node") {
            self.put_status(&key, object, &response)?;
        }
        Ok(())
    }

    /// Status is written apart from the rest.
    fn put_status(&self, key: &Key, object: &Json, written: &Response) -> Result<()> {
        let mut current: Json = serde_json::from_str(&written.body)?;
        let wanted = match &object["status"] {
            Json::Null => json!({}),
            status => status.clone(),
        };
        if key.kind == "Service" && current["status"]["loadBalancer"] == wanted["loadBalancer"] {
            return Ok(());
        }
        current["status"] = wanted;
        let response = self.send(Method::Put, format!("{}/status", key.path()?), &current)?;
        ensure!(
            response.is_ok(),
            "status of {}: {}",
            key.name,
            response.message()
        );
        Ok(())
    }

    fn delete(&mut self, key: &Key) -> Result<()> {
        let request = Request::new(Method::Delete, key.path()?);
        let response = self.control.client().send_one(&request)?;
        ensure!(
            response.is_ok() || response.code == 404,
            "delete {}: {}",
            key.name,
            response.message()
        );
        self.present.remove(key);
        Ok(())
    }

    fn provide_namespace(&mut self, name: &str) -> Result<()> {
        if self.namespaces.insert(name.to_owned()) {
            let response = self.control.client().send_one(&namespace_request(name))?;
            // There already: an earlier trial's.
            ensure!(
                response.is_ok() || response.code == 409,
                "{}",
                response.message()
            );
        }
        Ok(())
    }

    fn send(&self, method: Method, path: String, object: &Json) -> Result<Response> {
        let request = Request::new(method, path).with(object.clone());
        self.control.client().send_one(&request)
    }
}

/// Whether an object is refused for what it was before.
fn is_about_change(response: &Response) -> bool {
    let message = response.message();
    [
        "immutable",
        "may not change",
        "cannot be changed",
        "may not be unset",
        "can not be",
    ]
    .iter()
    .any(|words| message.contains(words))
}

/// Objects of a manifest, with their namespaces.
fn documents(text: &str) -> Result<Vec<Json>> {
    let mut objects = Vec::new();
    for document in text.split("\n---") {
        if document.trim().is_empty() {
            continue;
        }
        let object: Json = serde_saphyr::from_str(document)?;
        match object["items"].as_array() {
            Some(items) => objects.extend(items.iter().cloned()),
            None => objects.push(object),
        }
    }
    objects.retain(|object| !object.is_null());
    for object in &mut objects {
        let namespaced = matches!(object["kind"].as_str(), Some("Service" | "EndpointSlice"));
        if namespaced && object["metadata"]["namespace"].is_null() {
            object["metadata"]["namespace"] = json!("default");
        }
    }
    Ok(objects)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_and_lists_are_split() {
        let text = "kind: Service\nmetadata: {name: a}\n---\nkind: List\nitems:\n\
                    - kind: Node\n  metadata: {name: b}\n---\n";
        let keys: Vec<_> = documents(text)
            .unwrap()
            .iter()
            .map(|object| Key::of(object).unwrap())
            .collect();
        assert_eq!(keys.len(), 2);
        assert_eq!(
            (keys[0].namespace.as_str(), keys[0].name.as_str()),
            ("default", "a")
        );
        assert_eq!(
            (keys[1].namespace.as_str(), keys[1].name.as_str()),
            ("", "b")
        );
    }
}
