//! A network namespace of its own, a folder of manifests and the program itself.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use kproxy::lower::{datum_of, key_bytes, nf_family};
use nft_batch::{Connection, Errno, Events};
use nl_codec::nft::{Elem, Value};
use serde_json::{Value as Json, json};
use svc_planner::object::Protocol;
use svc_planner::plan::{DataType, Datum, Family, Key, KeyType, Route};

/// Longest wait for an event; passes only when the test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// See the module. Made and used on a thread inside its namespace.
pub(crate) struct Sandbox {
    folder: tempfile::TempDir,
    state: tempfile::TempDir,
    pub(crate) connection: Connection,
}

/// Runs `test` in a sandbox; skips where namespaces cannot be made.
pub(crate) fn sandboxed(test: impl FnOnce(Sandbox) + Send + 'static) {
    test_support::in_new_netns(|| {
        test(Sandbox {
            folder: tempfile::tempdir().unwrap(),
            state: tempfile::tempdir().unwrap(),
            connection: Connection::open().unwrap(),
        });
    });
}

impl Sandbox {
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn state_dir(&self) -> &Path {
        self.state.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    /// Where the state of the table of `family` is saved.
    pub(crate) fn state_file(&self, family: &str) -> PathBuf {
        let suffix = format!("-{family}.json");
        let entries = fs::read_dir(self.state.path()).unwrap();
        let mut paths = entries.map(|entry| entry.unwrap().path());
        let found = paths.find(|path| path.to_str().unwrap().ends_with(&suffix));
        found.unwrap()
    }

    /// Writes a manifest the careful way: beside, then renamed.
    pub(crate) fn write(&self, name: &str, text: &str) {
        let new = self.path(".new");
        fs::write(&new, text).unwrap();
        fs::rename(new, self.path(name)).unwrap();
    }

    /// Writes Service `web` at 10.96.0.10 with one endpoint.
    pub(crate) fn write_web(&self, file: &str, endpoint: &str) {
        let objects = [service("web", "10.96.0.10"), slice("web", &[endpoint])];
        self.write_json(file, &objects);
    }

    pub(crate) fn write_json(&self, name: &str, objects: &[Json]) {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.write(name, &list.to_string());
    }

    /// A command of a host that is no Node.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.node_command(args);
        if matches!(args.first(), Some(&("apply" | "plan" | "run"))) {
            command.arg("--no-node");
        }
        command
    }

