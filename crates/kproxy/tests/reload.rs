//! `kproxy --config` follows its file.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::net::{IpAddr, SocketAddr};
use std::fs;
use std::io::{BufRead as _, BufReader, Lines};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Stdio};

use netns_lab::add_address;
use nft_batch::Events;
use sandbox::{Sandbox, sandboxed, service, slice};
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

/// The same objects in each family.
#[derive(Clone, Copy)]
struct Net {
    /// Of the Node: its own, and another one of the host.
    addresses: [&'static str; 2],
    /// What they are in.
    prefixes: [&'static str; 2],
    service: &'static str,
    endpoints: [&'static str; 2],
}

const NETS: [Net; 2] = [
    Net {
        addresses: ["192.0.2.1", "198.51.100.1"],
        prefixes: ["192.0.2.0/24", "198.51.100.0/24"],
        service: "10.96.0.10",
        endpoints: ["10.1.0.1", "10.1.0.2"],
    },
    Net {
        addresses: ["2001:db8:1::1", "2001:db8:2::1"],
        prefixes: ["\"2001:db8:1::/64\"", "\"2001:db8:2::/64\""],
        service: "fd00:96::10",
        endpoints: ["fd00:1::1", "fd00:1::2"],
    },
];

impl Net {
    /// The Node and the Service, which leads to one of the endpoints.
    fn write(&self, sandbox: &Sandbox, endpoint: usize) {
        let node = json!({
            "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
            "status": {"addresses": [{"type": "InternalIP", "address": self.addresses[0]}]}
        });
        let service = service("web", self.service);
        let slice = slice("web", &[self.endpoints[endpoint]]);
        sandbox.write_json("all.json", &[node, service, slice]);
    }

    /// On which of the addresses node ports are served.
    fn serves(&self, sandbox: &mut Sandbox) -> [bool; 2] {
        self.addresses.map(|address| {
            let address: IpAddr = address.parse().unwrap();
            let set = sandbox.set(Family::of(address), "nodeport-ips");
            let types = (KeyType::Address, DataType::None);
            let row = sandbox.row(Family::of(address), &set, types, &Key::Address(address));
            row.is_some()
        })
    }

    /// Whether the Service leads to an endpoint.
    fn leads_to(&self, sandbox: &mut Sandbox, endpoint: usize) -> bool {
        let endpoint = SocketAddr::new(self.endpoints[endpoint].parse().unwrap(), 8080);
        sandbox.endpoint(self.service, 80, 0) == Some(endpoint.to_string())
    }
}

/// Runs `test` in each family, where the host has the addresses and the objects are written.
fn prepared(test: fn(Net, Sandbox)) {
    for net in NETS {
        sandboxed(move |sandbox| {
            for address in net.addresses {
                add_address("lo", address.parse().unwrap()).unwrap();
            }
            net.write(&sandbox, 0);
            test(net, sandbox);
        });
    }
}

#[test]
fn a_swapped_config_map_is_in_force_and_a_broken_one_is_not() {
    prepared(|net, mut sandbox| {
        let [near, far] = net.prefixes;
        let mut events = Events::open().unwrap();
        let mut mounted = ConfigMap::new(&format!("nodePortAddresses: [{near}]\n"));
        let mut running = Running::start(&sandbox, &mounted.file(), &[]);
        sandbox.until(&mut events, |it| net.serves(it)[0]);
        assert!(!net.serves(&mut sandbox)[1]);
        mounted.write(&format!("nodePortAddresses: [{far}]\n"));
        sandbox.until(&mut events, |it| net.serves(it) == [false, true]);
        running.until("begins anew with the changed configuration");
        sandbox.until(&mut events, |it| net.leads_to(it, 0));

        mounted.write("nodePortAddresses: [nonsense]\n");
        let line = running.until("cannot be used");
        assert!(line.contains("NodePortAddresses[0]"), "{line}");
        mounted.write(&format!("nodePortAddresses: [{far}\n"));
        running.until("cannot be used");
        assert!(net.serves(&mut sandbox)[1]);

        // Still at work, and the next good file counts.
        mounted.write(&format!(
            "nodePortAddresses: [{near}, {far}]\nlogging: {{verbosity: 2}}\n"
        ));
        sandbox.until(&mut events, |it| net.serves(it) == [true, true]);
        net.write(&sandbox, 1);
        sandbox.until(&mut events, |it| net.leads_to(it, 1));
    });
}

#[test]
fn how_much_is_logged_changes_without_a_new_beginning() {
    prepared(|net, mut sandbox| {
        let mut events = Events::open().unwrap();
        let mut mounted = ConfigMap::new("logging: {verbosity: 0}\n");
        let mut running = Running::start(&sandbox, &mounted.file(), &[]);
        sandbox.until(&mut events, |it| it.route(net.service, 80).is_some());
        mounted.write("logging: {verbosity: 2, format: json}\n");
        running.until("in force now");
        net.write(&sandbox, 1);
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
    prepared(|net, mut sandbox| {
        let [near, far] = net.prefixes;
        let mut events = Events::open().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.conf");
        let write = |text: &str| fs::write(&file, format!("{HEADER}{text}")).unwrap();
        write(&format!("nodePortAddresses: [{near}]\n"));
        let _running = Running::start(&sandbox, &file, &[]);
        sandbox.until(&mut events, |it| net.serves(it)[0]);
        write(&format!("nodePortAddresses: [{near}, {far}]\n"));
        sandbox.until(&mut events, |it| net.serves(it)[1]);
    });
}
