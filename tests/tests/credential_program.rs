//! Credentials from a program (`exec` in the kubeconfig), against the real API server: processes have to be
//! started all the time, so that no system call is filtered, and that is said. All else is given up as ever.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    control_plane::{ControlPlane, InPlace, InPlaceOptions, RELAYED},
    folder::Folder,
    takeover::{Traffic, World},
};
use serde_json::{Value as Json, json};

const KPROXY: &str = env!("CARGO_BIN_EXE_kproxy-under-test");

/// A program that prints a token, and notes that it was asked.
fn plugin(folder: &Path) -> Result<Json> {
    let token = ControlPlane::kubeconfig(RELAYED)["users"][0]["user"]["token"].clone();
    let credential = json!({
        "apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
        "status": {"token": token}
    });
    let (path, asked) = (folder.join("plugin"), folder.join("asked"));
    let script = format!(
        "#!/bin/sh\necho asked >>'{}'\necho '{credential}'\n",
        asked.display()
    );
    fs::write(&path, script)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
    Ok(json!({"exec": {
        "apiVersion": "client.authentication.k8s.io/v1", "command": path, "interactiveMode": "Never"
    }}))
}

#[test]
fn it_is_started_and_system_calls_are_not_filtered() -> Result<()> {
    let Some((control, world)) = World::with_cluster()? else {
        return Ok(());
    };
    let folder = Folder::new()?;
    let options = InPlaceOptions {
        node_name: "node-a".to_owned(),
        configuration: vec![("clusterCIDR", json!("10.0.0.0/8,fd00:10::/64"))],
        user: Some(plugin(folder.path())?),
        flags: vec!["--seccomp=kill".to_owned()],
        ..InPlaceOptions::default()
    };
    let mut kproxy = InPlace::start(&control, world.node(), Path::new(KPROXY), &options)?;
    kproxy.until_ready(200)?;
    Traffic::during(world.topology(), || Ok(()))?;
    let log = kproxy.log()?;
    let said = "credentials come from a program: system calls are not filtered (--seccomp off)";
    ensure!(log.contains(said), "{log}");
    let all = |field: &str, value: &str| -> Result<()> {
        let values = kproxy.thread_statuses(field)?;
        ensure!(
            !values.is_empty() && values.iter().all(|it| it == value),
            "{field} {values:?}"
        );
        Ok(())
    };
    all("Seccomp:", "0")?;
    all("NoNewPrivs:", "1")?;
    // CAP_NET_ADMIN and CAP_NET_BIND_SERVICE.
    all("CapEff:", "0000000000001400")?;
    let before = fs::read_to_string(folder.path().join("asked"))?;
    ensure!(!before.is_empty(), "the program was never started");
    // It asks again on new connections if it has to, and goes on.
    drop(kproxy.relay().cut());
    control.mark()?;
    kproxy.until("requests go on", |kproxy| {
        let metrics = kproxy.metrics("/metrics")?.text;
        let calls = metrics
            .lines()
            .find(|line| line.starts_with("rest_client_exec_plugin_call_total{"))
            .context("no plugin was called")?;
        Ok(calls.contains("call_status=\"no_error\""))
    })?;
    Traffic::during(world.topology(), || Ok(()))?;
    ensure!(kproxy.stop()?.success());
    Ok(())
}
