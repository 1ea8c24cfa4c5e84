//! The programs of a real control plane: etcd, kube-apiserver and kube-proxy; kubectl; and the
//! definitions of the Prometheus Operator's kinds.
//!
//! `cargo xtask control-plane build` builds them from the Go modules in `tests/control-plane/` into
//! a folder of the cache per module, named after the module's sums. A program that the folder
//! `KUBEBUILDER_ASSETS` holds is used instead.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::nft::cache_dir;

/// A Go module and what is built of it.
#[derive(Debug, Clone, Copy)]
pub struct Module {
    /// Folder below `tests/control-plane/`.
    pub name: &'static str,
    /// Program → Go package.
    pub programs: &'static [(&'static str, &'static str)],
    /// Module → files of it that are copied.
    pub files: &'static [(&'static str, &'static [&'static str])],
}

/// All modules.
pub const MODULES: [Module; 4] = [
    Module {
        name: "etcd",
        programs: &[("etcd", "go.etcd.io/etcd/server/v3")],
        files: &[],
    },
    Module {
        name: "kubernetes",
        programs: &[
            ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
            ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        ],
        files: &[],
    },
    Module {
        name: "kubectl",
        programs: &[("kubectl", "k8s.io/kubernetes/cmd/kubectl")],
        files: &[],
    },
    Module {
        name: "prometheus-operator",
        programs: &[],
        files: &[(
            "github.com/prometheus-operator/prometheus-operator",
            &[
                "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
                "example/prometheus-operator-crd/monitoring.coreos.com_prometheusrules.yaml",
            ],
        )],
    },
];

impl Module {
    /// Its source.
    #[must_use]
    pub fn folder(&self) -> PathBuf {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let tests = here.parent().unwrap_or(here);
        tests.join("control-plane").join(self.name)
    }

    /// Where its programs are kept: a folder of the cache that its `go.mod` and `go.sum` name.
    ///
    /// # Errors
    /// When they cannot be read, or there is no folder for caches.
    pub fn cache(&self) -> io::Result<PathBuf> {
        let mut hash = FNV_BASIS;
        for file in ["go.mod", "go.sum"] {
            for byte in fs::read(self.folder().join(file))? {
                hash = (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME);
            }
        }
        let cache =
            cache_dir().ok_or_else(|| io::Error::other("neither KPROXY_CACHE nor HOME is set"))?;
        let name = format!("{}-{hash:016x}", self.name);
        Ok(cache.join("control-plane").join(name))
    }
}

/// FNV-1a: names a folder, guards nothing.
const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Where a program is: in `KUBEBUILDER_ASSETS`, else in the cache. `None` until it is built.
#[must_use]
pub fn program(name: &str) -> Option<PathBuf> {
    let assets = std::env::var_os("KUBEBUILDER_ASSETS").map(PathBuf::from);
    let given = assets.map(|folder| folder.join(name));
    let built = MODULES.iter().filter(|module| {
        let mut programs = module.programs.iter();
        programs.any(|(program, _)| *program == name)
    });
    let built = built.filter_map(|module| Some(module.cache().ok()?.join(name)));
    given.into_iter().chain(built).find(|path| path.is_file())
}

/// Where the copy of a module's file is. `None` until it is copied.
#[must_use]
pub fn file(path: &str) -> Option<PathBuf> {
    let name = Path::new(path).file_name()?;
    let mut modules = MODULES.iter();
    let module = modules.find(|module| {
        let mut files = module.files.iter().flat_map(|(_, files)| *files);
        files.any(|file| *file == path)
    })?;
    let copy = module.cache().ok()?.join(name);
    copy.is_file().then_some(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_pinned() {
        for module in MODULES {
            let sums = fs::read_to_string(module.folder().join("go.sum")).unwrap();
            let least = if module.programs.is_empty() { 1 } else { 50 };
            assert!(sums.lines().count() > least, "{}: checksums", module.name);
            let requires = fs::read_to_string(module.folder().join("go.mod")).unwrap();
            for (program, package) in module.programs {
                assert!(
                    requires.contains(package),
                    "{program}: a tool of the module"
                );
            }
            for (source, _) in module.files {
                assert!(requires.contains(source), "{source}: required");
            }
            assert!(module.cache().unwrap().is_absolute());
        }
    }
}