    /// A command of the Node that the arguments name.
    pub(crate) fn node_command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kproxy"));
        command.args(args);
        if matches!(args.first(), Some(&("apply" | "plan" | "run"))) {
            command.arg("--state-dir").arg(self.state.path());
        }
        if args.first() == Some(&"run") {
            // A system call that the filter does not know of ends it, and the test.
            command.arg("--seccomp=kill");
        }
        command
    }

    pub(crate) fn kproxy(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Applies the folder; must succeed. Returns the summary.
    pub(crate) fn apply(&self, more: &[&str]) -> Json {
        let folder = self.folder().to_str().unwrap();
        let args = [&["apply", "-f", folder, "-o", "json"], more].concat();
        let output = self.kproxy(&args);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Plans the folder. Returns the exit code and the changes.
    pub(crate) fn plan(&self) -> (i32, Json) {
        let folder = self.folder().to_str().unwrap();
        let output = self.kproxy(&["plan", "-f", folder, "-o", "json"]);
        let code = output.status.code().unwrap();
        assert!(code != 1, "{output:?}");
        (code, serde_json::from_slice(&output.stdout).unwrap())
    }

    /// Starts `kproxy run` on the folder.
    pub(crate) fn start(&self) -> Running {
        self.run(&format!("dir:{}", self.folder().display()))
    }

    /// Starts `kproxy run` on a source.
    pub(crate) fn run(&self, source: &str) -> Running {
        let mut command = self.command(&["run", "--source", source]);
        Running(command.stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts `kproxy run` on the folder, for the Node that the arguments name.
    pub(crate) fn run_node(&self, more: &[&str]) -> Running {
        let source = format!("dir:{}", self.folder().display());
        let mut command = self.node_command(&["run", "--source", &source]);
        Running(command.args(more).stderr(Stdio::null()).spawn().unwrap())
    }

    /// The live row of a map.
    pub(crate) fn row(
        &mut self,
        family: Family,
        set: &str,
        types: (KeyType, DataType),
        key: &Key,
    ) -> Option<Datum> {
        let bytes = key_bytes(family, types.0, key).unwrap();
        let elem = Elem::new(Value::new(bytes.as_slice()));
        let read = self
            .connection
            .element(nf_family(family), "kube-proxy", set, &elem, |elem| {
                datum_of(family, types.1, elem).unwrap()
            });
        match read {
            Ok(found) => found,
            Err(error) if error.errno() == Some(Errno::ENOENT) => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Class and group of a TCP frontend.
    pub(crate) fn route(&mut self, address: &str, port: u16) -> Option<Route> {
        let address: IpAddr = address.parse().unwrap();
        let family = Family::of(address);
        let key = Key::Frontend {
            address,
            protocol: Protocol::Tcp,
            port,
        };
        let set = self.set(family, "services");
        let types = (KeyType::Frontend, DataType::Route);
        match self.row(family, &set, types, &key) {
            Some(Datum::Route(route)) => Some(route),
            None => None,
            other => panic!("{other:?}"),
        }
    }

    /// The endpoint in a slot of a frontend's group.
    pub(crate) fn endpoint(&mut self, address: &str, port: u16, slot: u32) -> Option<String> {
        let group = self.route(address, port)?.group();
        let family = Family::of(address.parse().unwrap());
        let key = Key::Slot { group, slot };
        let set = self.set(family, "endpoints");
        let types = (KeyType::Slot, DataType::Endpoint);
        match self.row(family, &set, types, &key) {
            Some(Datum::Endpoint { address, port }) => {
                Some(SocketAddr::new(address, port).to_string())
            }
            None => None,
            other => panic!("{other:?}"),
        }
    }

    /// Name of a set's newest generation: the name itself, or with a number behind it.
    pub(crate) fn set(&mut self, family: Family, name: &str) -> String {
        let newest = self.newest_set(family, name);
        newest.map_or_else(|| name.to_owned(), |(_, name)| name)
    }

    /// Handle of an IPv4 set's newest generation; another one if the set was made anew.
    pub(crate) fn set_handle(&mut self, name: &str) -> Option<u64> {
        let newest = self.newest_set(Family::Ipv4, name);
        newest.map(|(handle, _)| handle)
    }

    fn newest_set(&mut self, family: Family, name: &str) -> Option<(u64, String)> {
        let mut found: Vec<(u64, String)> = Vec::new();
        let dumped = self
            .connection
            .dump_sets(nf_family(family), "kube-proxy", |set| {
                let this = set.name.unwrap().to_str().unwrap();
                let suffix = this.strip_prefix(name);
                if suffix.is_some_and(|it| !it.contains(|c: char| c.is_ascii_alphabetic())) {
                    found.push((set.handle.unwrap(), this.to_owned()));
                }
            });
        match dumped {
            Ok(_) => {}
            Err(error) if error.errno() == Some(Errno::ENOENT) => {}
            Err(error) => panic!("{error}"),
        }
        found.sort();
        found.pop()
    }

    pub(crate) fn nft(&self, args: &[&str]) -> Output {
        Command::new("nft").args(args).output().unwrap()
    }

    /// Looks again after each transaction until `done`.
    pub(crate) fn until(&mut self, events: &mut Events, mut done: impl FnMut(&mut Self) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !done(self) {
            match events.next_group(Some(deadline)) {
                Ok(_) | Err(nft_batch::EventError::Overrun) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

/// A `kproxy run` that ends with the test.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    /// Asks it to end and returns its exit code.
    pub(crate) fn stop(mut self) -> i32 {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A Service with one TCP port 80 named http.
pub(crate) fn service(name: &str, address: &str) -> Json {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"clusterIP": address, "clusterIPs": [address],
                 "ports": [{"name": "http", "port": 80}]}
    })
}

/// Its EndpointSlice; endpoints listen on 8080.
pub(crate) fn slice(service: &str, addresses: &[&str]) -> Json {
    let v6 = addresses.iter().any(|address| address.contains(':'));
    let family = if v6 { "IPv6" } else { "IPv4" };
    let endpoints: Vec<_> = addresses
        .iter()
        .map(|it| json!({"addresses": [it]}))
        .collect();
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {"name": format!("{service}-{}", family.to_lowercase()),
                     "namespace": "default",
                     "labels": {"kubernetes.io/service-name": service}},
        "addressType": family,
        "endpoints": endpoints,
        "ports": [{"name": "http", "port": 8080}]
    })
}
