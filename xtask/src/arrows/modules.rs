//! The layers inside svc-planner depend on each other in one direction only.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// From the lowest; a layer may use those before it.
const LAYERS: &[&str] = &["model", "policy", "kernel", "planning", "planner"];

/// Uses of a higher layer in the sources of the crate below `src`, tests excepted.
pub(super) fn wrong(src: &Path) -> Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (rank, layer) in LAYERS.iter().enumerate() {
        let above = LAYERS.get(rank + 1..).unwrap_or_default();
        for file in sources(src, layer)? {
            let text = std::fs::read_to_string(&file)
                .with_context(|| format!("reading {}", file.display()))?;
            let found = above_in(&text, above);
            wrong.extend(
                found.map(|name| format!("{}: {layer} must not use {name}", file.display())),
            );
        }
    }
    Ok(wrong)
}

fn above_in<'a>(text: &'a str, above: &'a [&str]) -> impl Iterator<Item = &'a str> {
    text.split("crate::").skip(1).filter_map(move |rest| {
        let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric());
        let name = rest.get(..end.unwrap_or(rest.len()))?;
        above.contains(&name).then_some(name)
    })
}

/// `layer.rs` and everything in `layer/`.
fn sources(src: &Path, layer: &str) -> Result<Vec<PathBuf>> {
    let mut files = vec![];
    let root = src.join(layer).with_extension("rs");
    if root.exists() {
        files.push(root);
    }
    let mut folders = vec![src.join(layer)];
    while let Some(folder) = folders.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uses_of_higher_layers_are_found() {
        let text = "use crate::kernel::set;\nlet x = crate::planner::y(crate::plan::z);";
        let found = |above| above_in(text, above).collect::<Vec<_>>();
        assert_eq!(
            found(&["kernel", "planning", "planner"]),
            ["kernel", "planner"]
        );
        assert_eq!(found(&["planning"]), [""; 0]);
    }

    #[test]
    fn every_layer_exists() {
        let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/svc-planner/src");
        for layer in LAYERS {
            assert!(!sources(&src, layer).unwrap().is_empty(), "{layer}");
        }
        assert_eq!(wrong(&src).unwrap(), [""; 0]);
    }
}
