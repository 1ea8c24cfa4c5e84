//! Prometheus' `promtool`, which tests alert rules: from the Debian package, which is unpacked and not
//! installed, as it would start a server.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use test_support::promtool;

use crate::apt::output;
use crate::packages;

/// Fetches it once; without apt it is skipped by name, which with `CI=true` is a failure.
pub(crate) fn ensure() -> Result<()> {
    if let Some(path) = promtool::program() {
        println!("promtool {}", path.display());
        return Ok(());
    }
    if !packages::on_path("apt-get") {
        println!("skipped, for want of apt: promtool");
        if std::env::var("CI").as_deref() == Ok("true") {
            bail!("no promtool");
        }
        return Ok(());
    }
    let path = promtool::cached().context("neither KPROXY_CACHE nor HOME is set")?;
    let folder = path.with_extension("new");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let mut download = Command::new("apt-get");
    download.current_dir(&folder);
    download.args([
        "download",
        "-qq",
        "-o",
        "APT::Sandbox::User=root",
        "prometheus",
    ]);
    if output(&mut download).is_err() {
        // Perhaps this machine has no lists of packages yet.
        output(Command::new("apt-get").args(["update", "-qq"]))?;
        output(&mut download)?;
    }
    let unpack = "dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x ./usr/bin/promtool";
    output(
        Command::new("sh")
            .current_dir(&folder)
            .args(["-e", "-c", unpack]),
    )?;
    fs::rename(folder.join("usr/bin/promtool"), &path)?;
    fs::remove_dir_all(&folder)?;
    println!("promtool {}", path.display());
    Ok(())
}
