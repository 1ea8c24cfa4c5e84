//! `cargo xtask ci`: what must hold before landing.

use anyhow::Result;

use crate::{arrows, permalinks, policy, sh, test};

/// Cheap checks first, the test suite last.
pub(crate) fn run() -> Result<()> {
    sh::run(&mut sh::cargo(&["fmt", "--all", "--check"]))?;
    arrows::check()?;
    policy::check()?;
    permalinks::check(&permalinks::Args::default())?;
    sh::run(&mut sh::cargo(&[
        "clippy",
        "--locked",
        "--workspace",
        "--all-targets",
        "--all-features",
        "--",
        "-D",
        "warnings",
    ]))?;
    sh::run(&mut sh::cargo(&[
        "check",
        "--locked",
        "-p",
        "nl-codec",
        "--no-default-features",
    ]))?;
    sh::run(
        sh::cargo(&[
            "doc",
            "--locked",
            "--workspace",
            "--no-deps",
            "--all-features",
        ])
        .env("RUSTDOCFLAGS", "-D warnings"),
    )?;
    test::run(&test::Args::default())
}
