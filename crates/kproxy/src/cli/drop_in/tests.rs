//! Command lines as clusters have them.

use svc_planner::config::LocalDetector;

use super::*;
use crate::config::{Configz, KubeProxyConfiguration};
use crate::node::SourceSettings;

fn parsed(line: &str) -> Result<(Given, Own), String> {
    let arguments = line.split_whitespace().skip(1).map(OsString::from);
    match Asked::by(arguments) {
        Ok(Asked::Run { given, own }) => Ok((given, *own)),
        Ok(Asked::Help) => panic!("help"),
        Err(error) => Err(error.to_string()),
    }
}

fn config(line: &str) -> KubeProxyConfiguration {
    let (given, _) = parsed(line).unwrap();
    given.complete(false).unwrap().config
}

#[test]
fn flags_are_spelled_as_for_kube_proxy() {
    for line in [
        "kproxy --proxy-mode=nftables --masquerade-all",
        "kproxy --proxy-mode nftables --masquerade-all=true",
        "kproxy --proxy_mode=nftables --masquerade_all=T",
        "kproxy --proxy-mode=ipvs --proxy-mode=nftables --masquerade-all=false --masquerade-all",
    ] {
        let config = config(line);
        assert!(config.nftables.masquerade_all, "{line}");
    }
    for line in [
        "kproxy -v=3",
        "kproxy -v 3",
        "kproxy -v3",
        "kproxy --v=3",
        "kproxy --v 3",
    ] {
        assert_eq!(config(line).logging.verbosity, 3, "{line}");
    }
    let lists =
        config("kproxy --nodeport-addresses=primary,10.0.0.0/8 --nodeport-addresses fd00::/8");
    let expected = ["primary", "10.0.0.0/8", "fd00::/8"].map(str::to_owned);
    assert_eq!(lists.node_port_addresses, Some(expected.to_vec()));
    // A value may look like a flag.
    assert_eq!(config("kproxy --oom-score-adj -5").oom_score_adj, Some(-5));
}

#[test]
fn wrong_command_lines_are_refused_by_name() {
    for (line, message) in [
        ("kproxy --bogus", "--bogus"),
        ("kproxy extra", "extra"),
        ("kproxy --masquerade-all true", "true"),
        ("kproxy --config", "--config"),
        (
            "kproxy --bind-address foo",
            "invalid argument \"foo\" for \"--bind-address\" flag: \"foo\" is not a valid IP address",
        ),
        (
            "kproxy --conntrack-max-per-core=abc",
            "invalid argument \"abc\" for \"--conntrack-max-per-core\" flag: \
             strconv.ParseInt: parsing \"abc\": invalid syntax",
        ),
    ] {
        let error = parsed(line).map(|_| ()).unwrap_err();
        assert!(error.contains(message), "{line}: {error}");
    }
}

/// kubeadm's DaemonSet, EKS's and GKE's command lines.
#[test]
fn clusters_as_they_are() {
    let (given, own) =
        parsed("kproxy --config=/var/lib/kube-proxy/config.conf --hostname-override=ip-10-0-0-1")
            .unwrap();
    assert_eq!(
        given.text("config"),
        Some("/var/lib/kube-proxy/config.conf")
    );
    assert_eq!(own.source, SourceSpec::Api);

    let (eks, _) =
        parsed("kproxy --v=2 --config=/var/lib/kube-proxy-config/config --hostname-override=n")
            .unwrap();
    assert_eq!(
        eks.text("config"),
        Some("/var/lib/kube-proxy-config/config")
    );

    let gke = "kproxy --master=https://10.128.0.2 --kubeconfig=/var/lib/kube-proxy/kubeconfig \
        --cluster-cidr=10.8.0.0/14 --oom-score-adj=-998 --v=2 --feature-gates=DynamicKubeletConfig=false \
        --iptables-sync-period=1m --iptables-min-sync-period=10s --ipvs-sync-period=1m \
        --ipvs-min-sync-period=10s --detect-local-mode=NodeCIDR --nodeport-addresses=primary";
    let (given, own) = parsed(gke).unwrap();
    let complete = given.complete(false).unwrap();
    let config = &complete.config;
    assert_eq!(config.oom_score_adj, Some(-998));
    assert_eq!(config.periods().sync.as_secs(), 60);
    assert_eq!(config.periods().min_sync.as_secs(), 10);
    let settings = own.settings(&complete, given.text("master"), &Configz::default());
    let SourceSettings::Api(connection) = settings.source else {
        panic!("{settings:?}");
    };
    assert_eq!(connection.master.as_deref(), Some("https://10.128.0.2"));
    let kubeconfig = connection.kubeconfig.unwrap();
    assert_eq!(kubeconfig, Path::new("/var/lib/kube-proxy/kubeconfig"));
    assert_eq!(settings.ipv4.local, LocalDetector::NodeCidr);
}

#[test]
fn help_lists_every_flag_that_is_to_be_used() {
    let help = command().render_long_help().to_string();
    for flag in FLAGS {
        let listed = help.contains(&format!("--{} ", flag.name))
            || help.contains(&format!("--{}[", flag.name));
        assert_eq!(listed, flag.is_shown(), "{}", flag.name);
    }
}
