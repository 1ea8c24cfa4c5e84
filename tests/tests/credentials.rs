//! Who kproxy says it is, to a real API server that asks RBAC: client certificates, tokens, plugins,
//! the authority that the server itself is known by, and that each may be replaced at any time.

use core::time::Duration;
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::Instant,
};

use anyhow::{Result, bail, ensure};
use e2e::{
    control_plane::{
        ClientCertificate, ControlPlane, Method, Options, RELAYED, Relay, Request, Token,
    },
    folder::Folder,
    reading::Reading,
};
use kproxy::apiserver::PROTOBUF;
use netns_lab::Namespace;
use serde_json::{Value as Json, json};
use svc_planner::{object::Change, plan::Key};

/// The user of kubeadm's client certificates for kube-proxy; RBAC knows it as a node proxier.
const USER: &str = "system:kube-proxy";
const ACCOUNT: &str = "node-proxy";
const PATIENCE: Duration = Duration::from_secs(180);

struct Stage {
    control: ControlPlane,
    node: Namespace,
    relay: Relay,
    folder: Folder,
}

impl Stage {
    fn start() -> Result<Option<Self>> {
        if !ControlPlane::available_or_skip() {
            return Ok(None);
        }
        let control = ControlPlane::start_with(Options {
            rbac: true,
            ..Options::default()
        })?;
        let node = Namespace::new("node")?;
        let relay = control.relay_to(&node)?;
        let stage = Self {
            control,
            node,
            relay,
            folder: Folder::new()?,
        };
        stage.trust_the_server()?;
        Ok(Some(stage))
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes down which certificate the server is known by.
    fn trust_the_server(&self) -> Result<()> {
        put(&self.file("ca.crt"), &self.control.certificate()?)
    }

    fn kubeconfig(&self, user: &Json) -> Result<PathBuf> {
        let path = self.file("kubeconfig");
        let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://{RELAYED}"), "certificate-authority": "ca.crt"}}],
            "users": [{"name": "it", "user": user}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]});
        put(&path, &config.to_string())?;
        Ok(path)
    }

    fn read(&self, user: &Json) -> Result<Reading> {
        Reading::start(&self.node, self.kubeconfig(user)?, PROTOBUF)
    }

    /// What is written now arrives.
    fn follow(&self, reading: &mut Reading) -> Result<()> {
        let [(_, Key::Frontend { port: new, .. }), _] = self.control.mark()? else {
            bail!("the marker has no frontend");
        };
        reading.until(|change| {
            matches!(change, Change::Service(it) if &*it.name.name == "marker" && it.ports[0].port == new)
        })?;
        Ok(())
    }

    /// Whether a watch began with a credential, as the server wrote down.
    fn has_used(&self, credential: &str) -> Result<bool> {
        let audit = self.control.audit()?;
        Ok(audit
            .entries()
            .iter()
            .any(|entry| entry.verb == "watch" && entry.credential.as_deref() == Some(credential)))
    }

    /// Breaks connections until a watch begins with a credential: files are not looked at all the time.
    fn until_used(&self, reading: &mut Reading, credential: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.has_used(credential)? {
            ensure!(Instant::now() < deadline, "{credential} is not used");
            drop(self.relay.cut());
            self.follow(reading)?;
        }
        Ok(())
    }

    /// Breaks connections until the server has refused as many requests as `more` says.
    fn until_refused(&self, reading: &Reading, more: u64) -> Result<()> {
        let refused = || reading.facts.requests("401", "GET", RELAYED);
        let deadline = Instant::now() + PATIENCE;
        while refused() < more {
            ensure!(Instant::now() < deadline, "it is not refused");
            drop(self.relay.cut());
            // Nobody tells when the server has read its files, nor when a client was refused.
            std::thread::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// An account that may do what kube-proxy may.
    fn make_account(&self) -> Result<()> {
        let namespace = "/api/v1/namespaces/kube-system/serviceaccounts";
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": ACCOUNT},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                "name": "system:node-proxier"},
            "subjects": [{"kind": "ServiceAccount", "namespace": "kube-system", "name": ACCOUNT}]});
        let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
        for request in [
            Request::new(Method::Post, namespace).with(
                json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT}}),
            ),
            Request::new(Method::Post, bindings).with(binding),
        ] {
            let response = self.control.client().send_one(&request)?;
            ensure!(response.is_ok(), "{}", response.message());
        }
        Ok(())
    }

    fn token(&self) -> Result<Token> {
        self.control.token("kube-system", ACCOUNT)
    }
}

