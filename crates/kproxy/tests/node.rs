//! The own Node and the host's addresses: waited for, and followed while `kproxy run` is at work.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

mod sandbox;

use core::net::IpAddr;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStderr, Stdio};
use std::thread;

use netns_lab::{add_address, remove_address};
use nft_batch::Events;
use rustix::io::Errno;
use rustix::net::AddressFamily;
use sandbox::{Sandbox, sandboxed, service, slice};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};
use serde_json::{Value as Json, json};
use svc_planner::plan::{DataType, Family, Key, KeyType};

/// The Node `node-a`.
fn node(addresses: &[&str], pod_cidrs: &[&str]) -> Json {
    let addresses: Vec<_> = addresses
        .iter()
        .map(|address| json!({"type": "InternalIP", "address": address}))
        .collect();
    json!({
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"},
        "spec": {"podCIDRs": pod_cidrs},
        "status": {"addresses": addresses}
    })
}

/// `kproxy run` on the sandbox's folder as Node `node-a`; killed with the test.
struct Running {
    process: Child,
    log: Lines<BufReader<ChildStderr>>,
}

impl Running {
    fn start(sandbox: &Sandbox, more: &[&str]) -> Self {
        let source = format!("dir:{}", sandbox.folder().display());
        let args = [
            "run",
            "--source",
            &source,
            "--node-name",
            "node-a",
            "--min-sync-period",
            "0",
        ];
        let mut command = sandbox.node_command(&[&args, more].concat());
        let mut process = command.stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap()).lines();
        Self { process, log }
    }

    /// Waits for a line on standard error; returns those before it.
    fn until(&mut self, part: &str) -> Vec<String> {
        let mut before = Vec::new();
        for line in &mut self.log {
            let line = line.unwrap();
            if line.contains(part) {
                return before;
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

/// Which of these addresses node ports are served on.
fn serving(sandbox: &mut Sandbox, addresses: &[&str]) -> Vec<String> {
    let mut served = Vec::new();
    for text in addresses {
        let address: IpAddr = text.parse().unwrap();
        let family = Family::of(address);
        let set = sandbox.set(family, "nodeport-ips");
        let types = (KeyType::Address, DataType::None);
        if sandbox
            .row(family, &set, types, &Key::Address(address))
            .is_some()
        {
            served.push((*text).to_owned());
        }
    }
    served
}

/// Gives the host addresses.
fn on_interfaces(addresses: &[&str]) {
    for address in addresses {
        add_address("lo", address.parse().unwrap()).unwrap();
    }
}

#[test]
fn what_is_there_stays_until_the_node_is_known() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        on_interfaces(&["192.0.2.1"]);
        sandbox.write_web("web.json", "10.1.0.1");
        sandbox.apply(&[]);
        sandbox.write_web("web.json", "10.1.0.2");
        // Another one's Node is no reason to begin.
        sandbox.write_json(
            "other.json",
            &[json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}})],
        );
        let before = sandbox.connection.generation().unwrap();
        let mut running = Running::start(&sandbox, &[]);
        running.until("waiting for Node node-a");
        assert_eq!(sandbox.connection.generation().unwrap(), before);

        sandbox.write_json("node.json", &[node(&["192.0.2.1"], &[])]);
        let moved = Some("10.1.0.2:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        sandbox.until(&mut events, |it| {
            serving(it, &["192.0.2.1"]) == ["192.0.2.1"]
        });

        // Deleted later: its last facts stay in use, and changes go on.
        std::fs::remove_file(sandbox.path("node.json")).unwrap();
        running.until("the own Node is gone");
        sandbox.write_web("web.json", "10.1.0.3");
        let moved = Some("10.1.0.3:8080".to_owned());
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0) == moved);
        assert_eq!(serving(&mut sandbox, &["192.0.2.1"]), ["192.0.2.1"]);
    });
}

#[test]
fn without_any_node_manifests_are_served() {
    sandboxed(|mut sandbox| {
        sandbox.write_web("web.json", "10.1.0.1");
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        for more in [&[][..], &["--node-name", "node-a"]] {
            let args = [&["apply", "-f", &folder], more].concat();
            let output = sandbox.node_command(&args).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(text.contains("no Node among the manifests"), "{text}");
            assert!(sandbox.route("10.96.0.10", 80).is_some());
        }
    });
}

