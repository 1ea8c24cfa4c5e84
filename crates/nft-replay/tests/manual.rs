//! The commands of docs/REPLAY.md and of the crate's README work as they stand there.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a verdict")]

mod support;

use std::path::Path;
use std::process::Command;

use support::{Files, NFT_REPLAY, newest};
use test_support::in_new_netns;

const DOCUMENTS: [&str; 2] = [
    include_str!("../../../docs/REPLAY.md"),
    include_str!("../README.md"),
];

/// What is typed in the blocks of a document.
fn commands(document: &str) -> Vec<&str> {
    let blocks = document.split("```").skip(1).step_by(2);
    blocks
        .filter(|block| block.starts_with("console\n"))
        .flat_map(str::lines)
        .filter_map(|line| line.strip_prefix("# ").or_else(|| line.strip_prefix("$ ")))
        .collect()
}

#[test]
fn the_commands_of_the_documents_succeed() {
    in_new_netns(|| {
        let Some(nft) = newest() else { return };
        let files = Files::new();
        files.write(
            "rules.nft",
            "table ip t {\n chain c { type filter hook input priority 0; }\n}\n",
        );
        std::os::unix::fs::symlink(&nft.path, files.path("nft")).unwrap();
        std::os::unix::fs::symlink(NFT_REPLAY, files.path("nft-replay")).unwrap();
        let folder = files.path(".");
        let path = std::env::var("PATH").unwrap_or_default();
        let path = format!("{}:{path}", folder.display());
        for document in DOCUMENTS {
            let commands = commands(document);
            assert!(commands.len() >= 3, "{commands:?}");
            for command in commands {
                let output = Command::new("sh")
                    .args(["-ec", command])
                    .current_dir(&folder)
                    .env("PATH", &path)
                    .output()
                    .unwrap();
                assert!(output.status.success(), "{command}: {output:?}");
            }
        }
        assert!(Path::new(&files.path("rules.pcapng")).exists());
    });
}
