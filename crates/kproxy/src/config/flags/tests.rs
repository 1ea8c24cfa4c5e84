//! What flags say, alone and beside a file.

use super::*;

fn given(args: &[(&str, &str)]) -> Given {
    let mut given = Given::default();
    for (name, text) in args {
        let flag = FLAGS.iter().find(|flag| flag.name == *name).unwrap();
        given.add(flag, text).unwrap();
    }
    given
}

fn alone(args: &[(&str, &str)]) -> KubeProxyConfiguration {
    given(args).complete(false).unwrap().config
}

fn file(text: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    let header = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
    std::fs::write(file.path(), format!("{header}{text}")).unwrap();
    file
}

#[test]
fn no_flag_at_all_is_the_default() {
    assert_eq!(alone(&[]), KubeProxyConfiguration::defaults());
}

#[test]
fn flags_of_the_mode_set_its_section() {
    let config = alone(&[
        ("masquerade-all", "true"),
        ("iptables-sync-period", "7s"),
        ("ipvs-sync-period", "9s"),
        ("proxy-mode", "nftables"),
    ]);
    assert!(config.nftables.masquerade_all && !config.iptables.masquerade_all);
    let (sync, min_sync) = config.periods_of_mode();
    assert_eq!(
        (sync.to_string(), min_sync.to_string()),
        ("7s".into(), "1s".into())
    );
    assert_eq!(config.iptables.sync_period, GoDuration::ZERO);
    assert_eq!(config.node_port_addresses, Some(vec!["primary".to_owned()]));
    let ipvs = alone(&[("proxy-mode", "ipvs"), ("ipvs-sync-period", "9s")]);
    assert_eq!(ipvs.ipvs.sync_period.to_string(), "9s");
    assert_eq!(ipvs.ipvs.min_sync_period.to_string(), "1s");
}

#[test]
fn old_ports_count_where_the_address_has_none() {
    let config = alone(&[
        ("healthz-bind-address", "1.2.3.4"),
        ("healthz-port", "7"),
        ("metrics-bind-address", "[::1]:9"),
        ("metrics-port", "8"),
    ]);
    assert_eq!(config.healthz_bind_address, "1.2.3.4:7");
    assert_eq!(config.metrics_bind_address, "[::1]:9");
    let none = alone(&[("healthz-port", "0"), ("metrics-bind-address", "")]);
    assert_eq!(none.healthz_bind_address, "");
    assert_eq!(none.metrics_bind_address, "");
    assert_eq!(none.sites(), crate::node::SiteSettings::default());
}

#[test]
fn beside_a_file_few_flags_count() {
    let file = file(
        "mode: nftables\nhostnameOverride: Foo\nlogging: {verbosity: 1, \
         vmodule: [{filePattern: a, verbosity: 1}]}\n",
    );
    let path = file.path().to_str().unwrap();
    let complete = given(&[
        ("config", path),
        ("hostname-override", " Bar "),
        ("v", "7"),
        ("vmodule", "b=2"),
        ("proxy-mode", "ipvs"),
        ("master", "http://x"),
    ]);
    let complete = complete.complete(false).unwrap();
    assert_eq!(complete.config.hostname_override, "bar");
    assert_eq!(complete.config.mode, "nftables");
    assert_eq!(complete.config.logging.verbosity, 7);
    let patterns = complete.config.logging.vmodule.iter();
    let patterns: Vec<_> = patterns.map(|item| item.file_pattern.as_str()).collect();
    assert_eq!(patterns, ["b", "a"]);
    let [warning] = &*complete.warnings else {
        panic!("{:?}", complete.warnings);
    };
    assert!(warning.contains("--proxy-mode does not count"), "{warning}");
}

#[test]
fn what_is_accepted_is_warned_about_unless_it_says_nothing() {
    let file = file(
        "mode: nftables\nipvs: {scheduler: rr, strictARP: false, tcpTimeout: 0s}\n\
         iptables: {masqueradeBit: 14, syncPeriod: 10s}\nconfigSyncPeriod: 0s\n\
         enableProfiling: true\nportRange: \"\"\n",
    );
    let path = file.path().to_str().unwrap();
    let warnings = given(&[("config", path)]).complete(false).unwrap().warnings;
    let names: Vec<_> = warnings
        .iter()
        .filter_map(|it| it.split(' ').next())
        .collect();
    let expected = ["enableProfiling", "iptables.syncPeriod", "ipvs.scheduler"];
    assert_eq!(names, expected, "{warnings:?}");
    let flags = given(&[
        ("ipvs-scheduler", "rr"),
        ("profiling", "false"),
        ("healthz-port", "1"),
    ]);
    let warnings = flags.complete(false).unwrap().warnings;
    assert_eq!(warnings.len(), 2, "{warnings:?}");
}

#[test]
fn a_strict_reader_refuses_what_a_lenient_one_passes_over() {
    let file = file("foo: 1\n");
    let flags = given(&[("config", file.path().to_str().unwrap())]);
    let lenient = flags.complete(false).unwrap();
    assert!(lenient.warnings[0].contains("unknown field \"foo\""));
    assert!(matches!(
        flags.complete(true),
        Err(ConfigError::Strict { .. })
    ));
}

#[test]
fn a_host_name_of_spaces_is_refused() {
    let flags = given(&[("hostname-override", "  ")]);
    assert!(matches!(
        flags.complete(false),
        Err(ConfigError::EmptyHostname)
    ));
}
