//! Every committed input through its target, without a fuzzer; `cargo xtask fuzz` looks for more.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_bodies::{TARGETS, run};

fn folder(of: &str) -> PathBuf {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    workspace.join(of)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|error| panic!("{folder:?}: {error}"));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
}

#[test]
fn no_committed_input_finds_anything() {
    for target in TARGETS {
        let inputs = entries(&folder("corpus").join(target.name));
        assert!(!inputs.is_empty(), "{} has no inputs", target.name);
        for path in inputs {
            // Printed only if it fails, then last.
            println!("{}", path.display());
            run(target.name, &fs::read(&path).unwrap());
        }
    }
}

/// So that no target is forgotten, neither here nor by the fuzzer.
#[test]
fn each_target_has_a_program_and_inputs() {
    let stems = |of: &str| -> BTreeSet<String> {
        let paths = entries(&folder(of)).into_iter();
        paths
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect()
    };
    let targets: BTreeSet<String> = TARGETS.iter().map(|it| it.name.to_owned()).collect();
    assert_eq!(stems("fuzz_targets"), targets);
    assert_eq!(stems("corpus"), targets);
}

/// The inputs found by a fuzzer stay small: they are read by people and by every test run.
#[test]
fn committed_inputs_are_small() {
    for target in TARGETS {
        let sizes: Vec<u64> = entries(&folder("corpus").join(target.name))
            .iter()
            .map(|path| fs::metadata(path).unwrap().len())
            .collect();
        let total: u64 = sizes.iter().sum();
        assert!(total <= 256 << 10, "{}: {total} bytes", target.name);
    }
}
