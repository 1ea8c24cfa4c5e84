//! Files as they are seldom written: YAML's rarer words, numbers and structures, other encodings.

use crate::oracle::{HEADER, Outcome, Pair, assert_same};

/// Both make the same of it, and take it or not as said.
#[track_caller]
fn check(pair: &Pair, text: &[u8], is_taken: bool) {
    let what = String::from_utf8_lossy(text);
    let outcomes = pair.bytes(text, &[]);
    for outcome in &outcomes {
        let written = matches!(outcome, Outcome::Written(_));
        assert_eq!(written, is_taken, "{what}: {outcome:?}");
    }
    assert_same(&what, outcomes);
}

#[test]
fn encodings_ends_of_lines_and_directives() {
    let Some(pair) = Pair::new() else { return };
    let plain = format!("{HEADER}mode: nftables\nhostnameOverride: ä\n");
    let marked = format!("\u{feff}{plain}");
    let units = || marked.encode_utf16();
    let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
    let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
    for text in [
        marked.as_bytes(),
        &little,
        &big,
        plain.replace('\n', "\r\n").as_bytes(),
        plain.replace('\n', "\r").as_bytes(),
        format!("%YAML 1.1\n---\n{plain}").as_bytes(),
        format!("---\n{plain}...\n").as_bytes(),
        format!("# first\n\n---\n{plain}---\n][").as_bytes(),
    ] {
        check(&pair, text, true);
    }
    let latin = [plain.as_bytes(), b"# \xe4\n"].concat();
    for text in [
        latin.as_slice(),
        format!("%YAML 1.2\n---\n{plain}").as_bytes(),
        format!("---\n---\n{plain}").as_bytes(),
        format!("{plain}# \0\n").as_bytes(),
        format!("{HEADER}iptables:\n\tsyncPeriod: 5s\n").as_bytes(),
    ] {
        check(&pair, text, false);
    }
}

#[test]
fn anchors_and_merge_keys() {
    let Some(pair) = Pair::new() else { return };
    for text in [
        "iptables: &a {syncPeriod: 11s, minSyncPeriod: 2s}\nnftables: *a\n",
        "iptables: &a {syncPeriod: 11s, minSyncPeriod: 2s}\nnftables:\n  <<: *a\n  syncPeriod: 12s\n",
        "x: &a {syncPeriod: 11s, minSyncPeriod: 2s}\ny: &b {syncPeriod: 13s}\n\
         nftables:\n  <<: [*a, *b]\n",
        "nftables:\n  <<: {syncPeriod: 12s}\n",
        "? mode\n: nftables\n",
        "mode: !foo nftables\n",
        "hostnameOverride: !!str 5\n",
        "hostnameOverride: !!binary aGVsbG8=\n",
        "hostnameOverride: >-\n  a\n  b\n",
    ] {
        check(&pair, format!("{HEADER}{text}").as_bytes(), true);
    }
    for text in ["nftables: *missing\n", "nftables: {<<: foo}\n", "[a]: x\n"] {
        check(&pair, format!("{HEADER}{text}").as_bytes(), false);
    }
}

#[test]
fn numbers_words_and_nothings() {
    let Some(pair) = Pair::new() else { return };
    for text in [
        "oomScoreAdj: 0x10",
        "oomScoreAdj: -0x10",
        "oomScoreAdj: 0o17",
        "oomScoreAdj: 017",
        "oomScoreAdj: 0b101",
        "oomScoreAdj: 1_000",
        "oomScoreAdj: +5",
        "oomScoreAdj: 5.0",
        "oomScoreAdj: 5e0",
        "oomScoreAdj: 08",
        "oomScoreAdj: !!int \"5\"",
        "clientConnection: {qps: .5}",
        "clientConnection: {qps: 0x5}",
        "clientConnection: {qps: 1e-3}",
        "bindAddressHardFail: on",
        "bindAddressHardFail: y",
        "bindAddressHardFail: TRUE",
        "hostnameOverride: 1:30",
        "hostnameOverride: 2001-12-14",
        "hostnameOverride: ~",
        "iptables: ~",
        "ipvs: {excludeCIDRs: ~}",
        "ipvs: {excludeCIDRs: [~]}",
    ] {
        check(&pair, format!("{HEADER}{text}\n").as_bytes(), true);
    }
    for text in [
        "oomScoreAdj: \"7\"",
        "oomScoreAdj: 1:30",
        "oomScoreAdj: .inf",
        "oomScoreAdj: 2147483648",
        "bindAddressHardFail: \"true\"",
        "bindAddressHardFail: 1",
        "hostnameOverride: yes",
        "hostnameOverride: 0o17",
        "hostnameOverride: 089",
        "hostnameOverride: 1_000",
        "nodePortAddresses: [~]",
        "ipvs: {excludeCIDRs: \"10.0.0.0/8\"}",
    ] {
        check(&pair, format!("{HEADER}{text}\n").as_bytes(), false);
    }
}

#[test]
fn durations_and_quantities() {
    let Some(pair) = Pair::new() else { return };
    for period in [
        "1h30m",
        "90.5s",
        "\"0\"",
        "1h30m0.5s",
        "1e3ms",
        "5",
        "1d",
        "\"1h 30m\"",
        "1.5",
    ] {
        let text = format!("{HEADER}iptables: {{syncPeriod: {period}, minSyncPeriod: 0.5s}}\n");
        let is_taken = matches!(period, "1h30m" | "90.5s" | "\"0\"" | "1h30m0.5s");
        check(&pair, text.as_bytes(), is_taken);
    }
    let buffered = |size: &str| {
        format!(
            "{HEADER}featureGates: {{LoggingAlphaOptions: true}}\n\
             logging: {{options: {{json: {{infoBufferSize: {size}}}}}}}\n"
        )
    };
    for size in [
        "1.5Ki", "1500", "1000", "1e3", "1.5", "-1", "100m", "\" 1Ki\"", "1024Ki", "5000m", "0.1n",
        "0Ki", "9Ei", "1.1Mi", "0x10", "1_0", "~",
    ] {
        check(&pair, buffered(size).as_bytes(), true);
    }
    for size in ["1K", "1ki", "1 Ki", "\"0x10\"", "\"1_0\"", "yes", "[1]"] {
        check(&pair, buffered(size).as_bytes(), false);
    }
}

#[test]
fn json_is_json() {
    let Some(pair) = Pair::new() else { return };
    let json = |more: &str| {
        format!(
            "\n {{\"apiVersion\": \"kubeproxy.config.k8s.io/v1alpha1\", \
             \"kind\": \"KubeProxyConfiguration\"{more}}}"
        )
    };
    for more in [
        "",
        ",\"oomScoreAdj\": 5",
        ",\"hostnameOverride\": \"a\\u0062\\ud83d\\ude00\\/\"",
        ",\"clientConnection\": {\"qps\": 5.0}",
    ] {
        check(&pair, json(more).as_bytes(), true);
    }
    for more in [
        ",",
        ",\"oomScoreAdj\": 5.0",
        ",\"oomScoreAdj\": 1e1",
        ",\"oomScoreAdj\": 0x5",
        ",mode: ipvs",
    ] {
        check(&pair, json(more).as_bytes(), false);
    }
    check(&pair, format!("{}{{}}", json("")).as_bytes(), false);
    check(&pair, format!("[{}]", json("")).as_bytes(), false);
}
