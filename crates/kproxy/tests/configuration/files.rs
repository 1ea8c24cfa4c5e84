//! Files.

use core::fmt::Write as _;

use kproxy::config::{Field, Kind, fields};
use serde_json::{Map, Value, json};

use crate::oracle::{HEADER, Outcome, Pair, assert_same};

/// A value for a field that is not what it has by default.
fn sample(field: &Field) -> Value {
    match field.path {
        "bindAddress" => "10.1.2.3".into(),
        "clusterCIDR" => "10.244.0.0/16,fd00:244::/56".into(),
        "detectLocalMode" => "BridgeInterface".into(),
        "healthzBindAddress" => "10.1.2.3:1234".into(),
        "metricsBindAddress" => "[::1]:4321".into(),
        "nodePortAddresses" => json!(["primary", "10.0.0.0/8", "fd00::/8"]),
        "ipvs.excludeCIDRs" => json!(["10.0.0.0/8"]),
        // Whatever release a kube-proxy is built as, this is not the one before it.
        "showHiddenMetricsForVersion" => "".into(),
        "featureGates" => json!({"LoggingAlphaOptions": true, "NFTablesNetlink": false}),
        "logging.format" => "text".into(),
        _ => match field.kind {
            Kind::Bool => json!(field.default != "true"),
            Kind::Integer => 7.into(),
            Kind::Number => 1.5.into(),
            Kind::Text => "some-text".into(),
            Kind::Duration | Kind::OptionalDuration | Kind::DurationOrNanoseconds => "90s".into(),
            Kind::Quantity => "4Ki".into(),
            Kind::Texts | Kind::Switches => panic!("{} needs a sample", field.path),
        },
    }
}

/// A value of a kind that a field cannot have.
fn wrong(field: &Field) -> &'static str {
    match field.kind {
        Kind::Bool | Kind::Integer | Kind::Number => "\"text\"",
        Kind::Text | Kind::Texts | Kind::Switches => "5",
        Kind::Duration | Kind::OptionalDuration | Kind::DurationOrNanoseconds => "5x",
        Kind::Quantity => "lots",
    }
}

/// A file in which every field has a sample.
fn full(mode: &str) -> String {
    let mut file = json!({});
    for field in fields() {
        let mut here = &mut file;
        for name in field.path.split('.') {
            if here.is_null() {
                *here = Value::Object(Map::new());
            }
            here = &mut here[name];
        }
        *here = sample(field);
    }
    file["mode"] = mode.into();
    let pattern = json!([{"filePattern": "a", "verbosity": 3}]);
    file["logging"]["vmodule"] = pattern;
    file["apiVersion"] = "kubeproxy.config.k8s.io/v1alpha1".into();
    file["kind"] = "KubeProxyConfiguration".into();
    file.to_string()
}

#[test]
fn what_is_written_is_the_same_field_by_field() {
    let Some(pair) = Pair::new() else { return };
    for mode in ["", "iptables", "ipvs", "nftables"] {
        let text = full(mode);
        let outcomes = pair.file(&text, &[]);
        for outcome in outcomes.clone() {
            outcome.written();
        }
        assert_same(mode, outcomes);
        let empty = format!("{HEADER}mode: \"{mode}\"\n");
        assert_same(mode, pair.file(&empty, &[]));
    }
}

#[test]
fn every_field_refuses_what_kube_proxy_refuses() {
    let Some(pair) = Pair::new() else { return };
    for field in fields() {
        let names: Vec<_> = field.path.split('.').collect();
        let mut text = String::from(HEADER);
        for (depth, name) in names.iter().enumerate() {
            let indent = "  ".repeat(depth);
            write!(text, "{indent}{name}:").unwrap();
            text.push_str(if depth + 1 < names.len() { "\n" } else { " " });
        }
        if field.path.starts_with("logging.vmodule.") {
            text = text.replace("vmodule:\n    ", "vmodule:\n    - ");
        }
        let bad = format!("{text}{}\n", wrong(field));
        let [real, ours] = pair.file(&bad, &[]);
        assert!(
            matches!(real, Outcome::Refused(_)),
            "{}: {real:?}",
            field.path
        );
        assert!(
            matches!(ours, Outcome::Refused(_)),
            "{}: {ours:?}",
            field.path
        );
        assert_same(field.path, pair.file(&format!("{text}null\n"), &[]));
    }
}

