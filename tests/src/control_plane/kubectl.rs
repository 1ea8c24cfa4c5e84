//! The real kubectl, the tool that people apply manifests with.

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};
use netns_lab::{Namespace, NamespaceRef};
use serde_json::{Value as Json, json};

use super::{SERVER, find};

/// See the module.
#[derive(Debug)]
pub struct Kubectl {
    program: PathBuf,
    namespace: NamespaceRef,
    folder: PathBuf,
}

impl Kubectl {
    pub(super) fn new(namespace: &Namespace, folder: &Path, token: &str) -> Result<Self> {
        let folder = folder.join("kubectl");
        fs::create_dir_all(&folder)?;
        let access = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [{"name": "it", "cluster": {
                "server": format!("https://{SERVER}"), "insecure-skip-tls-verify": true}}],
            "users": [{"name": "it", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}]
        });
        fs::write(folder.join("config"), access.to_string())?;
        Ok(Self {
            program: find("kubectl")?,
            namespace: namespace.handle(),
            folder,
        })
    }

    /// Runs it at the repository's root; a warning of the API server is an error. Returns what it
    /// printed.
    ///
    /// # Errors
    /// When it fails.
    pub fn run<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<String> {
        self.run_with(arguments, "")
    }

    /// As [`Kubectl::run`], with something to read.
    ///
    /// # Errors
    /// When it fails.
    pub fn run_with<S: AsRef<OsStr>>(&self, arguments: &[S], input: &str) -> Result<String> {
        let mut command = Command::new(&self.program);
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        command
            .current_dir(root)
            .env_clear()
            .env("HOME", &self.folder)
            .env("KUBECONFIG", self.folder.join("config"))
            .arg("--warnings-as-errors")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let shown: Vec<_> = arguments
            .iter()
            .map(|argument| argument.as_ref().to_string_lossy().into_owned())
            .collect();
        let (namespace, input) = (self.namespace.clone(), input.to_owned());
        let output = std::thread::spawn(move || -> Result<_> {
            namespace.enter()?;
            let mut child = command.spawn().context("start kubectl")?;
            let mut stdin = child.stdin.take().context("kubectl has no input")?;
            // It need not read all of it.
            let _ = stdin.write_all(input.as_bytes());
            drop(stdin);
            Ok(child.wait_with_output()?)
        })
        .join()
        .map_err(|_| anyhow::anyhow!("the thread that runs kubectl panicked"))??;
        ensure!(
            output.status.success(),
            "kubectl {}: {}",
            shown.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(String::from_utf8(output.stdout)?)
    }

    /// How to run it from a shell in the control plane's namespace; warnings are errors.
    #[must_use]
    pub fn words(&self) -> String {
        let (program, config) = (self.program.display(), self.folder.join("config"));
        format!(
            "env HOME='{}' KUBECONFIG='{}' '{program}' --warnings-as-errors",
            self.folder.display(),
            config.display()
        )
    }

    /// An object, as JSON.
    ///
    /// # Errors
    /// When it is not there.
    pub fn object<S: AsRef<str>>(&self, what: &[S]) -> Result<Json> {
        let mut arguments = vec!["get", "-o", "json"];
        arguments.extend(what.iter().map(AsRef::as_ref));
        Ok(serde_json::from_str(&self.run(&arguments)?)?)
    }
}
