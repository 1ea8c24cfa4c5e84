//! What kubeconfigs come to, each as the real kube-proxy 1.37.2 takes it.

use std::fs;

use super::*;
use crate::apiserver::kubeconfig::Settings;

/// What a kubeconfig comes to: server, name of the server, authorization.
fn comes_to(change: impl FnOnce(&mut Json), master: Option<&str>) -> Result<String, String> {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("token"), "of-file\n").unwrap();
    fs::write(folder.path().join("empty"), " \n").unwrap();
    let mut config = json!({"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
        "users": [{"name": "u", "user": {}}], "current-context": "x",
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]});
    change(&mut config);
    let path = folder.path().join("kubeconfig");
    fs::write(&path, config.to_string()).unwrap();
    let options = ConnectionOptions {
        kubeconfig: Some(path),
        master: master.map(str::to_owned),
        ..ConnectionOptions::default()
    };
    let config = Settings::load(&options)
        .map_err(|error| error.to_string())?
        .config;
    let auth = config.auth_info;
    // Neither is shown, which is as it should be: kube-client says what it sends.
    let sent = json!(auth);
    let mut told = config.cluster_url.to_string();
    for part in [
        json!(config.tls_server_name),
        sent["token"].clone(),
        sent["username"].clone(),
        sent["password"].clone(),
        sent["exec"]["interactiveMode"].clone(),
    ] {
        if let Some(part) = part.as_str() {
            told = format!("{told} {part:?}");
        }
    }
    Ok(told)
}

fn user(user: Json) -> impl FnOnce(&mut Json) {
    move |config| config["users"][0]["user"] = user
}

fn cluster(cluster: Json) -> impl FnOnce(&mut Json) {
    move |config| config["clusters"][0]["cluster"] = cluster
}

const SERVER: &str = "https://192.0.2.1:6443/";

