//! Becomes the program of a container: see `tests/src/pod/`. Its only argument says how.

use anyhow::{Context as _, Result};
use e2e::pod::Sandbox;

fn main() -> Result<()> {
    let argument = std::env::args().nth(1).context("no sandbox")?;
    let sandbox: Sandbox = serde_json::from_str(&argument)?;
    sandbox.enter()
}
