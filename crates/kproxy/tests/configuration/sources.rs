//! A file and flags that say different things, and things that nobody knows (B100).

use std::io::Write as _;
use std::process::Command;

use serde_json::Value;

const FILE: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n\
                    mode: nftables\nclusterCIDR: 10.1.0.0/16\nhostnameOverride: of-the-file\n\
                    logging: {verbosity: 1}\n";

/// What the program makes of a file and flags: exit code, configuration in effect, standard error.
fn effective(text: &str, flags: &[&str]) -> (Option<i32>, Value, String) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(text.as_bytes()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_kproxy"))
        .arg(format!("--config={}", file.path().display()))
        .arg("--write-config-to=/dev/stdout")
        .args(flags)
        .output()
        .unwrap();
    let written = str::from_utf8(&output.stdout).unwrap();
    let config = serde_saphyr::from_str(written).unwrap_or_default();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code(), config, said)
}

#[test]
fn the_file_wins_but_for_a_few_flags_and_the_others_are_named() {
    let flags = [
        "--hostname-override=of-the-flag",
        "--v=3",
        "--cluster-cidr=10.2.0.0/16",
        "--proxy-mode=iptables",
    ];
    let (code, config, said) = effective(FILE, &flags);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(config["hostnameOverride"], "of-the-flag");
    assert_eq!(config["logging"]["verbosity"], 3);
    assert_eq!(config["clusterCIDR"], "10.1.0.0/16");
    assert_eq!(config["mode"], "nftables");
    for flag in ["--cluster-cidr", "--proxy-mode"] {
        let named = said.matches(&format!("{flag} does not count")).count();
        assert_eq!(named, 1, "{flag}: {said}");
    }
    assert!(!said.contains("--hostname-override"), "{said}");
    let (_, _, said) = effective(FILE, &[]);
    assert!(!said.contains("does not count"), "{said}");
}

#[test]
fn unknown_and_repeated_fields_are_warned_of_or_refused() {
    let text = format!("{FILE}conntrack: {{maxPerCor: 0}}\nclusterCIDR: 10.3.0.0/16\n");
    let names = ["conntrack.maxPerCor", "clusterCIDR"];
    let (code, config, said) = effective(&text, &[]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(config["hostnameOverride"], "of-the-file");
    for name in names {
        assert!(said.contains(name), "{name}: {said}");
    }
    let (code, config, said) = effective(&text, &["--strict-config"]);
    assert_eq!((code, config), (Some(1), Value::Null), "{said}");
    for name in names {
        assert!(said.contains(name), "{name}: {said}");
    }
    let (code, config, said) = effective(FILE, &["--strict-config"]);
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(config["mode"], "nftables");
}

#[test]
fn an_unknown_flag_is_refused_by_name() {
    let (code, config, said) = effective(FILE, &["--cluster-cdir=10.1.0.0/16"]);
    assert!(code.is_some_and(|code| code != 0), "{said}");
    assert_eq!(config, Value::Null);
    assert!(said.contains("--cluster-cdir"), "{said}");
}
