//! Licences, bans and sources of all dependencies, by the rules of `deny.toml`.
//!
//! The file is cargo-deny's; that program takes many minutes to build, so the same rules are
//! checked here over `cargo metadata`, and `cargo deny check licenses bans sources` agrees.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::sh;

#[derive(Deserialize)]
struct Deny {
    licenses: Licenses,
    bans: Bans,
    sources: Sources,
}

#[derive(Deserialize)]
struct Licenses {
    allow: BTreeSet<String>,
}

#[derive(Deserialize)]
struct Bans {
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Deserialize)]
struct Sources {
    #[serde(rename = "unknown-registry")]
    unknown_registry: String,
    #[serde(rename = "unknown-git")]
    unknown_git: String,
}

/// Checks every package of the lock file, and that docs/DEPENDENCIES.md has a line for each direct
/// dependency.
pub(crate) fn check() -> Result<()> {
    let path = sh::root().join("deny.toml");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let deny: Deny = toml::from_str(&text).context("deny.toml")?;
    if deny.sources.unknown_registry != "deny" || deny.sources.unknown_git != "deny" {
        bail!("deny.toml must deny unknown registries and git sources");
    }
    let metadata = sh::metadata()?;
    let mut wrong = Vec::new();
    for package in &metadata.packages {
        let who = format!("{} {}", package.name, package.version);
        match package.license.as_deref() {
            Some(license) if licensed(license, &deny.licenses.allow) => {}
            license => wrong.push(format!("{who}: licence {license:?} is not allowed")),
        }
        if let Some(source) = &package.source
            && !source.starts_with("registry+")
            && !source.starts_with("sparse+")
        {
            wrong.push(format!("{who}: comes from {source}, not from the registry"));
        }
        for ban in deny.bans.deny.iter().filter(|ban| ban.name == package.name) {
            let users = metadata.packages.iter().filter(|user| {
                !ban.wrappers.contains(&user.name)
                    && user
                        .dependencies
                        .iter()
                        .any(|dependency| dependency.name == ban.name)
            });
            for user in users {
                wrong.push(format!(
                    "{who} is banned ({}), used by {}",
                    ban.reason, user.name
                ));
            }
        }
    }
    let docs = std::fs::read_to_string(sh::root().join("docs/DEPENDENCIES.md"))?;
    let members = metadata
        .packages
        .iter()
        .filter(|p| metadata.workspace_members.contains(&p.id));
    let direct: BTreeSet<_> = members
        .clone()
        .flat_map(|p| p.dependencies.iter().map(|d| d.name.as_str()))
        .collect();
    let ours: BTreeSet<_> = members.map(|p| p.name.as_str()).collect();
    for name in direct.difference(&ours) {
        if !docs.contains(&format!("`{name}`")) {
            wrong.push(format!("docs/DEPENDENCIES.md does not justify {name}"));
        }
    }
    if wrong.is_empty() {
        println!(
            "licences, bans, sources: ok ({} packages)",
            metadata.packages.len()
        );
        return Ok(());
    }
    wrong.sort();
    bail!("{}", wrong.join("\n"));
}

/// Evaluates an SPDX expression of AND, OR, WITH and parentheses against the allowed ids.
fn licensed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression
        .replace('(', " ( ")
        .replace(')', " ) ")
        .replace('/', " OR ");
    let tokens: Vec<_> = spaced.split_whitespace().collect();
    let mut at = 0;
    any_of(&tokens, &mut at, allowed) && at == tokens.len()
}

fn any_of(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut ok = all_of(tokens, at, allowed);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        ok |= all_of(tokens, at, allowed);
    }
    ok
}

fn all_of(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let mut ok = one(tokens, at, allowed);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        ok &= one(tokens, at, allowed);
    }
    ok
}

fn one(tokens: &[&str], at: &mut usize, allowed: &BTreeSet<String>) -> bool {
    let Some(token) = tokens.get(*at) else {
        return false;
    };
    *at += 1;
    if *token == "(" {
        let ok = any_of(tokens, at, allowed);
        let closed = tokens.get(*at) == Some(&")");
        *at += 1;
        return ok && closed;
    }
    let mut id = (*token).to_owned();
    if tokens.get(*at) == Some(&"WITH") {
        id = format!("{id} WITH {}", tokens.get(*at + 1).unwrap_or(&""));
        *at += 2;
    }
    allowed.contains(&id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated_not_searched() {
        let allowed = ["MIT", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause"];
        let allowed = allowed.map(str::to_owned).into_iter().collect();
        for (expression, ok) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("MIT/Apache-2.0", true),
            ("(MIT OR GPL-3.0) AND BSD-3-Clause", true),
            ("(MIT OR GPL-3.0) AND Unlicense", false),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("Apache-2.0", false),
            ("", false),
        ] {
            assert_eq!(licensed(expression, &allowed), ok, "{expression}");
        }
    }
}
