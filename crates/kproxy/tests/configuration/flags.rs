//! Flags.

use kproxy::config::{FLAGS, FlagKind, Target};

use crate::oracle::{Outcome, Pair, assert_same};

/// A value for a flag, and one that it cannot have.
fn samples(name: &str, kind: FlagKind) -> (&'static str, Option<&'static str>) {
    match name {
        "cluster-cidr" => ("10.244.0.0/16,fd00::/56", None),
        "detect-local-mode" => ("NodeCIDR", None),
        "proxy-mode" => ("nftables", None),
        "logging-format" => ("json", None),
        "nodeport-addresses" => ("primary,10.0.0.0/8", None),
        "ipvs-exclude-cidrs" => ("10.0.0.0/8,fd00::/8", None),
        "feature-gates" => ("NFTablesNetlink=false", Some("NFTablesNetlink=maybe")),
        _ => match kind {
            FlagKind::Bool => ("true", Some("maybe")),
            FlagKind::Int32 => ("7", Some("seven")),
            FlagKind::Float32 => ("1.5", Some("x")),
            FlagKind::Text => ("some-text", None),
            FlagKind::Duration => ("90s", Some("90")),
            FlagKind::Texts => ("a,b", None),
            FlagKind::Ip => ("10.1.2.3", Some("foo")),
            FlagKind::IpPort => ("10.1.2.3:1234", Some("foo")),
            FlagKind::Gates => ("A=true", Some("A")),
            FlagKind::Level => ("4", Some("-1")),
            FlagKind::Levels => ("a=1,b=2", Some("a")),
            FlagKind::Quantity => ("4Ki", Some("lots")),
        },
    }
}

#[test]
fn every_flag_sets_what_it_sets_in_kube_proxy() {
    let Some(pair) = Pair::new() else { return };
    for flag in FLAGS {
        let is_own = matches!(flag.target, Target::Process | Target::Nothing(_));
        // Whatever release a kube-proxy is built as, no version is the one before it.
        if is_own || flag.name == "show-hidden-metrics-for-version" {
            continue;
        }
        let (good, bad) = samples(flag.name, flag.kind);
        let gate = "--feature-gates=LoggingAlphaOptions=true";
        let equals = format!("--{}={good}", flag.name);
        assert_same(&equals, pair.args(&[gate, &equals]));
        if flag.kind != FlagKind::Bool {
            let apart = format!("--{}", flag.name);
            assert_same(&apart, pair.args(&[gate, &apart, good]));
        }
        if let Some(bad) = bad {
            let equals = format!("--{}={bad}", flag.name);
            let [real, ours] = pair.args(&[&equals]);
            assert!(matches!(real, Outcome::Refused(_)), "{equals}: {real:?}");
            assert!(matches!(ours, Outcome::Refused(_)), "{equals}: {ours:?}");
        }
    }
}

#[test]
fn command_lines_mean_the_same() {
    let Some(pair) = Pair::new() else { return };
    for line in [
        "",
        "--masquerade-all",
        "--masquerade-all=false",
        "--masquerade_all --proxy_mode=nftables --bind_address 1.2.3.4",
        "--masquerade-all true",
        "--proxy-mode=nftables --masquerade-all --iptables-sync-period=7s --iptables-masquerade-bit=5",
        "--proxy-mode=ipvs --ipvs-min-sync-period=3s --iptables-sync-period=9s",
        "--proxy-mode=ipvs",
        "--bind-address=::1",
        "--healthz-bind-address=",
        "--healthz-bind-address=1.2.3.4",
        "--metrics-bind-address=::1",
        "--healthz-port=0",
        "--nodeport-addresses=10.0.0.0/8,primary --nodeport-addresses fd00::/8",
        "--feature-gates=NFTablesNetlink=false --feature-gates KubeProxyNFTablesLocalhostNodePorts=1",
        "-v=3",
        "-v 4",
        "-v4",
        "--v=5",
        "--vmodule=a=1,b=2",
        "--logging-format=json -v 2",
        "--log-flush-frequency=1s",
        "--log-json-split-stream",
        "--log-json-info-buffer-size=4Ki",
        "--log-text-split-stream --feature-gates=LoggingAlphaOptions=true",
        "extra",
        "--bogus",
        "--hostname-override=Foo",
        "--hostname-override=",
        "--oom-score-adj -5",
        "--oom-score-adj=0x10",
        "--config-sync-period=1h30m0.5s",
        "--config=/nowhere/at/all",
        "--bind-address=",
        "--bind-address=1.2.3.4 --bind-address=",
        "--feature-gates=LoggingBetaOptions=false --logging-format=json",
        "--log-flush-frequency=0",
        "--oom-score-adj=1_000",
        "--nodeport-addresses=\"primary\",\"10.0.0.0/8\"",
        "--version=0",
        "--version=false",
        "-v=+4",
        "--no-masquerade-all",
        "---x",
        "-x",
        "--master=http://y --kubeconfig=/x --kube-api-qps=1.1 --kube-api-burst=3",
        "--help=false",
        // An argument that is empty, as templates leave one.
        "--v=2 ",
        "--v=2  --bogus",
        "--v=2 -- --v=3",
        "--metrics-bind-address=0.0.0.0:+1",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let args = if line.is_empty() { Vec::new() } else { args };
        assert_same(line, pair.args(&args));
    }
}