#[test]
fn a_folder_without_any_node_is_watched_unless_one_is_named() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        sandbox.write_web("web.json", "10.1.0.1");
        let source = format!("dir:{}", sandbox.folder().display());
        let mut command = sandbox.node_command(&["run", "--source", &source]);
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        sandbox.until(&mut events, |it| it.route("10.96.0.10", 80).is_some());
        process.kill().unwrap();
        process.wait().unwrap();
    });
}

#[test]
fn once_means_with_the_node_or_not_at_all() {
    sandboxed(|mut sandbox| {
        on_interfaces(&["192.0.2.1"]);
        sandbox.write_web("web.json", "10.1.0.1");
        // Somebody else's.
        sandbox.write_json(
            "other.json",
            &[json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}})],
        );
        let folder = sandbox.folder().to_str().unwrap().to_owned();
        for command in ["apply", "plan"] {
            let args = [command, "-f", &folder, "--node-name", "node-a"];
            let output = sandbox.node_command(&args).output().unwrap();
            assert_eq!(output.status.code(), Some(1), "{output:?}");
            let text = String::from_utf8(output.stderr).unwrap();
            assert!(text.contains("no Node node-a"), "{text}");
            assert!(text.contains("--no-node"), "{text}");
        }
        assert_eq!(sandbox.route("10.96.0.10", 80), None);
        sandbox.write_json("node.json", &[node(&["192.0.2.1"], &[])]);
        let args = ["apply", "-f", &folder, "--node-name", "node-a"];
        let output = sandbox.node_command(&args).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(sandbox.route("10.96.0.10", 80).is_some());
        assert_eq!(serving(&mut sandbox, &["192.0.2.1"]), ["192.0.2.1"]);
    });
}

#[test]
fn node_addresses_change_without_a_restart() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let all = ["192.0.2.1", "192.0.2.2", "2001:db8::1", "2001:db8::2"];
        on_interfaces(&all);
        sandbox.write_json("node.json", &[node(&[all[0], all[2]], &[])]);
        let _running = Running::start(&sandbox, &[]);
        let expected = [all[0], all[2]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
        sandbox.write_json("node.json", &[node(&[all[1], all[3]], &[])]);
        let expected = [all[1], all[3]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
        // No interface has one of them any more, and then has it again.
        remove_address("lo", all[1].parse().unwrap()).unwrap();
        sandbox.until(&mut events, |it| serving(it, &all) == [all[3]]);
        on_interfaces(&[all[1]]);
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
    });
}

#[test]
fn a_bind_address_is_the_primary_one() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let all = ["192.0.2.1", "192.0.2.9", "2001:db8::1"];
        on_interfaces(&all);
        sandbox.write_json("node.json", &[node(&[all[0], all[2]], &[])]);
        let _running = Running::start(&sandbox, &["--bind-address", "192.0.2.9"]);
        let expected = [all[1], all[2]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
    });
}

#[test]
fn addresses_of_interfaces_are_served_as_they_come_and_go() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        let all = [
            "192.0.2.1",
            "192.0.2.2",
            "198.51.100.1",
            "2001:db8::1",
            "127.0.0.1",
        ];
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        on_interfaces(&[all[0], all[2]]);
        sandbox.write_json("node.json", &[node(&["198.51.100.1"], &[])]);
        let prefixes = "192.0.2.0/24,2001:db8::/64,127.0.0.0/8,primary";
        let _running = Running::start(&sandbox, &["--nodeport-addresses", prefixes]);
        let expected = [all[0], all[2]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
        add_address("lo", ip(all[1])).unwrap();
        add_address("lo", ip(all[3])).unwrap();
        let expected = [all[0], all[1], all[2], all[3]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
        remove_address("lo", ip(all[0])).unwrap();
        let expected = [all[1], all[2], all[3]];
        sandbox.until(&mut events, |it| serving(it, &all) == expected);
    });
}

#[test]
fn what_is_hardly_meant_is_said_once() {
    sandboxed(|sandbox| {
        sandbox.write_json(
            "all.json",
            &[
                node(&["192.0.2.1", "2001:db8::1"], &["10.1.0.0/24"]),
                service("web", "10.96.0.10"),
                slice("web", &["10.1.0.1"]),
            ],
        );
        let options = [
            "--nodeport-addresses=192.0.2.0/24",
            "--detect-local-mode=NodeCIDR",
            "-v",
        ];
        let mut running = Running::start(&sandbox, &options);
        let mut lines = running.until("commit");
        // Other changes say nothing of it again.
        for host in 2..5 {
            sandbox.write_json(
                "web.json",
                &[
                    service("api", &format!("10.96.0.{host}")),
                    slice("api", &["10.1.0.1"]),
                ],
            );
            lines.extend(running.until("commit"));
        }
        let warnings: Vec<_> = lines.iter().filter(|line| line.contains("WARN")).collect();
        let [everywhere, detector] = warnings.as_slice() else {
            panic!("{warnings:#?}");
        };
        assert!(
            everywhere.contains("ip6: node ports are served on all addresses"),
            "{everywhere}"
        );
        assert!(
            detector
                .contains("ip6: local traffic is not told from other: the Node has no pod CIDR"),
            "{detector}"
        );
    });
}

