//! Every scenario file, in both families, on the running kernel.

use std::{fs, path::Path};

use anyhow::{Result, ensure};
use e2e::scenario::{Family, run};

fn run_all(family: Family) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
    let mut files: Vec<_> = fs::read_dir(folder)?
        .map(|entry| Ok(entry?.path()))
        .collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(!files.is_empty(), "no scenario files");
    let mut failures = Vec::new();
    for file in files {
        let name = file
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        match run(&file, family) {
            Ok(judged) => println!("{name} ({family}): {judged} verdicts"),
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

#[test]
fn scenarios_ipv4() -> Result<()> {
    run_all(Family::Ipv4)
}

#[test]
fn scenarios_ipv6() -> Result<()> {
    run_all(Family::Ipv6)
}
