//! `cargo xtask nft-versions`: the nft releases our rulesets must list in, as unpacked packages.
//!
//! Each release is the `nftables` package of one Debian suite with everything it depends on, its
//! libc included, and runs through that libc's own loader: nothing is installed, and this machine's
//! apt configuration is only read. Layout below the cache (`$KPROXY_CACHE`, else
//! `~/.cache/kproxy`): `nft/VERSION/nft` is the command, `nft/VERSION/root` the unpacked packages.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Release and the suites that have it. A suite in development moves on: a later release stands in
/// for the one named.
const RELEASES: [(&str, &[&str]); 4] = [
    ("0.9.8", &["bullseye"]),
    ("1.0.6", &["bookworm"]),
    ("1.1.3", &["trixie"]),
    ("1.1.7", &["forky", "sid", "trixie-backports"]),
];

/// Signs Debian's archives; part of every Debian installation.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fetches what is missing and prints one line per release. A release that cannot be had is named
/// and skipped; with `CI=true` that is a failure.
pub(crate) fn run() -> Result<()> {
    let cache = cache_dir()?.join("nft");
    let mut skipped = Vec::new();
    for (version, suites) in RELEASES {
        match provide(&cache, version, suites) {
            Ok(nft) => println!("nft {version} {}", nft.display()),
            Err(error) => {
                println!("nft {version} skipped: {error:#}");
                skipped.push(version);
            }
        }
    }
    if !skipped.is_empty() && std::env::var_os("CI").is_some_and(|ci| ci == "true") {
        bail!("nft releases missing: {}", skipped.join(", "));
    }
    Ok(())
}

fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("KPROXY_CACHE") {
        return Ok(dir.into());
    }
    let home = std::env::var_os("HOME").context("neither KPROXY_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/kproxy"))
}

/// The release's command, from the cache or freshly unpacked.
fn provide(cache: &Path, version: &str, suites: &[&str]) -> Result<PathBuf> {
    let dir = cache.join(version);
    let nft = dir.join("nft");
    if check_version(&nft, version).is_ok() {
        return Ok(nft);
    }
    let mut failed = Vec::new();
    for suite in suites {
        match unpack(cache, version, suite) {
            Ok(()) => return Ok(nft),
            Err(error) => failed.push(format!("{suite}: {error:#}")),
        }
    }
    bail!("{}", failed.join("; "))
}

/// Unpacks the suite's release, if it is the wanted one or a later one.
fn unpack(cache: &Path, version: &str, suite: &str) -> Result<()> {
    let dir = cache.join(version);
    // Built aside and renamed, so that an interrupted run leaves no half release.
    let building = cache.join(format!("{version}.new"));
    remove_dir(&building)?;
    let root = building.join("root");
    create_dir(&root)?;
    let apt = AptRoot::new(&building.join("apt"), suite)?;
    for package in apt.download("nftables")? {
        let args = [Path::new("-x"), &package, &root].map(Path::as_os_str);
        output(Command::new("dpkg-deb").args(args))?;
    }
    remove_dir(&apt.dir)?;
    // The script names final paths; the release is checked once it is in place.
    write_wrapper(&building.join("nft"), &root, &dir.join("root"))?;
    remove_dir(&dir)?;
    fs::rename(&building, &dir).with_context(|| dir.display().to_string())?;
    if let Err(error) = check_version(&dir.join("nft"), version) {
        remove_dir(&dir)?;
        return Err(error);
    }
    Ok(())
}

fn check_version(nft: &Path, version: &str) -> Result<()> {
    let out = output(Command::new(nft).arg("--version"))?;
    // "nftables v1.0.6 (Lester Gooch #5)"
    let found = out.split_whitespace().nth(1).unwrap_or_default();
    let found = found.trim_start_matches('v');
    if numbers(found) < numbers(version) {
        bail!("has {found}");
    }
    Ok(())
}

/// A version as numbers, to compare.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split('.')
        .map_while(|part| part.parse().ok())
        .collect()
}

/// A script that runs the unpacked nft with its own loader and libraries.
fn write_wrapper(script: &Path, root: &Path, installed: &Path) -> Result<()> {
    let files = walk(root)?;
    let loader = files
        .iter()
        .find(|path| name_of(path).starts_with("ld-linux"))
        .context("no loader (ld-linux*.so*) among the packages")?;
    let libraries: BTreeSet<PathBuf> = files
        .iter()
        .filter(|path| name_of(path).contains(".so"))
        .filter_map(|path| path.parent())
        .map(|dir| relocate(dir, root, installed))
        .collect();
    let libraries: Vec<String> = libraries.iter().map(|d| d.display().to_string()).collect();
    let nft = files
        .iter()
        .find(|path| path.ends_with("sbin/nft"))
        .context("no sbin/nft among the packages")?;
    let text = format!(
        "#!/bin/sh\nexec '{}' --library-path '{}' '{}' \"$@\"\n",
        relocate(loader, root, installed).display(),
        libraries.join(":"),
        relocate(nft, root, installed).display(),
    );
    fs::write(script, text).with_context(|| script.display().to_string())?;
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(script, mode).with_context(|| script.display().to_string())
}

