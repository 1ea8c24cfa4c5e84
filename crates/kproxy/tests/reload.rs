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

use kproxy::config::Kind;
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

    fn write(&mut self, text: &str) {
        self.replace(&format!("{HEADER}{text}"));
    }

    /// As the kubelet writes a new version.
    fn replace(&mut self, text: &str) {
        self.version += 1;
        let folder = self.folder.path();
        let name = format!("..{}", self.version);
        fs::create_dir(folder.join(&name)).unwrap();
        fs::write(folder.join(&name).join("config.conf"), text).unwrap();
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
        let real = folder.path().join("elsewhere/config.conf");
        fs::create_dir(real.parent().unwrap()).unwrap();
        let write = |text: &str| fs::write(&real, format!("{HEADER}{text}")).unwrap();
        write(&format!("nodePortAddresses: [{near}]\n"));
        for file in [real.clone(), folder.path().join("link")] {
            if file != real {
                symlink("elsewhere/config.conf", &file).unwrap();
            }
            write(&format!("nodePortAddresses: [{near}]\n"));
            let mut running = Running::start(&sandbox, &file, &[]);
            sandbox.until(&mut events, |it| net.serves(it) == [true, false]);
            // In place, which the folder of the link does not show.
            write(&format!("nodePortAddresses: [{far}]\n"));
            sandbox.until(&mut events, |it| net.serves(it) == [false, true]);
            fs::remove_file(&real).unwrap();
            running.until("cannot be used: what it said before counts");
            write(&format!("nodePortAddresses: [{near}, {far}]\n"));
            sandbox.until(&mut events, |it| net.serves(it) == [true, true]);
        }
    });
}

/// A kubeconfig of a server that nobody is, with `user`.
fn kubeconfig(folder: &Path, name: &str, user: &Json) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": user}]
    });
    let file = folder.join(name);
    fs::write(&file, config.to_string()).unwrap();
    file.display().to_string()
}

#[test]
fn what_needs_privileges_that_were_given_up_ends_the_process() {
    prepared(|_, sandbox| {
        let kubeconfigs = tempfile::tempdir().unwrap();
        let plain = kubeconfig(kubeconfigs.path(), "plain", &json!({"token": "a"}));
        let exec = json!({"apiVersion": "client.authentication.k8s.io/v1", "command": "true",
                          "interactiveMode": "Never"});
        let plugin = kubeconfig(kubeconfigs.path(), "plugin", &json!({"exec": exec}));
        let text = |kubeconfig: &str, score: i32| {
            format!("clientConnection: {{kubeconfig: {kubeconfig}}}\noomScoreAdj: {score}\n")
        };
        for (last, reason) in [
            (text(&plain, -1000), "cannot set oom_score_adj to -1000"),
            (text(&plugin, 200), "credentials come from a program"),
        ] {
            let mut mounted = ConfigMap::new(&text(&plain, 100));
            let mut running = Running::start(&sandbox, &mounted.file(), &["--source=api"]);
            running.until("kproxy v");
            mounted.write(&text(&plain, 200));
            running.until("in force now");
            let score = format!("/proc/{}/oom_score_adj", running.process.id());
            assert_eq!(fs::read_to_string(score).unwrap().trim(), "200");
            // It would end with an error if it began with this.
            mounted.write(&text("/no/such/file", 200));
            let line = running.until("cannot be used: what it said before counts");
            assert!(line.contains("/no/such/file"), "{line}");
            mounted.write(&text(&plain, 200));
            running.until("says again what counts");
            mounted.write(&last);
            let line = running.until("ends, to be started again");
            assert!(line.contains(reason), "{line}");
            assert_eq!(running.process.wait().unwrap().code(), Some(0));
        }
    });
}

/// Each field of the file: in force afterwards, or named in the log.
#[test]
fn no_field_that_changes_is_passed_over_in_silence() {
    sandboxed(|sandbox| {
        NETS[0].write(&sandbox, 0);
        let mut mounted = ConfigMap::new("");
        let mut running = Running::start(&sandbox, &mounted.file(), &[]);
        running.until("kproxy v");
        for field in kproxy::config::fields() {
            let value = match field.path {
                "bindAddress" => json!("127.0.0.2"),
                "clusterCIDR" => json!("10.0.0.0/8"),
                "conntrack.maxPerCore" => json!(1),
                "detectLocalMode" => json!("NodeCIDR"),
                "featureGates" => json!({"WatchListClient": false}),
                "healthzBindAddress" | "metricsBindAddress" => json!("127.0.0.1:20256"),
                "ipvs.excludeCIDRs" => json!(["10.0.0.0/8"]),
                "logging.format" => json!("json"),
                "mode" => json!("ipvs"),
                "nodePortAddresses" => json!(["10.0.0.0/8"]),
                "showHiddenMetricsForVersion" => json!("1.36"),
                // Lists of objects, a flag's, and one that cannot go back: see the other tests.
                "logging.vmodule.filePattern" | "logging.vmodule.verbosity" => continue,
                "hostnameOverride" | "oomScoreAdj" => continue,
                // Flags alone count.
                path if path.starts_with("logging.options.") => continue,
                _ => match field.kind {
                    Kind::Bool => json!(field.default != "true"),
                    Kind::Integer => json!(7),
                    Kind::Number => json!(1.5),
                    Kind::Duration | Kind::OptionalDuration | Kind::DurationOrNanoseconds => {
                        json!("20s")
                    }
                    _ => json!("text"),
                },
            };
            let mut file = json!({"mode": "nftables", "conntrack": {"maxPerCore": 0},
                "healthzBindAddress": "127.0.0.1:10256",
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration"});
            let before = file.to_string();
            let mut here = &mut file;
            for name in field.path.split('.') {
                here = &mut here[name];
            }
            *here = value;
            for text in [file.to_string(), before] {
                mounted.replace(&text);
                running.until("config.conf: changed");
            }
        }
        assert_eq!(running.process.try_wait().unwrap(), None);
    });
}
