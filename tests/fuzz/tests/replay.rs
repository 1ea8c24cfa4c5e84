//! Every committed input through its target, without a fuzzer; `cargo xtask fuzz` looks for more.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use fuzz_bodies::{TARGETS, run};
use svc_planner::{Config, Planner};

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

/// What is refused for its version alone tries nothing: with a new version, give the inputs that, too.
#[test]
fn saved_states_are_of_this_version() {
    let inputs = entries(&folder("corpus").join("snapshot"));
    let is_whole = |path: &&PathBuf| path.file_name().unwrap().to_str().unwrap().contains("Ipv");
    let whole: Vec<_> = inputs.iter().filter(is_whole).collect();
    assert!(!whole.is_empty());
    for path in whole {
        let snapshot = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let restored = Planner::restore(Config::default(), snapshot, Duration::ZERO);
        assert!(restored.is_ok(), "{}: {restored:?}", path.display());
    }
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

/// A fuzzer's first hour, so to speak: each committed input with a few bytes changed, cut, doubled or
/// taken from another one. The same every time; with `KPROXY_LONG=1` a hundred times as many.
#[test]
fn no_mutation_of_a_committed_input_finds_anything() {
    let long = std::env::var_os("KPROXY_LONG").is_some();
    for target in TARGETS {
        let inputs: Vec<Vec<u8>> = entries(&folder("corpus").join(target.name))
            .iter()
            .map(|path| fs::read(path).unwrap())
            .collect();
        let mut mutations = Mutations(0x9e37_79b9_7f4a_7c15);
        let rounds = if long { 100 * ROUNDS } else { ROUNDS };
        for round in 0..rounds {
            let input = &inputs[round % inputs.len()];
            let other = &inputs[mutations.below(inputs.len())];
            let mutated = mutations.of(input, other);
            let found = std::panic::catch_unwind(|| run(target.name, &mutated));
            if found.is_err() {
                let path = std::env::temp_dir().join(format!("fuzz-{}-{round}", target.name));
                fs::write(&path, &mutated).unwrap();
                panic!("{}: {} finds something", target.name, path.display());
            }
        }
    }
}

/// Mutations tried of each target's inputs, all in all.
const ROUNDS: usize = 400;

/// xorshift64.
struct Mutations(u64);

impl Mutations {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % limit.max(1)
    }

    fn of(&mut self, input: &[u8], other: &[u8]) -> Vec<u8> {
        let mut bytes = input.to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let len = self.below(12).min(bytes.len().saturating_sub(at));
            match self.below(7) {
                0 => bytes.truncate(at),
                1 => drop(bytes.drain(at..at + len)),
                2 => {
                    let again = bytes[at..at + len].to_vec();
                    bytes.splice(at..at, again);
                }
                3 => {
                    let from = self.below(other.len());
                    let to = (from + self.below(64)).min(other.len());
                    bytes.splice(at..at, other[from..to].iter().copied());
                }
                4 if !bytes.is_empty() => {
                    const ODD: [u8; 6] = [0, 1, 4, 0x7f, 0x80, 0xff];
                    bytes[at] = ODD[self.below(ODD.len())];
                }
                5 if !bytes.is_empty() => bytes[at] ^= 1 << self.below(8),
                _ if !bytes.is_empty() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
                _ => bytes.push(0),
            }
        }
        bytes
    }
}
