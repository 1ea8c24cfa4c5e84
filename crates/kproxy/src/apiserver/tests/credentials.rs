//! Who we say we are.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::fake::{Asked, Fake, Reply};
use super::*;
use crate::apiserver::ClientError;

fn kubeconfig(folder: &Path, server: &str, user: &Json) -> ConnectionOptions {
    let file = folder.join("kubeconfig");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
        "clusters": [{"name": "it", "cluster": {"server": server, "insecure-skip-tls-verify": true}}],
        "users": [{"name": "it", "user": user}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]});
    fs::write(&file, config.to_string()).unwrap();
    ConnectionOptions {
        kubeconfig: Some(file),
        qps: -1.0,
        ..ConnectionOptions::default()
    }
}

/// Lets in who has the token that is in `file` now.
fn guarded(file: &Path) -> Fake {
    let file = file.to_owned();
    Fake::start_secure(move |asked: &Asked| {
        let token = fs::read_to_string(&file).unwrap();
        if asked.header("authorization") != format!("Bearer {}", token.trim()) {
            return Reply::refuse(401, "Unauthorized", "Unauthorized");
        }
        Reply::all(asked, "1", &[])
    })
}

#[test]
fn a_token_that_is_not_accepted_any_more_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let (good, ours) = (folder.path().join("good"), folder.path().join("token"));
    fs::write(&good, "new").unwrap();
    // As written by hand, with a line's end.
    fs::write(&ours, "old\n").unwrap();
    let fake = guarded(&good);
    let options = kubeconfig(folder.path(), &fake.url(), &json!({"tokenFile": "token"}));
    let mut reader = reader(options, quick());
    let board = reader.board();
    let loading = std::thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
    until(|| board.snapshot().iter().all(|it| it.errors >= 1));
    assert!(!loading.is_finished());
    let error = board.snapshot()[0].last_error.clone().unwrap();
    assert!(error.starts_with("401 Unauthorized"), "{error}");
    fs::write(&ours, "new\n").unwrap();
    assert_eq!(loading.join().unwrap(), Loaded::Synced);
}

#[test]
fn an_exec_plugin_is_asked_again_when_its_token_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let [good, plugin, token] = ["good", "plugin", "token"].map(|it| folder.path().join(it));
    fs::write(&good, "new").unwrap();
    fs::write(&token, "old").unwrap();
    let script = format!(
        "#!/bin/sh\n\
         echo '{{\"apiVersion\":\"client.authentication.k8s.io/v1\",\"kind\":\"ExecCredential\",\
         \"status\":{{\"token\":\"'$(cat {})'\"}}}}'\n",
        token.display()
    );
    fs::write(&plugin, script).unwrap();
    fs::set_permissions(&plugin, fs::Permissions::from_mode(0o755)).unwrap();
    let fake = guarded(&good);
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": plugin, "interactiveMode": "Never"}});
    let mut reader = reader(kubeconfig(folder.path(), &fake.url(), &user), quick());
    let (board, facts) = (reader.board(), reader.client().facts());
    let loading = std::thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
    until(|| board.snapshot().iter().all(|it| it.errors >= 1));
    fs::write(&token, "new").unwrap();
    assert_eq!(loading.join().unwrap(), Loaded::Synced);
    let host = fake.address.to_string();
    assert!(facts.requests("401", "GET", &host) >= 4);
    // Not every list is waited for.
    until(|| facts.requests("200", "GET", &host) == 4);
}

#[test]
fn a_kubeconfig_that_changes_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let good = folder.path().join("good");
    fs::write(&good, "new").unwrap();
    let fake = guarded(&good);
    let options = kubeconfig(folder.path(), &fake.url(), &json!({"token": "old"}));
    let mut reader = reader(options, quick());
    let board = reader.board();
    let loading = std::thread::spawn(move || reader.load(&never(), |_| ()).unwrap());
    until(|| board.snapshot().iter().all(|it| it.errors >= 1));
    kubeconfig(folder.path(), &fake.url(), &json!({"token": "new"}));
    assert_eq!(loading.join().unwrap(), Loaded::Synced);
}

#[test]
fn what_is_wrong_with_the_configuration_is_said_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let open = |options| {
        let opened = ApiReader::with_pace(options, None, quick());
        opened.err().unwrap()
    };
    let missing = ConnectionOptions {
        kubeconfig: Some(folder.path().join("none")),
        ..ConnectionOptions::default()
    };
    assert!(matches!(open(missing), ClientError::Kubeconfig { .. }));
    let user = json!({"tokenFile": "none"});
    let token = kubeconfig(folder.path(), "https://192.0.2.1", &user);
    assert!(matches!(open(token), ClientError::Credentials(_)));
    let master = ConnectionOptions {
        master: Some("http://not a host".to_owned()),
        ..ConnectionOptions::default()
    };
    assert!(matches!(open(master), ClientError::Master { .. }));
    let user = json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1",
        "command": "/nonexistent/plugin", "installHint": "ask around", "interactiveMode": "Never"}});
    let plugin = kubeconfig(folder.path(), "https://192.0.2.1", &user);
    let error = open(plugin).to_string();
    assert!(
        error.contains("/nonexistent/plugin: No such file") && error.ends_with("; ask around"),
        "{error}"
    );
}