/// Each as the real kube-proxy 1.37.2 does it.
#[test]
fn credentials_count_as_for_kube_proxy() {
    let exec = |version: &str| {
        json!({"apiVersion": format!("client.authentication.k8s.io/{version}"),
        "command": "true", "env": null, "args": null, "provideClusterInfo": null})
    };
    let with = |mut it: Json, mode: &str| {
        it["interactiveMode"] = mode.into();
        it
    };
    for (given, expected) in [
        (json!(null), ""),
        (json!({"tokenFile": "token"}), r#" "of-file""#),
        (
            json!({"tokenFile": "token", "token": "inline"}),
            r#" "of-file""#,
        ),
        (
            json!({"tokenFile": "none", "token": "inline"}),
            r#" "inline""#,
        ),
        (json!({"username": "me"}), r#" "me" """#),
        (json!({"token": "t", "exec": exec("v1")}), r#" "t""#),
        (json!({"exec": exec("v1beta1")}), r#" "Never""#),
        (
            json!({"exec": with(exec("v1"), "IfAvailable")}),
            r#" "Never""#,
        ),
    ] {
        let came = comes_to(user(given.clone()), None);
        assert_eq!(came, Ok(format!("{SERVER}{expected}")), "{given}");
    }
    for (given, expected) in [
        (json!({"tokenFile": "empty"}), "is empty"),
        (json!({"tokenFile": "none"}), "No such file"),
        (json!({"token": "t", "username": "me"}), "only one of them"),
        (json!({"token": 12345}), "expected a string"),
        (json!({"exec": with(exec("v1"), "Always")}), "no terminal"),
    ] {
        let error = comes_to(user(given.clone()), None).unwrap_err();
        assert!(error.contains(expected), "{given}: {error}");
    }
}

/// As the real kube-proxy 1.37.2 does it.
#[test]
fn servers_are_those_of_kube_proxy() {
    let named = json!({"server": "https://192.0.2.1:6443", "tls-server-name": "other.test"});
    for (given, master, expected) in [
        (
            json!({"server": "https://192.0.2.1/k8s/clusters/c-xyz"}),
            None,
            "https://192.0.2.1/k8s/clusters/c-xyz",
        ),
        (
            json!({"server": "https://[2001:db8::1]:6443"}),
            None,
            "https://[2001:db8::1]:6443/",
        ),
        (
            json!({"server": "HTTPS://192.0.2.1"}),
            None,
            "https://192.0.2.1/",
        ),
        // A host alone is HTTP, whatever else is said.
        (
            json!({"server": "192.0.2.1:8080"}),
            None,
            "http://192.0.2.1:8080/",
        ),
        (
            json!({"server": "192.0.2.1", "insecure-skip-tls-verify": true}),
            None,
            "http://192.0.2.1/",
        ),
        (
            json!({"server": "https://me:pw@192.0.2.1"}),
            None,
            r#"https://192.0.2.1/ "me" "pw""#,
        ),
        (
            json!({"server": "https://192.0.2.1:6443", "proxy-url": "", "tls-server-name": "",
            "certificate-authority": "", "certificate-authority-data": null}),
            None,
            SERVER,
        ),
        (
            named.clone(),
            None,
            r#"https://192.0.2.1:6443/ "other.test""#,
        ),
        // It is the name of another server.
        (named, Some("https://192.0.2.9"), "https://192.0.2.9/"),
        (json!({}), Some("https://192.0.2.9"), "https://192.0.2.9/"),
        (
            json!({"server": "https://192.0.2.1"}),
            Some("192.0.2.9:8080"),
            "http://192.0.2.9:8080/",
        ),
    ] {
        let came = comes_to(cluster(given.clone()), master);
        assert_eq!(came.as_deref(), Ok(expected), "{given}");
    }
    for given in ["ftp://192.0.2.1", " https://192.0.2.1 ", "https://", ""] {
        assert!(
            comes_to(cluster(json!({"server": given})), None).is_err(),
            "{given:?}"
        );
    }
}

#[test]
fn contexts_are_those_of_kube_proxy() {
    let context = |context: Json| move |config: &mut Json| config["contexts"] = context;
    let ours = json!({"name": "x", "context": {"cluster": "c", "user": "u"}});
    for others in [
        json!([ours, {"name": "y", "context": {"user": "u"}}]),
        json!([{"name": "y", "context": null}, ours]),
        json!([{"name": "x", "context": {"cluster": "c", "user": "nobody"}}]),
    ] {
        let came = comes_to(context(others.clone()), None);
        assert_eq!(came.as_deref(), Ok(SERVER), "{others}");
    }
    let none = |config: &mut Json| config["current-context"] = "".into();
    assert!(
        comes_to(none, None)
            .unwrap_err()
            .contains("nothing in it says")
    );
    let came = comes_to(none, Some("https://192.0.2.9"));
    assert_eq!(came.as_deref(), Ok("https://192.0.2.9/"));
    let missing = |config: &mut Json| config["current-context"] = "y".into();
    assert!(comes_to(missing, None).unwrap_err().contains("no context"));
}

#[test]
fn nobody_is_told_over_http() {
    let came = comes_to(
        |config| {
            cluster(json!({"server": "http://192.0.2.1"}))(config);
            user(json!({"token": "secret", "as": "jane"}))(config);
        },
        None,
    );
    assert_eq!(came.as_deref(), Ok("http://192.0.2.1/"));
}

#[test]
fn a_password_in_an_address_that_is_wrong_is_not_told() {
    for (given, master) in [
        (json!({"server": "ftp://me:secret@192.0.2.1"}), None),
        (json!({"server": "https://me:secret@"}), None),
        (json!({}), Some("ftp://me:secret@192.0.2.1")),
        (json!({}), Some("me:secret@/x y")),
    ] {
        let error = comes_to(cluster(given), master).unwrap_err();
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn a_password_that_is_no_text_is_not_told() {
    for field in ["password", "token"] {
        let error = comes_to(user(json!({ field: 271_828 })), None).unwrap_err();
        assert!(error.contains("expected"), "{error}");
        assert!(!error.contains("271828"), "{error}");
    }
}