#[test]
fn files_as_people_write_them_mean_the_same() {
    let Some(pair) = Pair::new() else { return };
    for text in [
        "clusterCIDR: 010.2.3.0/24\n",
        "clusterCIDR: 10.2.3.4/24\n",
        "bindAddress: \"::\"\n",
        "bindAddress: 010.0.0.1\n",
        "healthzBindAddress: 1.2.3.4\nmetricsBindAddress: \"::1\"\n",
        "iptables: {masqueradeAll: yes, masqueradeBit: 0xf}\noomScoreAdj: 010\n",
        "mode: nftables\nnodePortAddresses: []\n",
        "nodePortAddresses: [primary, all, localhost]\n",
        "hostnameOverride: \"  Foo \"\n",
        "mode: nftables\niptables: {syncPeriod: 11s, masqueradeAll: true, masqueradeBit: 3}\n",
        "mode: ipvs\niptables: {syncPeriod: 9s, masqueradeAll: true}\nipvs: {minSyncPeriod: 2s}\n",
        "detectLocalMode: NodeCIDR\nclusterCIDR: garbage\n",
        "nftables: {masqueradeBit: 32}\n",
        "conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s}\n",
        "clientConnection: {qps: -1, burst: 0}\n",
        "logging: {vmodule: [{filePattern: a, verbosity: 1}, {filePattern: b}], verbosity: 3}\n",
        "logging: {format: json}\n",
        "logging: {flushFrequency: 0}\n",
        "mode: nftables\n---\nkind: KubeletConfiguration\n",
        "iptables: {masqueradeBit: 14.0}\nclientConnection: {burst: 1e1}\nlogging: {verbosity: 4.0}\n",
        "iptables: {masqueradeBit: 14.5}\n",
        "iptables: []\n",
        "featureGates: {NFTablesNetlink: null}\n",
        "featureGates: {LoggingBetaOptions: false}\nlogging: {format: json}\n",
        "nodePortAddresses: [primary, primary]\n",
        "nodePortAddresses: [10.0.0.0/8, 10.0.0.0/8]\n",
    ] {
        assert_same(text, pair.file(&format!("{HEADER}{text}"), &[]));
    }
    let json = "{\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\",\n\t\"kind\": \
                \"KubeProxyConfiguration\", \"mode\": \"nftables\", \"mode\": \"ipvs\"}";
    assert_same("JSON", pair.file(json, &[]));
    assert_same(
        "JSON with a flag",
        pair.file(json, &["--hostname-override= Bar", "-v=3"]),
    );
    let cases = HEADER.replace("api", "Api").replace("kind", "KIND");
    let [real, ours] = pair.file(&cases, &[]);
    real.clone().written();
    assert_same("names in other cases", [real, ours]);
    let [_, ours] = pair.file(&format!("{HEADER}clientConnection: {{qps: 1e40}}\n"), &[]);
    let why = ours.reason("failed to decode: ");
    assert!(why.contains("clientConnection.qps"), "{why}");
    for other in [
        "",
        "kind: KubeProxyConfiguration\n",
        "apiVersion: kubeproxy.config.k8s.io/v1alpha2\nkind: KubeProxyConfiguration\n",
        "apiVersion: v1\nkind: Service\n",
        "Twas bryllyg\n",
        "[1]\n",
    ] {
        let [real, ours] = pair.file(other, &[]);
        assert!(matches!(real, Outcome::Refused(_)), "{other}");
        assert!(matches!(ours, Outcome::Refused(_)), "{other}");
    }
}

