//! iptables of either kind, as a node has it: what kube-proxy calls, and the yardstick for what is left.

use std::{
    env,
    ffi::OsString,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use netns_lab::Namespace;

use crate::folder::Folder;

/// Where its rules are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In nf_tables (`iptables-nft`).
    Nft,
    /// In tables of their own (`iptables-legacy`).
    Legacy,
}

impl Kind {
    const fn program(self) -> &'static str {
        match self {
            Self::Nft => "xtables-nft-multi",
            Self::Legacy => "xtables-legacy-multi",
        }
    }
}

/// The two families' tools.
pub const TOOLS: [&str; 2] = ["iptables", "ip6tables"];

/// A folder in which `iptables` and its like are of one kind.
#[derive(Debug)]
pub struct Iptables {
    folder: Folder,
}

impl Iptables {
    /// Links the names to the programs of that kind.
    ///
    /// # Errors
    /// When package `iptables` is not installed.
    pub fn new(kind: Kind) -> Result<Self> {
        let program = ["/usr/sbin", "/sbin", "/usr/bin"]
            .iter()
            .map(|folder| PathBuf::from(folder).join(kind.program()))
            .find(|path| path.is_file())
            .with_context(|| format!("no {}: package iptables", kind.program()))?;
        let folder = Folder::new()?;
        for tool in TOOLS {
            for name in ["", "-save", "-restore"] {
                symlink(&program, folder.path().join(format!("{tool}{name}")))?;
            }
        }
        Ok(Self { folder })
    }

    /// `PATH` with these before all others.
    ///
    /// # Errors
    /// When `PATH` is no list of folders.
    pub fn path(&self) -> Result<OsString> {
        let others = env::var_os("PATH").unwrap_or_default();
        let folders = [self.folder.path().to_owned()].into_iter();
        Ok(env::join_paths(folders.chain(env::split_paths(&others)))?)
    }

    /// Loads text as `iptables-restore` reads it, beside what is there.
    ///
    /// # Errors
    /// When it is refused.
    pub fn load(&self, namespace: &Namespace, tool: &str, text: &str) -> Result<()> {
        let program = self.folder.path().join(format!("{tool}-restore"));
        run(namespace, &program, &["--noflush", "--wait"], text)?;
        Ok(())
    }

    /// All rules of a family, without counters and comments.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn save(&self, namespace: &Namespace, tool: &str) -> Result<String> {
        let program = self.folder.path().join(format!("{tool}-save"));
        let saved = run(namespace, &program, &[], "")?;
        let lines = saved.lines().filter(|line| !line.starts_with('#'));
        // ":PREROUTING ACCEPT [12:345]"
        let lines = lines.map(|line| match line.split_once(" [") {
            Some((chain, _)) if line.starts_with(':') => chain,
            _ => line,
        });
        Ok(lines.fold(String::new(), |text, line| text + line + "\n"))
    }
}

/// Runs a program in a namespace and returns what it prints.
///
/// # Errors
/// When it fails.
pub fn run(
    namespace: &Namespace,
    program: &Path,
    arguments: &[&str],
    input: &str,
) -> Result<String> {
    let shown = format!("{} {}", program.display(), arguments.join(" "));
    let mut command = Command::new(program);
    command
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let input = input.to_owned();
    let output = namespace.run(move || {
        let mut child = command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(input.as_bytes())?;
        }
        child.wait_with_output()
    })?;
    let output = output.with_context(|| shown.clone())?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{shown}: {said}");
    Ok(String::from_utf8(output.stdout)?)
}