#[test]
fn a_node_whose_ipv6_is_switched_off_is_served() {
    sandboxed(|mut sandbox| {
        let mut events = Events::open().unwrap();
        for scope in ["all", "default"] {
            let file = format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6");
            std::fs::write(file, "1").unwrap();
        }
        let mut web = service("web", "10.96.0.10");
        web["spec"]["clusterIPs"] = json!(["10.96.0.10", "fd00:10:96::10"]);
        sandbox.write_json(
            "all.json",
            &[
                node(&["192.0.2.1"], &[]),
                web,
                slice("web", &["10.1.0.1"]),
                slice("web", &["fd00:10:1::1"]),
            ],
        );
        let _running = Running::start(&sandbox, &["--nodeport-addresses=192.0.2.0/24,::/0"]);
        sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
        let six = Some("[fd00:10:1::1]:8080".to_owned());
        sandbox.until(&mut events, |it| {
            it.endpoint("fd00:10:96::10", 80, 0) == six
        });
    });
}

/// Has this thread, and what it starts, find a kernel that makes no socket of IPv6 (`ipv6.disable=1`).
fn without_ipv6() {
    let six = u64::from(AddressFamily::INET6.as_raw());
    let of_it = SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, six).unwrap();
    let missing = u32::try_from(Errno::AFNOSUPPORT.raw_os_error()).unwrap();
    let filter = SeccompFilter::new(
        [(
            libc::SYS_socket,
            vec![SeccompRule::new(vec![of_it]).unwrap()],
        )]
        .into(),
        SeccompAction::Allow,
        SeccompAction::Errno(missing),
        std::env::consts::ARCH.try_into().unwrap(),
    );
    let program: BpfProgram = filter.unwrap().try_into().unwrap();
    seccompiler::apply_filter(&program).unwrap();
}

/// B102: everything else is of both families. Only a Node that is first of all one of IPv6 is an error.
#[test]
fn without_ipv6_in_the_kernel_ipv4_is_served() {
    for addresses in [["192.0.2.1", "2001:db8::1"], ["2001:db8::1", "192.0.2.1"]] {
        sandboxed(move |mut sandbox| {
            let mut events = Events::open().unwrap();
            on_interfaces(&addresses);
            let mut web = service("web", "10.96.0.10");
            web["spec"]["clusterIPs"] = json!(["10.96.0.10", "fd00:10:96::10"]);
            sandbox.write_json(
                "all.json",
                &[
                    node(&addresses, &["10.1.0.0/24", "fd00:10:1::/64"]),
                    web,
                    slice("web", &["10.1.0.1"]),
                    slice("web", &["fd00:10:1::1"]),
                ],
            );
            let options = [
                "--cluster-cidr=10.1.0.0/16,fd00:10::/32",
                "--nodeport-addresses=0.0.0.0/0,::/0",
                "--healthz-bind-address=0.0.0.0:10256",
                "-v",
            ];
            let mut running = thread::scope(|scope| {
                let starting = scope.spawn(|| {
                    without_ipv6();
                    Running::start(&sandbox, &options)
                });
                starting.join().unwrap()
            });
            let said = running.until("ip: in force");
            sandbox.until(&mut events, |it| it.endpoint("10.96.0.10", 80, 0).is_some());
            let listed = sandbox.nft(&["list", "tables"]);
            let tables = String::from_utf8(listed.stdout).unwrap();
            assert_eq!(
                tables, "table ip kube-proxy\n",
                "there is nothing to use another for"
            );
            let errors: Vec<_> = said.iter().filter(|it| it.contains("ERROR")).collect();
            let is_first = addresses[0].contains(':');
            assert_eq!(errors.len(), usize::from(is_first), "{said:#?}");
            for error in errors {
                let expected = "ip6: the Node's first family, which this kernel lacks";
                assert!(error.contains(expected), "{error}");
            }
        });
    }
}