/// Whatever is wrong with the command line itself: pflag's words and kube-proxy's exit code.
#[test]
fn command_lines_are_refused_in_the_same_words() {
    let Some(pair) = Pair::new() else { return };
    for line in [
        "--bogus",
        "--bogus=1",
        "--no-masquerade-all",
        "-x",
        "---x",
        "--v",
        "-v",
        "-hx",
        "-h --bogus",
        "extra --bogus_flag",
        "--oom-score-adj=x --bogus",
        "--bogus --oom-score-adj=x",
        "--help --oom-score-adj=x",
        "--help=foo",
        "--version=",
        "--version=foo",
        "--version --bogus",
        "--init-only=maybe",
        "--metrics-bind-address=0.0.0.0:+1",
        "--kubeconfig",
        "--v=1 --v",
        "-v=x",
        "-v=+4",
        "-v=0x4",
        "-v -1",
        "-v true",
        "--v=2147483648",
        "--v=4294967296",
        "--vmodule=a",
        "--vmodule=a=x",
        "--vmodule=a=-1",
        "--vmodule=a=1=2",
        "--feature-gates=NFTablesNetlink",
        "--feature-gates=NFTablesNetlink=",
        "--feature-gates=NFTablesNetlink=tRuE",
        "--healthz-bind-address=0",
        "--healthz-bind-address=[::]",
        "--metrics-bind-address=all",
        "--metrics-bind-address=::1:2:x:y:",
        "--kube-api-qps=1e40",
        "--kube-api-qps=x",
        "--masquerade-all=maybe",
        "--oom-score-adj=1__0",
        "--oom-score-adj=2147483648",
        "--nodeport-addresses=\"a",
        "--nodeport-addresses=a\"b",
        "--ipvs-sync-period=1",
    ] {
        let args: Vec<_> = line.split_whitespace().collect();
        let [real, ours] = pair.complaints(&args);
        assert_eq!(real, ours, "{line}");
    }
}

#[test]
fn values_are_refused_in_the_same_words() {
    let Some(pair) = Pair::new() else { return };
    for (line, prefix) in [
        ("--conntrack-min=-4", "failed validate: "),
        ("--oom-score-adj=-1001", "failed validate: "),
        ("--config-sync-period=0", "failed validate: "),
        ("--proxy-mode=bogus", "failed validate: "),
        ("--detect-local-mode=bogus", "failed validate: "),
        ("--cluster-cidr=a,b", "failed validate: "),
        (
            "--nodeport-addresses=a,b --nodeport-addresses c",
            "failed validate: ",
        ),
        ("--logging-format=xml", "initialize logging: "),
        ("--log-flush-frequency=0", "initialize logging: "),
        (
            "--feature-gates=LoggingBetaOptions=false --logging-format=json",
            "initialize logging: ",
        ),
        ("--nodeport-addresses=all,all", "failed validate: "),
        (
            "--log-json-split-stream --logging-format=json",
            "initialize logging: ",
        ),
    ] {
        let args: Vec<_> = line.split_whitespace().collect();
        let [real, ours] = pair.args(&args).map(|it| it.reason(prefix));
        assert_eq!(real, ours, "{line}");
    }
}
