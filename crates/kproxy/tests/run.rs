//! `kproxy run` on a watched folder.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use std::fs;
use std::os::unix::fs::symlink;

use nft_batch::Events;
use sandbox::{sandboxed, service, slice};
use serde_json::json;

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
        let write = |sandbox: &sandbox::Sandbox, endpoint: &str| {
            let objects = [service("web", "10.96.0.10"), slice("web", &[endpoint])];
            sandbox.write_json("web.json", &objects);
        };
        write(&sandbox, "10.1.0.1");
        let running = sandbox.start();
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        write(&sandbox, "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);

        // Nothing can be kept for the next process, which is no failure of this one.
        assert!(sandbox.kproxy(&["cleanup"]).status.success());
        assert_eq!(running.stop(), 0);
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
