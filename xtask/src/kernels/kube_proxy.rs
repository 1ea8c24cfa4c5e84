//! The real kube-proxy for guests, which have no libraries: with iptables, ipset and everything that these
//! load, in one folder.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use test_support::control_plane::program;

use super::libraries::loaded_by;
use crate::packages::{self, on_path};
use crate::sh;

/// Programs beside kube-proxy, where Debian puts them.
const PROGRAMS: [&str; 2] = ["/usr/sbin/xtables-nft-multi", "/usr/sbin/ipset"];
const NEEDED: &[(&str, &str)] = &[("iptables-nft", "iptables"), ("ipset", "ipset")];

/// Puts the folder together and says where it is: `target/kube-proxy-guest`.
pub(super) fn folder() -> Result<PathBuf> {
    packages::ensure(NEEDED)?;
    ensure!(on_path("ldd"), "no ldd to find libraries with");
    let folder = sh::root().join("target/kube-proxy-guest");
    fs::create_dir_all(folder.join("xtables"))?;
    let kube_proxy = program("kube-proxy");
    let kube_proxy = kube_proxy.context("no kube-proxy: run `cargo xtask control-plane build`")?;
    let programs = PROGRAMS.iter().map(PathBuf::from).chain([kube_proxy]);
    for program in programs {
        let name = program.file_name().context("a program without a name")?;
        copy(&program, &folder.join(name))?;
        for library in loaded_by(&program)? {
            copy(&library.path, &folder.join(library.name))?;
            extensions(&library.path, &folder.join("xtables"))?;
        }
    }
    Ok(folder)
}

/// iptables loads a match or target from a folder beside its library.
fn extensions(library: &Path, to: &Path) -> Result<()> {
    let is_xtables = library.to_string_lossy().contains("libxtables");
    let beside = library.parent().map(|folder| folder.join("xtables"));
    let Some(beside) = beside.filter(|folder| is_xtables && folder.is_dir()) else {
        return Ok(());
    };
    for entry in fs::read_dir(beside)? {
        let entry = entry?;
        copy(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| from.display().to_string())?;
    Ok(())
}
