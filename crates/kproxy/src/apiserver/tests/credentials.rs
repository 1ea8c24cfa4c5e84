//! Who we say we are.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::fake::{Asked, Fake, Reply, Step, event, whole};
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

/// How many connections to a server this network namespace has.
fn connections(server: &Fake) -> usize {
    let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
    let port = format!(":{:04X}", server.address.port());
    let to_it = |line: &&str| {
        let mut fields = line.split_whitespace().skip(2);
        let remote = fields.next().is_some_and(|remote| remote.ends_with(&port));
        // TCP_ESTABLISHED
        remote && fields.next() == Some("01")
    };
    table.lines().filter(to_it).count()
}

/// As the kubelet does it about once an hour.
#[test]
fn a_token_that_is_replaced_ends_no_watch_and_the_old_connection_goes_with_the_last_one() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    fs::write(&token, "old").unwrap();
    let (send, later) = tokio::sync::mpsc::unbounded_channel();
    let later = once([later]);
    let fake = Fake::start_secure(move |asked: &Asked| {
        if asked.kind() == Kind::Service && asked.is_list() {
            let all = Step::Bytes(whole(asked, "5", &two()));
            return Reply::body(asked, [all, Step::Later(later().unwrap())]);
        }
        if asked.is_list() {
            return Reply::body(asked, [Step::Bytes(whole(asked, "5", &[]))]);
        }
        // Has others come again until they bring the new one.
        let stays = asked.header("authorization") == "Bearer new";
        Reply::body(asked, stays.then_some(Step::Hang))
    });
    let options = kubeconfig(folder.path(), &fake.url(), &json!({"tokenFile": "token"}));
    let mut running = Running::start(reader(options, quick()));
    fs::write(&token, "new").unwrap();
    let renewed = |kind| {
        let last = fake.asked(kind).pop().unwrap();
        last.header("authorization") == "Bearer new"
    };
    until(|| renewed(Kind::EndpointSlice) && renewed(Kind::Node));
    let first = fake.asked(Kind::Service).remove(0);
    assert!(fake.asked(Kind::Node).pop().unwrap().connection != first.connection);
    let change = event(&first, "DELETED", &service("a", 6, "10.96.0.1"));
    send.send(change).unwrap();
    assert_eq!(running.all(3)[2..], ["a gone"]);
    assert_eq!(fake.asked(Kind::Service).len(), 1);
    until(|| connections(&fake) == 2);
    drop(send);
    until(|| renewed(Kind::Service) && connections(&fake) == 1);
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
