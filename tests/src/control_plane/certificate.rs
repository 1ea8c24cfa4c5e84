//! Certificates of clients, and the authority whose signature the API server trusts on them.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use crate::folder::Folder;

/// The authority's certificate, which the API server reads again when it changes.
pub(super) const AUTHORITY: &str = "clients.crt";
const AUTHORITY_KEY: &str = "clients.key";
/// Curve of all keys here.
const KEY: [&str; 4] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];

/// A client's certificate and key.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// PEM.
    pub certificate: String,
    /// PEM, without a password.
    pub key: String,
    id: String,
}

impl ClientCertificate {
    /// Signs one for a user and a group.
    pub(super) fn sign(folder: &Path, user: &str, group: &str) -> Result<Self> {
        let work = Folder::new()?;
        let file = |name: &str| work.path().join(name);
        let request = file("request");
        openssl(
            Command::new("openssl")
                .args(["req", "-new", "-nodes"])
                .args(KEY)
                .args(["-subj", &format!("/O={group}/CN={user}")])
                .arg("-keyout")
                .arg(file("key"))
                .arg("-out")
                .arg(&request),
        )?;
        // Without an extension it would be of version 1, which rustls does not take.
        fs::write(file("extensions"), "extendedKeyUsage = clientAuth\n")?;
        openssl(
            Command::new("openssl")
                .args(["x509", "-req", "-days", "1", "-extfile"])
                .arg(file("extensions"))
                .arg("-CA")
                .arg(folder.join(AUTHORITY))
                .arg("-CAkey")
                .arg(folder.join(AUTHORITY_KEY))
                .arg("-in")
                .arg(&request)
                .arg("-out")
                .arg(file("certificate")),
        )?;
        let fingerprint = openssl(
            Command::new("openssl")
                .args(["x509", "-noout", "-fingerprint", "-sha256", "-in"])
                .arg(file("certificate")),
        )?;
        let (_, fingerprint) = fingerprint.trim().split_once('=').context("fingerprint")?;
        Ok(Self {
            certificate: fs::read_to_string(file("certificate"))?,
            key: fs::read_to_string(file("key"))?,
            // apiserver/pkg/authentication/request/x509: `CommonNameUserConversion`.
            id: format!("X509SHA256={}", fingerprint.replace(':', "").to_lowercase()),
        })
    }

    /// What the record of requests calls it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// A new authority; what an earlier one signed is worth nothing once the API server has read it.
pub(super) fn make_authority(folder: &Path) -> Result<()> {
    let new = folder.join("clients.new");
    openssl(
        Command::new("openssl")
            .args(["req", "-x509", "-new", "-nodes", "-days", "1"])
            .args(KEY)
            .args(["-subj", "/CN=clients", "-keyout"])
            .arg(folder.join(AUTHORITY_KEY))
            .arg("-out")
            .arg(&new),
    )?;
    // In one step: the API server watches the file.
    fs::rename(new, folder.join(AUTHORITY))?;
    Ok(())
}

fn openssl(command: &mut Command) -> Result<String> {
    let output = command.output().context("start openssl")?;
    ensure!(
        output.status.success(),
        "openssl: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?)
}