fn relocate(path: &Path, from: &Path, to: &Path) -> PathBuf {
    path.strip_prefix(from)
        .map_or_else(|_| path.to_path_buf(), |rest| to.join(rest))
}

fn name_of(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

/// Regular files and symbolic links below `dir`; links to directories are not followed.
fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
            let entry = entry.with_context(|| dir.display().to_string())?;
            let is_dir = entry
                .file_type()
                .with_context(|| dir.display().to_string())?
                .is_dir();
            if is_dir {
                pending.push(entry.path());
            } else {
                found.push(entry.path());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// An apt configuration of its own: empty package database, one suite.
struct AptRoot {
    dir: PathBuf,
    config: PathBuf,
}

impl AptRoot {
    fn new(dir: &Path, suite: &str) -> Result<Self> {
        for sub in ["lists/partial", "cache/archives/partial", "etc/apt.conf.d"] {
            create_dir(&dir.join(sub))?;
        }
        create_dir(&dir.join("etc/preferences.d"))?;
        let write = |name: &str, text: &str| {
            let path = dir.join(name);
            fs::write(&path, text).with_context(|| path.display().to_string())
        };
        write("status", "")?;
        let root = dir.display();
        write(
            "apt.conf",
            &format!(
                "Dir::Etc \"{root}/etc\";\nDir::State \"{root}\";\n\
                 Dir::State::status \"{root}/status\";\nDir::Cache \"{root}/cache\";\n\
                 Acquire::Languages \"none\";\nAPT::Sandbox::User \"root\";\n"
            ),
        )?;
        let mirror = machine_mirror()?;
        // Old suites are archived: their Release files have expired, their signatures have not.
        let options = format!("signed-by={KEYRING} check-valid-until=no");
        let source = format!("deb [{options}] {mirror} {suite} main\n");
        write("etc/sources.list", &source)?;
        let apt = Self {
            dir: dir.to_path_buf(),
            config: dir.join("apt.conf"),
        };
        output(apt.apt_get().args(["update", "-qq"]))?;
        Ok(apt)
    }

    /// Downloads `package` and all it depends on; returns the files.
    fn download(&self, package: &str) -> Result<Vec<PathBuf>> {
        let options = ["--download-only", "--no-install-recommends", "-y", "-qq"];
        let mut command = self.apt_get();
        command.arg("install").args(options).arg(package);
        output(&mut command)?;
        let mut files = walk(&self.dir.join("cache/archives"))?;
        files.retain(|file| file.extension().is_some_and(|ext| ext == "deb"));
        Ok(files)
    }

    fn apt_get(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.env("APT_CONFIG", &self.config);
        command
    }
}

/// The first Debian mirror this machine is configured with, in either source format.
fn machine_mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
    }
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|text| mirror_in(&text))
        .context("no mirror ending in /debian in /etc/apt/sources.list or sources.list.d")
}

fn mirror_in(sources: &str) -> Option<String> {
    let active = sources
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    active
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_end_matches('/'))
        .find(|word| word.contains("://") && word.ends_with("/debian"))
        .map(str::to_owned)
}

/// Runs a command to its end; its standard output.
fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let out = command.output().with_context(|| program.clone())?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("{program}: {}: {}", out.status, text.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())
}

fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.with_context(|| dir.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_as_numbers() {
        assert!(numbers("1.1.10") > numbers("1.1.7"));
        assert!(numbers("1.0.6") < numbers("1.1.3"));
        assert!(numbers("") < numbers("0.9.8"));
    }

    #[test]
    fn mirror_is_found_in_both_source_formats() {
        let one_line = "# deb http://old.example/debian bookworm main\n\
                        deb [arch=amd64] http://mirror.example/debian/ bookworm main\n";
        assert_eq!(mirror_in(one_line).unwrap(), "http://mirror.example/debian");
        let deb822 = "Types: deb\n# http://snapshot.example/debian\n\
                      URIs: https://mirror.example/debian-security\nSuites: bookworm-security\n\n\
                      Types: deb\nURIs: https://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(mirror_in(deb822).unwrap(), "https://mirror.example/debian");
        assert_eq!(mirror_in("deb https://other.example/apt stable main"), None);
    }
}
