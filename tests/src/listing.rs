//! Listing a namespace's rules with every nft release, as text and as JSON.

use std::process::Output;

use anyhow::{Context as _, Result, bail, ensure};
use netns_lab::Namespace;
use test_support::nft::{self, Nft};

/// What nft 1.0.6 says about statements its JSON printer has no words for, as 0.9.8 does on standard
/// output, before the JSON. They print the rest.
const KNOWN_COMPLAINT: &str = "have no json callback";

/// Lists all rules of `namespace` with every release at hand. Each must end well, say nothing on
/// standard error, print JSON that parses, and show every one of `expected` in its text.
///
/// # Errors
/// When one does not.
pub fn check(namespace: &Namespace, expected: &[&str]) -> Result<()> {
    for release in nft::versions() {
        let (text, json) = list(namespace, &release)?;
        judge(&release, expected, &text, &json)?;
    }
    Ok(())
}

fn list(namespace: &Namespace, nft: &Nft) -> Result<(Output, Output)> {
    let nft = nft.clone();
    namespace.run(move || {
        let text = nft.run(&["list", "ruleset"])?;
        let json = nft.run(&["-j", "list", "ruleset"])?;
        Ok((text, json))
    })?
}

fn judge(nft: &Nft, expected: &[&str], text: &Output, json: &Output) -> Result<()> {
    let version = &nft.version;
    let shown = printed(text).with_context(|| format!("nft {version} list ruleset"))?;
    for wanted in expected {
        ensure!(
            shown.contains(wanted),
            "nft {version} list ruleset does not show `{wanted}`:\n{shown}"
        );
    }
    let shown = printed(json).with_context(|| format!("nft {version} -j list ruleset"))?;
    let parsed: serde_json::Value = serde_json::from_str(&shown)
        .with_context(|| format!("nft {version} -j list ruleset:\n{shown}"))?;
    ensure!(
        parsed["nftables"].is_array(),
        "nft {version} -j list ruleset: no list of objects"
    );
    Ok(())
}

/// Standard output of a program that ended well without complaints.
fn printed(output: &Output) -> Result<String> {
    let complaints = String::from_utf8_lossy(&output.stderr);
    let mut unknown = complaints
        .lines()
        .filter(|line| !line.contains(KNOWN_COMPLAINT));
    if let Some(line) = unknown.next() {
        bail!("{}: {line}", output.status);
    }
    ensure!(output.status.success(), "{}", output.status);
    let text = String::from_utf8(output.stdout.clone())?;
    let lines = text
        .split_inclusive('\n')
        .filter(|line| !line.contains(KNOWN_COMPLAINT));
    Ok(lines.collect())
}