/// Replaces a file in one step.
fn put(path: &Path, text: &str) -> Result<()> {
    let new = path.with_extension("new");
    fs::write(&new, text)?;
    fs::rename(new, path)?;
    Ok(())
}

/// Standard base64 (RFC 4648, section 4).
fn base64(text: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    for chunk in text.as_bytes().chunks(3) {
        let byte = |at: usize| u32::from(chunk.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for at in 0..4 {
            if at > chunk.len() {
                out.push('=');
            } else {
                let index = usize::try_from(bits >> (18 - 6 * at) & 63).unwrap_or_default();
                out.push(char::from(ALPHABET[index]));
            }
        }
    }
    out
}

/// A way to hand a client certificate over; how it is handed over again is how it began.
type HandOver = fn(&Stage, &ClientCertificate) -> Result<Json>;

fn as_files(stage: &Stage, client: &ClientCertificate) -> Result<Json> {
    // One after the other: for a moment they do not fit each other.
    put(&stage.file("client.crt"), &client.certificate)?;
    put(&stage.file("client.key"), &client.key)?;
    Ok(json!({"client-certificate": "client.crt", "client-key": "client.key"}))
}

/// Both in one file behind a link, as the kubelet rotates its own.
fn as_linked_file(stage: &Stage, client: &ClientCertificate) -> Result<Json> {
    let name = client.id().replace('=', "-");
    let both = format!("{}{}", client.certificate, client.key);
    fs::write(stage.file(&name), both)?;
    let new = stage.file("current.new");
    symlink(name, &new)?;
    fs::rename(new, stage.file("current.pem"))?;
    Ok(json!({"client-certificate": "current.pem", "client-key": "current.pem"}))
}

fn as_data(stage: &Stage, client: &ClientCertificate) -> Result<Json> {
    let user = json!({"client-certificate-data": base64(&client.certificate),
        "client-key-data": base64(&client.key)});
    stage.kubeconfig(&user)?;
    Ok(user)
}

/// A program that prints whatever `credential` holds, once it has seen which server it is for.
fn plugin(stage: &Stage) -> Result<Json> {
    let script = stage.file("plugin");
    let text = format!(
        "#!/bin/sh\ncase \"$KUBERNETES_EXEC_INFO\" in *{RELAYED}*) cat {} ;; *) exit 3 ;; esac\n",
        stage.file("credential").display()
    );
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(
        json!({"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": script,
        "interactiveMode": "Never", "provideClusterInfo": true}}),
    )
}

/// What the plugin prints.
fn plugin_gives(stage: &Stage, status: &Json) -> Result<()> {
    let credential = json!({"apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential", "status": status});
    put(&stage.file("credential"), &credential.to_string())
}

fn from_a_plugin(stage: &Stage, client: &ClientCertificate) -> Result<Json> {
    let status = json!({"clientCertificateData": client.certificate, "clientKeyData": client.key});
    plugin_gives(stage, &status)?;
    plugin(stage)
}

#[test]
fn client_certificates_are_used_and_replaced() -> Result<()> {
    let Some(stage) = Stage::start()? else {
        return Ok(());
    };
    let certify = || stage.control.certify(USER, "anybody");
    let ways: [HandOver; 3] = [as_files, as_linked_file, as_data];
    for hand_over in ways {
        let [first, second] = [certify()?, certify()?];
        let mut reading = stage.read(&hand_over(&stage, &first)?)?;
        assert!(stage.has_used(first.id())?);
        stage.follow(&mut reading)?;
        hand_over(&stage, &second)?;
        stage.until_used(&mut reading, second.id())?;
    }
    // Those that are not replaced before they are worthless are, when they are refused.
    for hand_over in [as_files as HandOver, from_a_plugin] {
        let first = certify()?;
        let mut reading = stage.read(&hand_over(&stage, &first)?)?;
        assert!(stage.has_used(first.id())?);
        stage.follow(&mut reading)?;
        stage.control.replace_authority()?;
        stage.until_refused(&reading, 4)?;
        let second = certify()?;
        hand_over(&stage, &second)?;
        stage.follow(&mut reading)?;
        assert!(stage.has_used(second.id())?);
    }
    Ok(())
}

