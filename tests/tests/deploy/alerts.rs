//! Alert rules, by Prometheus' own means.

use std::{fs, process::Command};

use anyhow::{Context as _, Result, ensure};
use e2e::{
    deploy::{Queries, path, rules},
    folder::Folder,
};
use test_support::{promtool, skip};

#[test]
fn alerts_fire_when_they_should() -> Result<()> {
    let Some(promtool) = promtool::program() else {
        skip("no promtool");
        return Ok(());
    };
    let folder = Folder::new()?;
    folder.write("rules.yaml", &rules()?.to_string())?;
    let tests = fs::read_to_string(path("monitoring/prometheus-rule.test.yaml"))?;
    folder.write("tests.yaml", &tests)?;
    for arguments in [
        ["check", "rules", "rules.yaml"],
        ["test", "rules", "tests.yaml"],
    ] {
        let output = Command::new(&promtool)
            .current_dir(folder.path())
            .args(arguments)
            .output()
            .context("start promtool")?;
        ensure!(
            output.status.success(),
            "promtool {}: {}{}",
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    for (alert, _) in Queries::of_alerts()?.queries {
        ensure!(
            tests.contains(&format!("alertname: {alert}\n")),
            "{alert} has no test"
        );
    }
    Ok(())
}
