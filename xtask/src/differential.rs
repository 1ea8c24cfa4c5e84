//! `cargo xtask differential`: see `tests/src/differential/`.

use anyhow::Result;

use crate::{control_plane, packages, sh};

#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub(crate) struct Args {
    /// `--scenario NAME`, `--random N`, `--seed S`, `--all`, `--api`; see `--help`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    packages::ensure(packages::TESTS)?;
    control_plane::build()?;
    sh::run(&mut sh::cargo(&[
        "build",
        "--locked",
        "-q",
        "-p",
        "e2e",
        "--bin",
        "kproxy-under-test",
    ]))?;
    let mut command = sh::cargo(&[
        "run",
        "--locked",
        "-q",
        "-p",
        "e2e",
        "--bin",
        "differential",
    ]);
    sh::run(command.arg("--").args(&args.args))
}