#[test]
fn a_user_who_may_do_nothing_is_told_so() -> Result<()> {
    let Some(stage) = Stage::start()? else {
        return Ok(());
    };
    let nobody = stage.control.certify("nobody", "nobodies")?;
    let user = as_files(&stage, &nobody)?;
    let kubeconfig = stage.kubeconfig(&user)?;
    let loading = Reading::begin(&stage.node, kubeconfig, PROTOBUF)?;
    let deadline = Instant::now() + PATIENCE;
    let refused = || {
        let kinds = loading.board.snapshot();
        kinds.iter().all(|it| {
            it.last_error
                .as_ref()
                .is_some_and(|error| error.contains("403") && error.contains("nobody"))
        })
    };
    while !refused() {
        ensure!(Instant::now() < deadline, "{:?}", loading.board.snapshot());
        // A board is looked at; it tells nobody.
        std::thread::sleep(Duration::from_millis(100));
    }
    // Whoever may is let in, without a restart.
    let somebody = stage.control.certify(USER, "anybody")?;
    as_files(&stage, &somebody)?;
    let mut reading = loading.finished()?;
    stage.follow(&mut reading)
}

#[test]
fn tokens_and_authorities_are_used_and_replaced() -> Result<()> {
    let Some(stage) = Stage::start()? else {
        return Ok(());
    };
    stage.make_account()?;
    // A file that is replaced before the former token is worthless, and one that is after.
    let [first, second, third] = [stage.token()?, stage.token()?, stage.token()?];
    put(&stage.file("token"), first.text())?;
    let mut reading = stage.read(&json!({"tokenFile": "token"}))?;
    assert!(stage.has_used(first.id())?);
    put(&stage.file("token"), second.text())?;
    stage.until_used(&mut reading, second.id())?;
    stage.control.revoke(&second)?;
    stage.until_refused(&reading, 4)?;
    put(&stage.file("token"), third.text())?;
    stage.follow(&mut reading)?;
    assert!(stage.has_used(third.id())?);

    // The server comes back as somebody else, whom nobody has vouched for yet.
    let before = stage.control.certificate()?;
    stage.control.kill_api()?;
    stage.control.forget_certificate()?;
    stage.control.start_api()?;
    ensure!(
        before != stage.control.certificate()?,
        "the same certificate"
    );
    let deadline = Instant::now() + PATIENCE;
    let distrusted = || {
        let kinds = reading.board.snapshot();
        kinds.iter().all(|it| {
            let error = it.last_error.as_ref();
            error.is_some_and(|error| error.contains("certificate"))
        })
    };
    while !distrusted() {
        ensure!(Instant::now() < deadline, "{:?}", reading.board.snapshot());
        // A board is looked at; it tells nobody.
        std::thread::sleep(Duration::from_millis(100));
    }
    stage.trust_the_server()?;
    stage.follow(&mut reading)?;
    drop(reading);

    // A plugin is run again when its token is refused, and when that is about to expire.
    let [first, second] = [stage.token()?, stage.token()?];
    plugin_gives(&stage, &json!({"token": first.text()}))?;
    let mut reading = stage.read(&plugin(&stage)?)?;
    assert!(stage.has_used(first.id())?);
    stage.control.revoke(&first)?;
    stage.until_refused(&reading, 1)?;
    // It expired long ago: each request asks for another.
    let expired = json!({"token": second.text(), "expirationTimestamp": "2026-01-01T00:00:00Z"});
    plugin_gives(&stage, &expired)?;
    stage.follow(&mut reading)?;
    assert!(stage.has_used(second.id())?);
    let third = stage.token()?;
    let fresh = json!({"token": third.text(), "expirationTimestamp": "2099-01-01T00:00:00Z"});
    plugin_gives(&stage, &fresh)?;
    drop(stage.relay.cut());
    stage.follow(&mut reading)?;
    assert!(stage.has_used(third.id())?);
    Ok(())
}

#[test]
fn base64_is_what_it_should_be() {
    for (text, expected) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v")] {
        assert_eq!(base64(text), expected);
    }
}
