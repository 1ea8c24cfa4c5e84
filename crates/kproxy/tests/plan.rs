//! `kproxy plan`: exit codes, what it shows, and that it changes nothing.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use sandbox::{sandboxed, service, slice};
use serde_json::json;

#[test]
fn exit_codes_and_rows() {
    sandboxed(|mut sandbox| {
        let mut all = vec![service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])];
        sandbox.write_json("all.json", &all);
        let before = sandbox.connection.generation().unwrap();
        let (code, changes) = sandbox.plan();
        assert_eq!(code, 2);
        assert_eq!(changes[0]["rebuild"], true, "{changes}");
        assert_eq!(sandbox.connection.generation().unwrap(), before);

        sandbox.apply(&["--wait-deferred"]);
        assert_eq!(sandbox.plan(), (0, json!([])));

        all[1] = slice("web", &["10.1.0.2"]);
        sandbox.write_json("all.json", &all);
        let before = sandbox.connection.generation().unwrap();
        let (code, changes) = sandbox.plan();
        assert_eq!(code, 2);
        assert_eq!(sandbox.connection.generation().unwrap(), before);
        let rows = changes[0]["rows"].as_array().unwrap();
        let row = rows
            .iter()
            .find(|row| row["wanted"]["Endpoint"]["address"] == "10.1.0.2");
        let row = row.unwrap_or_else(|| panic!("{changes}"));
        assert_eq!(row["live"]["Endpoint"]["address"], "10.1.0.1", "{changes}");
        assert!(
            row["service"]
                .as_str()
                .unwrap()
                .starts_with("default/web:http"),
            "{changes}"
        );

        let folder = sandbox.folder().to_str().unwrap().to_owned();
        let text = sandbox.kproxy(&["plan", "-f", &folder]);
        assert_eq!(text.status.code(), Some(2));
        let text = String::from_utf8(text.stdout).unwrap();
        assert!(
            text.contains("10.1.0.1") && text.contains("-> 10.1.0.2"),
            "{text}"
        );
        assert!(
            !text.contains('\x1b'),
            "colours without a terminal: {text:?}"
        );
        assert_eq!(
            sandbox.endpoint("10.96.0.10", 80, 0).as_deref(),
            Some("10.1.0.1:8080")
        );
    });
}

#[test]
fn errors_are_not_changes() {
    sandboxed(|sandbox| {
        let output = sandbox.kproxy(&["plan", "-f", "-", "--netns", "no-such-namespace"]);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let output = sandbox.kproxy(&["plan"]);
        assert_eq!(output.status.code(), Some(64), "{output:?}");
    });
}
