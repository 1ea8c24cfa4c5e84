//! Rules in nft's language, loaded by the `nft` program: the yardstick, never the thing under test.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::Namespace;

/// Loads `rules` in a namespace.
///
/// # Errors
/// When `nft` is missing or refuses them.
pub fn load(namespace: &Namespace, rules: &str) -> Result<()> {
    let rules = rules.to_owned();
    namespace.run(move || {
        let mut child = Command::new("nft")
            .args(["-f", "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("start nft")?;
        child
            .stdin
            .take()
            .context("nft has no input")?
            .write_all(rules.as_bytes())?;
        let output = child.wait_with_output()?;
        ensure!(
            output.status.success(),
            "nft: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    })?
}

/// Runs `nft` with `arguments` in a namespace and returns what it prints.
///
/// # Errors
/// When it fails.
pub fn nft(namespace: &Namespace, arguments: &[&str]) -> Result<String> {
    let arguments: Vec<String> = arguments.iter().map(|&word| word.to_owned()).collect();
    namespace.run(move || {
        let output = Command::new("nft")
            .args(&arguments)
            .output()
            .context("start nft")?;
        if !output.status.success() {
            bail!(
                "nft {}: {}",
                arguments.join(" "),
                String::from_utf8_lossy(&output.stderr)
            );
        }
        Ok(String::from_utf8(output.stdout)?)
    })?
}
