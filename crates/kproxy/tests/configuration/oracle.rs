//! The real kube-proxy and ours with the same arguments.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// What starts every file.
pub(crate) const HEADER: &str =
    "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/// What a program made of arguments.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Outcome {
    /// The configuration that it wrote.
    Written(Value),
    /// Why it wrote none: all that it said.
    Refused(String),
}

impl Outcome {
    /// Makes sure that something was written.
    #[track_caller]
    pub(crate) fn written(self) {
        if let Self::Refused(why) = self {
            panic!("refused: {why}");
        }
    }

    /// The reason from `prefix` on, without the log around it.
    #[track_caller]
    pub(crate) fn reason(self, prefix: &str) -> String {
        let Self::Refused(text) = self else {
            panic!("accepted: {self:?}");
        };
        let line = text.lines().find_map(|line| {
            let (_, quoted) = line.split_once("err=")?;
            let mut quoted = serde_json::Deserializer::from_str(quoted).into_iter::<String>();
            quoted.next()?.ok()
        });
        let reason = line.unwrap_or_else(|| panic!("no reason in {text}"));
        let start = reason
            .find(prefix)
            .unwrap_or_else(|| panic!("no {prefix} in {reason}"));
        reason[start..].to_owned()
    }
}

/// Both programs.
pub(crate) struct Pair {
    folder: tempfile::TempDir,
    real: PathBuf,
}

impl Pair {
    /// `None` without the real one, which is a skip.
    pub(crate) fn new() -> Option<Self> {
        let Some(real) = test_support::control_plane::program("kube-proxy") else {
            test_support::skip("no kube-proxy: run `cargo xtask control-plane build`");
            return None;
        };
        Some(Self {
            folder: tempfile::tempdir().unwrap(),
            real,
        })
    }

    /// What the real one and ours make of a file and arguments.
    pub(crate) fn file(&self, text: &str, args: &[&str]) -> [Outcome; 2] {
        self.bytes(text.as_bytes(), args)
    }

    /// The same of a file in any encoding.
    pub(crate) fn bytes(&self, text: &[u8], args: &[&str]) -> [Outcome; 2] {
        let file = self.folder.path().join("config.conf");
        fs::write(&file, text).unwrap();
        let config = format!("--config={}", file.display());
        self.args(&[&[&*config], args].concat())
    }

    /// What both say of a file that they accept.
    pub(crate) fn warnings(&self, text: &str) -> [String; 2] {
        let file = self.folder.path().join("config.conf");
        fs::write(&file, text).unwrap();
        let ours = Path::new(env!("CARGO_BIN_EXE_kproxy"));
        [&*self.real, ours].map(|program| {
            let output = Command::new(program)
                .arg(format!("--config={}", file.display()))
                .arg("--write-config-to=/dev/null")
                .output()
                .unwrap();
            assert!(output.status.success(), "{output:?}");
            String::from_utf8(output.stderr).unwrap()
        })
    }

    /// What both say of arguments that they refuse, without what is around it, and their exit codes.
    pub(crate) fn complaints(&self, args: &[&str]) -> [(Option<i32>, String); 2] {
        let ours = Path::new(env!("CARGO_BIN_EXE_kproxy"));
        [&*self.real, ours].map(|program| {
            let mut command = Command::new(program);
            let output = command
                .arg("--write-config-to=/dev/null")
                .args(args)
                .output();
            let output = output.unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            let usage = said.lines().find_map(|line| line.strip_prefix("Error: "));
            let complaint = match usage {
                Some(usage) => usage.to_owned(),
                None => Outcome::Refused(said.clone()).reason("invalid argument "),
            };
            (output.status.code(), complaint)
        })
    }

    /// What the real one and ours make of arguments.
    pub(crate) fn args(&self, args: &[&str]) -> [Outcome; 2] {
        let ours = Path::new(env!("CARGO_BIN_EXE_kproxy"));
        [&*self.real, ours].map(|program| self.run(program, args))
    }

    fn run(&self, program: &Path, args: &[&str]) -> Outcome {
        let written = self.folder.path().join("written.yaml");
        let _ = fs::remove_file(&written);
        let output = Command::new(program)
            .arg(format!("--write-config-to={}", written.display()))
            .args(args)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            assert!(!written.exists(), "{said}");
            return Outcome::Refused(said);
        }
        let text = fs::read_to_string(&written).unwrap();
        let value: Value = serde_saphyr::from_str(&text).unwrap();
        Outcome::Written(numbers_as_floats(value))
    }
}

/// 5 and 5.0 are the same number.
fn numbers_as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => number.as_f64().unwrap().into(),
        Value::Array(items) => items.into_iter().map(numbers_as_floats).collect(),
        Value::Object(entries) => {
            let entries = entries.into_iter();
            Value::Object(
                entries
                    .map(|(name, it)| (name, numbers_as_floats(it)))
                    .collect(),
            )
        }
        other => other,
    }
}

/// Both wrote the same, or both refused.
#[track_caller]
pub(crate) fn assert_same(what: &str, [real, ours]: [Outcome; 2]) {
    match (real, ours) {
        (Outcome::Written(real), Outcome::Written(ours)) => {
            let differences = differences(&real, &ours);
            assert!(differences.is_empty(), "{what}: {differences:#?}");
        }
        (Outcome::Refused(_), Outcome::Refused(_)) => {}
        (real, ours) => panic!("{what}:\nkube-proxy: {real:?}\nkproxy: {ours:?}"),
    }
}

/// Fields of `ours` and `real` that differ, in words.
fn differences(real: &Value, ours: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", real, ours, &mut found);
    found
}

fn compare(path: &str, real: &Value, ours: &Value, found: &mut Vec<String>) {
    if let (Value::Object(left), Value::Object(right)) = (real, ours) {
        let mut names: Vec<_> = left.keys().chain(right.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            let (left, right) = (left.get(name), right.get(name));
            let path = format!("{path}.{name}");
            match (left, right) {
                (Some(left), Some(right)) => compare(&path, left, right, found),
                (left, right) => found.push(format!("{path}: {left:?} beside {right:?}")),
            }
        }
    } else if real != ours {
        found.push(format!("{path}: {real} beside {ours}"));
    }
}
