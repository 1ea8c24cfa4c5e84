//! An image as one file, as `docker save` writes it (Docker's image specification 1.2): `docker load`,
//! `podman load`, `ctr images import` and `skopeo copy docker-archive:FILE` take it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::{Value as Json, json};

use crate::apt::output;
use crate::sh;

/// Puts the archive together. The same files make the same archive.
pub(super) fn write(root: &Path, entry_point: &[String], tag: &str, file: &Path) -> Result<()> {
    let folder = file.with_extension("parts");
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    tar(root, &folder.join("layer.tar"))?;
    let layer = digest(&folder.join("layer.tar"))?;
    let config = configuration(entry_point, &layer).to_string();
    fs::write(folder.join("config"), &config)?;
    let config = format!("{}.json", digest(&folder.join("config"))?);
    fs::rename(folder.join("config"), folder.join(&config))?;
    let manifest = json!([{"Config": config, "RepoTags": [tag], "Layers": ["layer.tar"]}]);
    fs::write(folder.join("manifest.json"), manifest.to_string())?;
    tar(&folder, file)?;
    fs::remove_dir_all(&folder)?;
    Ok(())
}

/// What the image says of itself.
fn configuration(entry_point: &[String], layer: &str) -> Json {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "architecture": architecture,
        "os": "linux",
        "created": "1970-01-01T00:00:00Z",
        "config": {"Entrypoint": entry_point, "WorkingDir": "/"},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{layer}")]},
        "history": [{"created": "1970-01-01T00:00:00Z", "created_by": "cargo xtask image"}],
    })
}

/// Times, owners and the order of files say nothing of this machine.
fn tar(folder: &Path, file: &Path) -> Result<()> {
    let mut command = Command::new("tar");
    command
        .args([
            "--sort=name",
            "--mtime=@0",
            "--owner=0",
            "--group=0",
            "--numeric-owner",
        ])
        .args(["--format=gnu", "-C"])
        .arg(folder)
        .arg("-cf")
        .arg(file)
        .arg(".");
    // Names without "./" in front, as images have them.
    command.arg("--transform=s,^\\./,,");
    sh::run(&mut command)
}

fn digest(file: &Path) -> Result<String> {
    let printed = output(Command::new("sha256sum").arg(file))?;
    let digest = printed
        .split(' ')
        .next()
        .context("sha256sum said nothing")?;
    Ok(digest.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_make_the_same_image() {
        let folder = std::env::temp_dir().join(format!("kproxy-image-{}", std::process::id()));
        let root = folder.join("root/usr/local/bin");
        fs::create_dir_all(&root).unwrap();
        fs::write(root.join("kproxy"), "program").unwrap();
        std::os::unix::fs::symlink("kproxy", root.join("kube-proxy")).unwrap();
        let entry_point = ["/usr/local/bin/kproxy".to_owned()];
        let make = |name: &str| {
            let file = folder.join(name);
            write(&folder.join("root"), &entry_point, "kproxy:1", &file).unwrap();
            fs::read(file).unwrap()
        };
        let first = make("1.tar");
        fs::write(root.join("kproxy"), "program").unwrap();
        assert!(first == make("2.tar"), "it differs");
        let list =
            |file: &str| output(Command::new("tar").arg("-tf").arg(folder.join(file))).unwrap();
        let listed = list("1.tar");
        let mut names: Vec<_> = listed.lines().filter(|name| *name != "./").collect();
        names.sort_unstable();
        let [config, "layer.tar", "manifest.json"] = names.as_slice() else {
            panic!("{listed}");
        };
        // The manifest names the configuration, which names the layer, each by its digest.
        let extract = |name: &str| {
            let mut command = Command::new("tar");
            command
                .arg("-xf")
                .arg(folder.join("1.tar"))
                .arg("-C")
                .arg(&folder)
                .arg(name);
            output(&mut command).unwrap();
            folder.join(name)
        };
        let manifest = fs::read_to_string(extract("manifest.json")).unwrap();
        assert!(
            manifest.contains(config) && manifest.contains("kproxy:1"),
            "{manifest}"
        );
        let file = extract(config);
        assert_eq!(format!("{}.json", digest(&file).unwrap()), *config);
        let layer = digest(&extract("layer.tar")).unwrap();
        assert!(fs::read_to_string(file).unwrap().contains(&layer));
        let listed = list("layer.tar");
        assert!(listed.contains("usr/local/bin/kube-proxy"), "{listed}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
