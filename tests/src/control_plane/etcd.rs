//! Starting etcd, and having it forget.

use std::{path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};
use netns_lab::Namespace;
use serde_json::{Value as Json, json};

use super::find;
use crate::program::Program;

const CLIENTS: &str = "http://127.0.0.1:2379";
const PEERS: &str = "http://127.0.0.1:2380";

pub(super) fn start(namespace: &Namespace, folder: &Path) -> Result<Program> {
    let mut command = Command::new(find("etcd")?);
    command
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", CLIENTS])
        .args(["--advertise-client-urls", CLIENTS])
        .args(["--listen-peer-urls", PEERS])
        .args(["--unsafe-no-fsync", "--log-level", "warn"]);
    Program::start(namespace, command, &folder.join("etcd.log"))
}

/// Compacts at the newest revision.
pub(super) fn compact(namespace: &Namespace) -> Result<()> {
    // `AA==` is the key of one byte 0, which nobody has: only the header is of interest.
    let found = call(namespace, "/v3/kv/range", &json!({"key": "AA=="}))?;
    let revision = &found["header"]["revision"];
    ensure!(revision.is_string(), "etcd has no revision: {found}");
    let body = json!({"revision": revision, "physical": true});
    call(namespace, "/v3/kv/compaction", &body)?;
    Ok(())
}

/// Its API over HTTP.
fn call(namespace: &Namespace, path: &str, body: &Json) -> Result<Json> {
    let mut curl = Command::new("curl");
    curl.args(["--silent", "--show-error", "--fail-with-body", "--data"])
        .arg(body.to_string())
        .arg(format!("{CLIENTS}{path}"));
    let output = namespace
        .run(move || curl.output())?
        .context("start curl")?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(
        output.status.success(),
        "etcd: {path}: {text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&text).with_context(|| format!("etcd: {text}"))
}
