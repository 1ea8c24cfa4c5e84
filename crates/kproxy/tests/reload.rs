//! `kproxy --config` follows its file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::net::IpAddr;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};

use netns_lab::add_address;
use nft_batch::Events;
use sandbox::{Sandbox, sandboxed};
use serde_json::{Value as Json, json};
use svc_planner::plan::{DataType, Family, Key, KeyType};

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                      mode: nftables\nhealthzBindAddress: 127.0.0.1:10256\nconntrack: {maxPerCore: 0}\n";

/// A mounted ConfigMap: a file that is a link through `..data` into a folder that is replaced.
struct ConfigMap {
    folder: tempfile::TempDir,
    version: u32,
}

impl ConfigMap {
    fn new(text: &str) -> Self {
        let mut mounted = Self {
            folder: tempfile::tempdir().unwrap(),
            version: 0,
        };
        mounted.write(text);
        symlink("..data/config.conf", mounted.file()).unwrap();
        mounted
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config.conf")
    }

    /// As the kubelet writes a new version.
    fn write(&mut self, text: &str) {
        self.version += 1;
        let folder = self.folder.path();
        let name = format!("..{}", self.version);
        fs::create_dir(folder.join(&name)).unwrap();
        fs::write(
            folder.join(&name).join("config.conf"),
            format!("{HEADER}{text}"),
        )
        .unwrap();
        symlink(&name, folder.join("..data_tmp")).unwrap();
        fs::rename(folder.join("..data_tmp"), folder.join("..data")).unwrap();
        let _ = fs::remove_dir_all(folder.join(format!("..{}", self.version - 1)));
    }
}

/// kproxy as a DaemonSet runs kube-proxy, but for its source.
struct Running {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn start(sandbox: &Sandbox, config: &Path, more: &[&str]) -> Self {
        let source = format!("--source=dir:{}", sandbox.folder().display());
        let config = format!("--config={}", config.display());
        let state = format!("--state-dir={}", sandbox.state_dir().display());
        let args = [&*config, "--hostname-override=Node-A", &source, &state];
        let mut command = sandbox.node_command(&[&args, more].concat());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, log }
    }

    /// Waits for a line of the log; returns it.
    fn until(&mut self, part: &str) -> String {
        let mut before = Vec::new();
        for line in &mut self.log {
            let line = line.unwrap();
            if line.contains(part) {
                return line;
            }
            before.push(line);
        }
        panic!("no {part:?} in {before:#?}");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn node() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]}
    })
}

/// Whether node ports are served on an address.
fn serves(sandbox: &mut Sandbox, address: &str) -> bool {
    let address: IpAddr = address.parse().unwrap();
    let set = sandbox.set(Family::of(address), "nodeport-ips");
    let types = (KeyType::Address, DataType::None);
    let key = Key::Address(address);
    sandbox
        .row(Family::of(address), &set, types, &key)
        .is_some()
}

fn prepare(sandbox: &Sandbox) {
    for address in ["192.0.2.1", "198.51.100.1"] {
        add_address("lo", address.parse().unwrap()).unwrap();
    }
    sandbox.write_json("node.json", &[node()]);
    sandbox.write_web("web.json", "10.1.0.1");
}

#[test]
fn a_swapped_config_map_is_in_force_and_a_broken_one_is_not() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        prepare(&sandbox);
        let mut mounted = ConfigMap::new("nodePortAddresses: [192.0.2.0/24]\n");
        let mut running = Running::start(&sandbox, &mounted.file(), &[]);
        sandbox.until(&mut events, |it| serves(it, "192.0.2.1"));
        assert!(!serves(&mut sandbox, "198.51.100.1"));
        mounted.write("nodePortAddresses: [198.51.100.0/24]\n");
        sandbox.until(&mut events, |it| {
            serves(it, "198.51.100.1") && !serves(it, "192.0.2.1")
        });
        running.until("begins anew with the changed configuration");
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());

        mounted.write("nodePortAddresses: [nonsense]\n");
        let line = running.until("cannot be used");
        assert!(line.contains("NodePortAddresses[0]"), "{line}");
        mounted.write("nodePortAddresses: [198.51.100.0/24\n");
        running.until("cannot be used");
        assert!(serves(&mut sandbox, "198.51.100.1"));

        // Still at work, and the next good file counts.
        mounted
            .write("nodePortAddresses: [192.0.2.0/24, 198.51.100.0/24]\nlogging: {verbosity: 2}\n");
        sandbox.until(&mut events, |it| {
            serves(it, "198.51.100.1") && serves(it, "192.0.2.1")
        });
        sandbox.write_web("web.json", "10.1.0.2");
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
    });
}

#[test]
fn how_much_is_logged_changes_without_a_new_beginning() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        prepare(&sandbox);
        let mut mounted = ConfigMap::new("logging: {verbosity: 0}\n");
        let mut running = Running::start(&sandbox, &mounted.file(), &[]);
        sandbox.until(&mut events, |it| it.route("10.96.0.10", 80).is_some());
        mounted.write("logging: {verbosity: 2, format: json}\n");
        running.until("in force now");
        sandbox.write_web("web.json", "10.1.0.2");
        let line = running.until("\"v\":2");
        let event: Json = serde_json::from_str(&line).unwrap();
        assert!(event["msg"].as_str().is_some(), "{line}");
        // A flag wins over the file.
        drop(running);
        let mut running = Running::start(&sandbox, &mounted.file(), &["--logging-format=text"]);
        let line = running.until(" begins");
        assert!(line.starts_with(['I', 'W']), "{line}");
    });
}

#[test]
fn a_file_that_is_no_config_map_is_followed_too() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        prepare(&sandbox);
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.conf");
        let write = |text: &str| fs::write(&file, format!("{HEADER}{text}")).unwrap();
        write("nodePortAddresses: [192.0.2.0/24]\n");
        let _running = Running::start(&sandbox, &file, &[]);
        sandbox.until(&mut events, |it| serves(it, "192.0.2.1"));
        write("nodePortAddresses: [192.0.2.0/24, 198.51.100.0/24]\n");
        sandbox.until(&mut events, |it| serves(it, "198.51.100.1"));
    });
}
