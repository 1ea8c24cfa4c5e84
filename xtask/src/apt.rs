//! Debian packages without installing them: an apt configuration of its own, in a folder of the cache.
//! This machine's is only read, for its mirrors.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// Signs Debian's archives; part of every Debian installation.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// An apt configuration with an empty package database.
pub(crate) struct AptRoot {
    /// Holds everything.
    pub(crate) dir: PathBuf,
    config: PathBuf,
}

impl AptRoot {
    /// Makes one below `dir` for some suites, and reads their lists of packages. Suites that end in
    /// `-security` come from the mirror of that archive.
    pub(crate) fn new(dir: &Path, suites: &[&str]) -> Result<Self> {
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
        // Old suites are archived: their Release files have expired, their signatures have not.
        let options = format!("signed-by={KEYRING} check-valid-until=no");
        let mut sources = String::new();
        for suite in suites {
            let archive = if suite.ends_with("-security") {
                "debian-security"
            } else {
                "debian"
            };
            let mirror = mirror(archive)?;
            sources.push_str(&format!("deb [{options}] {mirror} {suite} main\n"));
        }
        write("etc/sources.list", &sources)?;
        let apt = Self {
            dir: dir.to_path_buf(),
            config: dir.join("apt.conf"),
        };
        output(apt.command("apt-get").args(["update", "-qq"]))?;
        Ok(apt)
    }

    /// Downloads `package` and all it depends on; returns the files.
    pub(crate) fn download(&self, package: &str) -> Result<Vec<PathBuf>> {
        let options = ["--download-only", "--no-install-recommends", "-y", "-qq"];
        let mut command = self.command("apt-get");
        command.arg("install").args(options).arg(package);
        output(&mut command)?;
        let mut files = walk(&self.dir.join("cache/archives"))?;
        files.retain(|file| file.extension().is_some_and(|ext| ext == "deb"));
        Ok(files)
    }

    /// Downloads these packages, and nothing that they depend on, into `folder`.
    pub(crate) fn download_alone(&self, packages: &[String], folder: &Path) -> Result<()> {
        create_dir(folder)?;
        let mut command = self.command("apt-get");
        command.args(["download", "-qq"]).args(packages);
        output(command.current_dir(folder)).map(drop)
    }

    /// Names of packages that match a pattern of `apt-cache search --names-only`.
    pub(crate) fn names(&self, pattern: &str) -> Result<Vec<String>> {
        let mut command = self.command("apt-cache");
        let found = output(command.args(["search", "--names-only", pattern]))?;
        let first = |line: &str| line.split_whitespace().next().map(str::to_owned);
        Ok(found.lines().filter_map(first).collect())
    }

    /// What the lists say about a package; nothing when it is only referred to.
    pub(crate) fn show(&self, package: &str) -> Option<String> {
        let mut command = self.command("apt-cache");
        let shown = output(command.args(["show", "--no-all-versions", package])).ok()?;
        (!shown.trim().is_empty()).then_some(shown)
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.env("APT_CONFIG", &self.config);
        command
    }
}

/// The first Debian mirror of this machine's configuration, in either source format.
fn mirror(archive: &str) -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.filter_map(Result::ok).map(|entry| entry.path()));
    }
    files.sort();
    files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .find_map(|text| mirror_in(&text, archive))
        .with_context(|| {
            format!("no mirror ending in /{archive} in /etc/apt/sources.list or sources.list.d")
        })
}

fn mirror_in(sources: &str, archive: &str) -> Option<String> {
    let active = sources
        .lines()
        .filter(|line| !line.trim_start().starts_with('#'));
    active
        .flat_map(str::split_whitespace)
        .map(|word| word.trim_end_matches('/'))
        .find(|word| {
            word.contains("://")
                && word
                    .strip_suffix(archive)
                    .is_some_and(|it| it.ends_with('/'))
        })
        .map(str::to_owned)
}

/// Where things are kept that are fetched: `$KPROXY_CACHE`, else `~/.cache/kproxy`.
pub(crate) fn cache_dir() -> Result<PathBuf> {
    if let Some(dir) = std::env::var_os("KPROXY_CACHE") {
        return Ok(dir.into());
    }
    let home = std::env::var_os("HOME").context("neither KPROXY_CACHE nor HOME is set")?;
    Ok(PathBuf::from(home).join(".cache/kproxy"))
}

/// Regular files and symbolic links below `dir`; links to directories are not followed.
pub(crate) fn walk(dir: &Path) -> Result<Vec<PathBuf>> {
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

/// Runs a command to its end; its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let program = command.get_program().display().to_string();
    let out = command.output().with_context(|| program.clone())?;
    if !out.status.success() {
        let text = String::from_utf8_lossy(&out.stderr);
        bail!("{program}: {}: {}", out.status, text.trim());
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

pub(crate) fn create_dir(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| dir.display().to_string())
}

pub(crate) fn remove_dir(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done.with_context(|| dir.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirrors_are_found_in_both_source_formats() {
        let one_line = "# deb http://old.example/debian bookworm main\n\
                        deb [arch=amd64] http://mirror.example/debian/ bookworm main\n";
        let found = |text, archive| mirror_in(text, archive);
        assert_eq!(
            found(one_line, "debian").unwrap(),
            "http://mirror.example/debian"
        );
        assert_eq!(found(one_line, "debian-security"), None);
        let deb822 = "Types: deb\n# http://snapshot.example/debian\n\
                      URIs: https://mirror.example/debian-security\nSuites: bookworm-security\n\n\
                      Types: deb\nURIs: https://mirror.example/debian\nSuites: bookworm\n";
        assert_eq!(
            found(deb822, "debian").unwrap(),
            "https://mirror.example/debian"
        );
        assert_eq!(
            found(deb822, "debian-security").unwrap(),
            "https://mirror.example/debian-security"
        );
        assert_eq!(
            found("deb https://other.example/apt stable main", "debian"),
            None
        );
    }
}
