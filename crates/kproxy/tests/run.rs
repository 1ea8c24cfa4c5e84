//! `kproxy run` on a watched folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::Stdio;

use nft_batch::Events;
use sandbox::{sandboxed, service, slice};
use serde_json::{Value as Json, json};

#[test]
fn changed_files_are_programmed() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_json(
            "web.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        sandbox.write_json(
            "web.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.2"])],
        );
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);

        // Written in place: read when it is closed.
        let more = json!({"apiVersion": "v1", "kind": "List",
            "items": [service("new", "10.96.0.11"), slice("new", &["10.1.0.3"])]});
        fs::write(sandbox.path("new.json"), more.to_string()).unwrap();
        sandbox.until(&mut events, |it| it.route("10.96.0.11", 80).is_some());

        // A file that cannot be read any more keeps serving what it served, and so do the others.
        sandbox.write("new.json", "{\"apiVersion\": ");
        sandbox.write_json(
            "web.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.4"])],
        );
        let moved = Some("10.1.0.4:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        assert!(sandbox.route("10.96.0.11", 80).is_some());

        fs::remove_file(sandbox.path("new.json")).unwrap();
        sandbox.until(&mut events, |it| it.route("10.96.0.11", 80).is_none());

        assert_eq!(running.stop(), 0);
        assert!(
            sandbox.route("10.96.0.10", 80).is_some(),
            "rules stay when it ends"
        );
        let again = sandbox.apply(&[]);
        let rows = again["transactions"].as_array().unwrap().len();
        assert!(
            rows <= 1,
            "the next process goes on where this one ended: {again}"
        );
    });
}

#[test]
fn a_mounted_config_map_is_swapped() {
    sandboxed(|mut sandbox| {
        let list = |endpoint: &str| {
            json!({"apiVersion": "v1", "kind": "List",
                   "items": [service("web", "10.96.0.10"), slice("web", &[endpoint])]})
            .to_string()
        };
        let mut events = Events::open().unwrap();
        fs::create_dir(sandbox.path("..1")).unwrap();
        fs::write(sandbox.path("..1/web.json"), list("10.1.0.1")).unwrap();
        symlink("..1", sandbox.path("..data")).unwrap();
        symlink("..data/web.json", sandbox.path("web.json")).unwrap();
        let _running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        fs::create_dir(sandbox.path("..2")).unwrap();
        fs::write(sandbox.path("..2/web.json"), list("10.1.0.2")).unwrap();
        symlink("..2", sandbox.path("..data_tmp")).unwrap();
        fs::rename(sandbox.path("..data_tmp"), sandbox.path("..data")).unwrap();
        fs::remove_dir_all(sandbox.path("..1")).unwrap();
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
    });
}

#[test]
fn a_folder_that_is_replaced_is_read_again() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let folder = sandbox.path("manifests");
        let write = |endpoint: &str| {
            let list = json!({"apiVersion": "v1", "kind": "List",
                "items": [service("web", "10.96.0.10"), slice("web", &[endpoint])]});
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("web.json"), list.to_string()).unwrap();
        };
        write("10.1.0.1");
        let source = format!("dir:{}", folder.display());
        let running = sandbox.run(&source);
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        fs::rename(&folder, sandbox.path("away")).unwrap();
        write("10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn a_table_deleted_by_somebody_else_is_made_again() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        sandbox.write_web("web.json", "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);

        // Nothing can be kept for the next process, which is no failure of this one.
        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn plan_beside_a_running_process() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        // Not the watched folder, so that what is planned is not programmed.
        let wanted = tempfile::tempdir().unwrap();
        let plan = |sandbox: &sandbox::Sandbox| {
            let folder = wanted.path().to_str().unwrap();
            let output = sandbox.kproxy(&["plan", "-f", folder, "-o", "json"]);
            let rows: Json = serde_json::from_slice(&output.stdout).unwrap_or_default();
            (output.status.code(), rows)
        };
        fs::copy(sandbox.path("web.json"), wanted.path().join("web.json")).unwrap();
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        assert_eq!(plan(&sandbox), (Some(0), json!([])));

        // After a change too, as soon as it is in force.
        sandbox.write_web("web.json", "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        let (code, changes) = plan(&sandbox);
        assert_eq!(code, Some(2), "{changes}");
        assert_eq!(changes[0]["rebuild"], false, "{changes}");
        let rows = changes[0]["rows"].as_array().unwrap();
        let back = rows.iter().any(|row| {
            row["live"]["Endpoint"]["address"] == "10.1.0.2"
                && row["wanted"]["Endpoint"]["address"] == "10.1.0.1"
        });
        assert!(back, "{changes}");
        assert_eq!(running.stop(), 0);
    });
}

#[test]
fn plan_waits_for_a_running_process_to_save_its_state() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let wanted = tempfile::tempdir().unwrap();
        fs::copy(sandbox.path("web.json"), wanted.path().join("web.json")).unwrap();
        let _running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        assert_eq!(sandbox.plan(), (0, json!([])));

        // As if it had not been written since the last change.
        fs::remove_file(sandbox.state_file("ip")).unwrap();
        let folder = wanted.path().to_str().unwrap();
        let mut command = sandbox.command(&["plan", "-f", folder, "-o", "json"]);
        let plan = command.stdout(Stdio::piped()).spawn().unwrap();
        sandbox.write_web("web.json", "10.1.0.2");
        let output = plan.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        let changes: Json = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(changes[0]["rebuild"], false, "{changes}");
    });
}

#[test]
fn a_killed_process_is_gone_on_from() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_json(
            "web.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        // Succeeds once the state is saved: the process is idle.
        assert_eq!(sandbox.plan(), (0, json!([])));
        // Killed, not asked.
        drop(running);

        let handle = sandbox.set_handle("services");
        let again = sandbox.apply(&["--wait-deferred"]);
        let rows: u64 = again["transactions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["rows"].as_u64().unwrap())
            .sum();
        assert!(rows <= 2, "only what was deferred is left to do: {again}");
        assert_eq!(sandbox.set_handle("services"), handle, "{again}");
    });
}

#[test]
fn two_processes_do_not_work_on_one_namespace() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_json(
            "web.json",
            &[service("web", "10.96.0.10"), slice("web", &["10.1.0.1"])],
        );
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        let second = sandbox.kproxy(&["apply", "-f", &folder]);
        assert_eq!(second.status.code(), Some(1), "{second:?}");
        assert!(String::from_utf8_lossy(&second.stderr).contains("another kproxy"));
        assert_eq!(running.stop(), 0);
        assert!(sandbox.kproxy(&["apply", "-f", &folder]).status.success());
    });
}