#[test]
fn what_is_wrong_is_said_in_the_same_words() {
    let Some(pair) = Pair::new() else { return };
    for text in [
        "mode: foo\nbindAddress: 1.2.3.4\ndetectLocalMode: BridgeInterface\n\
         iptables: {masqueradeBit: -1, syncPeriod: -1s}\n",
        "mode: ipvs\nipvs: {scheduler: bogus, tcpTimeout: -1s, tcpFinTimeout: -1s, udpTimeout: -2s, \
         excludeCIDRs: [foo, 1.2.3.4/8], syncPeriod: 1s, minSyncPeriod: -4s}\n",
        "mode: nftables\nnftables: {masqueradeBit: 32, syncPeriod: 1s, minSyncPeriod: 2s}\n\
         iptables: {masqueradeBit: 32}\nbindAddress: foo\nhealthzBindAddress: 1.2.3.4:99999\n\
         metricsBindAddress: bar\nclusterCIDR: 1.2.3.0/24,1.2.4.0/24\n\
         nodePortAddresses: [primary, 1.2.3.4, foo]\noomScoreAdj: 2000\n\
         conntrack: {maxPerCore: -1, min: -2, tcpEstablishedTimeout: -1s, tcpCloseWaitTimeout: -1s, \
         udpTimeout: -1s, udpStreamTimeout: -2s}\nconfigSyncPeriod: -1s\n\
         clientConnection: {burst: -1, qps: -3}\nportRange: xx\n",
        "detectLocalMode: InterfaceNamePrefix\n",
        "detectLocalMode: bridgeinterface\n",
        "clusterCIDR: garbage\n",
        "clusterCIDR: 1.2.3.4/33,fd00::/8\n",
        "clusterCIDR: 1.2.3.0/24,fd00::/8,fd00::/8\n",
        "clusterCIDR: \" 1.2.3.0/24 , fd00::/8\"\n",
        "healthzBindAddress: \":10256\"\n",
        "healthzBindAddress: \"lo:10\"\n",
        "healthzBindAddress: \"1.2.3.4:0\"\n",
        "metricsBindAddress: \"[::1]:http\"\n",
        "bindAddress: \"[::]\"\n",
        "mode: Nftables\n",
    ] {
        let outcomes = pair.file(&format!("{HEADER}{text}"), &[]);
        let [real, ours] = outcomes.map(|it| it.reason("failed validate: "));
        assert_eq!(real, ours, "{text}");
    }
    for text in [
        "logging: {format: xml}\n",
        "logging: {flushFrequency: -1s}\n",
        "logging: {verbosity: 3000000000}\n",
        "logging: {vmodule: [{filePattern: \"a,b=\", verbosity: 4}, {filePattern: \"\"}]}\n",
        "logging: {format: json, vmodule: [{filePattern: a, verbosity: 4}], \
         options: {json: {splitStream: true, infoBufferSize: 4Ki}, text: {splitStream: true}}}\n",
    ] {
        let outcomes = pair.file(&format!("{HEADER}{text}"), &[]);
        let [real, ours] = outcomes.map(|it| it.reason("initialize logging: "));
        assert_eq!(real, ours, "{text}");
    }
}

#[test]
fn unknown_and_repeated_fields_are_named_as_kube_proxy_names_them() {
    let Some(pair) = Pair::new() else { return };
    let text = format!(
        "{HEADER}foo: 1\nipvs: {{strictArp: true, bar: {{a: 1}}}}\nconntrack: {{min: 1, min: 2}}\n\
         logging: {{options: {{json: {{foo: 2}}}}}}\nmetadata: {{name: x}}\nBindAddress: 1.2.3.4\n\
         logging: {{verbosity: 1}}\n"
    );
    assert_same("lenient", pair.file(&text, &[]));
    let said = pair.warnings(&text);
    let names = [
        "key \\\"min\\\" already set in map",
        "unknown field \\\"BindAddress\\\"",
        "unknown field \\\"foo\\\"",
        "unknown field \\\"ipvs.bar\\\"",
        "unknown field \\\"ipvs.strictArp\\\"",
        "unknown field \\\"metadata\\\"",
    ];
    for said in said {
        let said = said.replace('"', "\\\"").replace("\\\\\"", "\\\"");
        for name in names {
            assert!(said.contains(name), "{name} is missing in {said}");
        }
    }
    let strict = pair.file(&text, &["--hostname-override=a"]);
    assert_same("with a flag", strict);
}

/// As `kubeadm init` writes it: every field is there, most of them empty.
#[test]
fn kubeadms_config_map_is_taken_without_a_warning() {
    let Some(pair) = Pair::new() else { return };
    let manifests = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tests/deploy/kubeadm-1.37.yaml"
    );
    let manifests = std::fs::read_to_string(manifests).unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(&manifests).unwrap();
    let map = objects.iter().find(|it| it["kind"] == "ConfigMap").unwrap();
    let config = map["data"]["config.conf"].as_str().unwrap();
    let args = ["--hostname-override=Node-1"];
    let outcomes = pair.file(config, &args);
    outcomes[1].clone().written();
    assert_same("kubeadm", outcomes);
    let [_, ours] = pair.warnings(config);
    let lines: Vec<_> = ours.lines().filter(|line| !line.starts_with('I')).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}
