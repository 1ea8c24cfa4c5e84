//! The real kube-proxy in mode ipvs, in a guest that has nothing but a test program: the programs that it
//! needs come in a folder with their libraries, and an API server is made of a few answers.

use core::time::Duration;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

use netns_lab::Namespace;
use serde_json::{Value as Json, json};

/// Where `cargo xtask kernels --kube-proxy` puts them, below the repository's root.
const FOLDER: &str = "target/kube-proxy-guest";
/// Emulation is slow.
const PATIENCE: Duration = Duration::from_secs(300);
const TOOLS: [&str; 6] = [
    "iptables",
    "iptables-save",
    "iptables-restore",
    "ip6tables",
    "ip6tables-save",
    "ip6tables-restore",
];

/// kube-proxy, iptables and ipset, started by their own loader.
pub(crate) struct Programs {
    folder: PathBuf,
    scripts: tempfile::TempDir,
}

/// Whether this is a guest of `cargo xtask kernels`.
pub(crate) fn is_guest() -> bool {
    fs::read("/init").is_ok() && Path::new("/modules").is_dir()
}

impl Programs {
    /// Looks for them where a guest has them.
    pub(crate) fn find() -> Option<Self> {
        // A guest has no folders but those with files, so that ".." leads nowhere.
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2);
        let folder: PathBuf = root?.join(FOLDER);
        if !folder.join("kube-proxy").is_file() {
            return None;
        }
        let scripts = tempfile::tempdir().unwrap();
        let programs = Self { folder, scripts };
        for tool in TOOLS {
            programs.script(tool, "xtables-nft-multi");
        }
        programs.script("ipset", "ipset");
        programs.script("kube-proxy", "kube-proxy");
        Some(programs)
    }

    fn script(&self, name: &str, program: &str) {
        let folder = self.folder.display();
        let text = format!(
            "#!/bin/sh\nexport XTABLES_LIBDIR={folder}/xtables\n\
             exec {folder}/ld.so --library-path {folder} --argv0 {name} {folder}/{program} \"$@\"\n"
        );
        let path = self.scripts.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn command(&self, name: &str) -> Command {
        let mut command = Command::new(self.scripts.path().join(name));
        command.env("PATH", format!("{}:/bin", self.scripts.path().display()));
        command
    }

    /// Runs one of them in a namespace and returns what it prints.
    pub(crate) fn run(&self, namespace: &Namespace, name: &str, args: &[&str]) -> String {
        let mut command = self.command(name);
        command.args(args);
        let output = namespace.run(move || command.output()).unwrap().unwrap();
        assert!(output.status.success(), "{name}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

/// See the module.
pub(crate) struct KubeProxy {
    process: Child,
    folder: tempfile::TempDir,
}

impl KubeProxy {
    /// Starts it in a node's namespace.
    pub(crate) fn start(programs: &Programs, node: &Namespace) -> Self {
        let listener = node
            .run(|| TcpListener::bind("127.0.0.1:0"))
            .unwrap()
            .unwrap();
        let server = format!("http://{}", listener.local_addr().unwrap());
        thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.unwrap();
                thread::spawn(move || answer(&connection));
            }
        });
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: Json| {
            let path = folder.path().join(name);
            fs::write(&path, text.to_string()).unwrap();
            path
        };
        let kubeconfig = put(
            "kubeconfig",
            json!({
                "apiVersion": "v1", "kind": "Config", "current-context": "it",
                "clusters": [{"name": "it", "cluster": {"server": server}}],
                "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
                "users": [{"name": "it", "user": {}}],
            }),
        );
        let config = put(
            "config",
            json!({
                "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
                "mode": "ipvs", "clusterCIDR": "10.0.0.0/8", "hostnameOverride": "node-a",
                "clientConnection": {"kubeconfig": kubeconfig, "contentType": "application/json"},
                "conntrack": {"maxPerCore": 0, "min": 0},
            }),
        );
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let mut command = programs.command("kube-proxy");
        command
            .arg("--config")
            .arg(config)
            .arg("--v=2")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let process = node.run(move || command.spawn()).unwrap().unwrap();
        Self { process, folder }
    }

    /// Waits until something is so.
    pub(crate) fn until(&self, mut done: impl FnMut() -> bool) {
        let start = Instant::now();
        while !done() {
            let log = || fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(start.elapsed() < PATIENCE, "{}", log());
            // It tells nobody.
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends it; what it made stays.
    pub(crate) fn stop(mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Answers the requests of a connection; a watch is held open and says nothing.
fn answer(connection: &TcpStream) {
    let mut reader = BufReader::new(connection);
    loop {
        let mut head = Vec::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if line == "\r\n" {
                break;
            }
            head.push(line.trim_end().to_owned());
        }
        let length = head.iter().find_map(|line| {
            let (name, value) = line.split_once(": ")?;
            name.eq_ignore_ascii_case("content-length").then_some(value)
        });
        let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
        reader.read_exact(&mut body).unwrap();
        let mut words = head[0].split(' ');
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let mut out = connection;
        if target.contains("watch=true") && !target.contains("sendInitialEvents") {
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\
                        Transfer-Encoding: chunked\r\n\r\n";
            out.write_all(head.as_bytes()).unwrap();
            // Until the other side has enough.
            let _ = reader.read(&mut [0]);
            return;
        }
        let (status, reply) = reply(method, target, &body);
        let head = format!(
            "HTTP/1.1 {status} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            reply.len()
        );
        if out.write_all(&[head.into_bytes(), reply].concat()).is_err() {
            return;
        }
    }
}

fn reply(method: &str, target: &str, body: &[u8]) -> (u16, Vec<u8>) {
    let list = |api: &str, kind: &str, items: Json| json!({"apiVersion": api, "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items});
    let path = target.split('?').next().unwrap();
    // A streaming list is refused; then it lists as ever.
    let (status, reply) = match (method, path) {
        _ if target.contains("sendInitialEvents") => (400, failure(400)),
        ("GET", "/api/v1/nodes") => (200, list("v1", "NodeList", json!([node()]))),
        ("GET", "/api/v1/nodes/node-a") => (200, node()),
        ("GET", "/api/v1/services") => (200, list("v1", "ServiceList", json!([service()]))),
        ("GET", "/apis/discovery.k8s.io/v1/endpointslices") => {
            let api = "discovery.k8s.io/v1";
            (200, list(api, "EndpointSliceList", json!([slice()])))
        }
        ("GET", "/apis/networking.k8s.io/v1/servicecidrs") => {
            let api = "networking.k8s.io/v1";
            (200, list(api, "ServiceCIDRList", json!([])))
        }
        ("POST", _) => return (201, body.to_vec()),
        _ => (404, failure(404)),
    };
    (status, reply.to_string().into_bytes())
}

fn failure(code: u16) -> Json {
    json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code})
}

fn metadata(name: &str) -> Json {
    json!({"name": name, "namespace": "shop", "resourceVersion": "1", "uid": name})
}

fn node() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-a", "resourceVersion": "1", "uid": "n"},
        "spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]},
        "status": {"addresses": [{"type": "InternalIP", "address": "192.168.0.2"}]}
    })
}

fn service() -> Json {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": metadata("s1"),
        "spec": {"type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"],
                 "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                 "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                 "ports": [{"name": "http", "protocol": "TCP", "port": 80, "targetPort": 8080}]}
    })
}

fn slice() -> Json {
    let mut metadata = metadata("s1");
    metadata["labels"] = json!({"kubernetes.io/service-name": "s1"});
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata,
        "addressType": "IPv4",
        "ports": [{"name": "http", "protocol": "TCP", "port": 8080}],
        "endpoints": [{"addresses": ["10.1.0.1"], "conditions": {"ready": true}}]
    })
}
