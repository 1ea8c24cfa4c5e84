//! Which kernels there are, and how one is fetched and made ready to boot.
//!
//! Debian's cloud flavour: small, with everything that nf_tables has. Exact versions vanish from the
//! mirrors, so kernels are chosen by the beginning of their version, and the newest one is taken.
//! Layout below the cache: `kernels/RELEASE/` holds `vmlinux`, `modules.cpio` and `modules.list`, what
//! the latter was asked for.

use core::cmp::Reverse;
use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use super::cpio::Archive;
use super::vmlinux;
use crate::apt::{AptRoot, cache_dir, create_dir, output, remove_dir, walk};

/// Suites that have kernels, from the oldest series to the newest.
const SUITES: [&str; 3] = ["bullseye-security", "bookworm-security", "trixie-backports"];

/// Beginnings of versions that are run by default, and whether one must be had.
pub(super) const SERIES: [(&str, bool); 5] = [
    ("5.10.", false),
    ("6.1.", true),
    ("6.12.", true),
    ("6.18.", false),
    ("7.", true),
];

/// Modules loaded before anything is run, where the kernel has them, with those they need.
const MODULES: &[&str] = &[
    "nfnetlink",
    "nf_tables",
    "nft_chain_nat",
    "nft_numgen",
    "nft_hash",
    "nft_ct",
    "nft_nat",
    "nft_masq",
    "nft_redir",
    "nft_limit",
    "nft_log",
    "nft_counter",
    "nft_objref",
    "nft_quota",
    "nft_connlimit",
    "nft_reject",
    "nft_reject_inet",
    "nft_reject_ipv4",
    "nft_reject_ipv6",
    "nft_fib",
    "nft_fib_inet",
    "nft_fib_ipv4",
    "nft_fib_ipv6",
    "nft_compat",
    "nft_flow_offload",
    "nf_flow_table",
    "nf_conntrack",
    "nf_conntrack_netlink",
    "nf_nat",
    "sctp",
    "veth",
    "dummy",
    "bridge",
    "br_netfilter",
    "nlmon",
    "ip_tables",
    "iptable_nat",
    "iptable_filter",
    "ip6_tables",
    "ip6table_nat",
    "ip6table_filter",
    "xt_addrtype",
    "xt_comment",
    "xt_conntrack",
    "xt_mark",
    "xt_MASQUERADE",
    "xt_nat",
    "xt_tcpudp",
    "ip_set",
    "ip_set_bitmap_port",
    "ip_set_hash_ip",
    "ip_set_hash_ipport",
    "ip_set_hash_ipportip",
    "ip_set_hash_ipportnet",
    "xt_set",
    "ip_vs",
    "ip_vs_rr",
    "ip_vs_sh",
    "ip_vs_wrr",
];

/// How long an unpacked kernel serves before a newer one of its series is looked for.
const FRESH: Duration = Duration::from_secs(14 * 24 * 3600);

/// A kernel that can be booted.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    /// What it was asked for by.
    pub(super) prefix: String,
    /// As `uname -r` prints it.
    pub(super) release: String,
    /// Where it is.
    pub(super) folder: PathBuf,
}

/// Kernels of the cache, and of the mirrors.
pub(super) struct Catalogue {
    cache: PathBuf,
    update: bool,
    apt: Option<AptRoot>,
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        if let Some(apt) = &self.apt {
            // What is left over is a few megabytes of a cache.
            let _ = remove_dir(&apt.dir);
        }
    }
}

impl Catalogue {
    /// `update`: look for newer kernels than those at hand.
    pub(super) fn open(update: bool) -> Result<Self> {
        Ok(Self {
            cache: cache_dir()?.join("kernels"),
            update,
            apt: None,
        })
    }

    /// The newest kernel whose version starts so; `None` if the mirrors have none.
    pub(super) fn provide(&mut self, prefix: &str) -> Result<Option<Kernel>> {
        let at_hand = self.at_hand(prefix)?;
        if !self.update
            && let Some(kernel) = at_hand.clone().filter(is_fresh)
        {
            return Ok(Some(kernel));
        }
        match self.fetch(prefix) {
            Ok(Some(kernel)) => Ok(Some(kernel)),
            Ok(None) => Ok(at_hand),
            Err(error) => match at_hand {
                Some(kernel) => {
                    println!("# {prefix}: no newer one could be fetched: {error:#}");
                    Ok(Some(kernel))
                }
                None => Err(error),
            },
        }
    }

    /// The newest one that is unpacked.
    fn at_hand(&self, prefix: &str) -> Result<Option<Kernel>> {
        let Ok(entries) = fs::read_dir(&self.cache) else {
            return Ok(None);
        };
        let mut found = Vec::new();
        for entry in entries {
            let folder = entry?.path();
            let release = folder.file_name().unwrap_or_default().to_string_lossy();
            if matches(&release, prefix) && is_complete(&folder) {
                found.push((numbers(&release), release.into_owned(), folder));
            }
        }
        found.sort();
        Ok(found.pop().map(|(_, release, folder)| Kernel {
            prefix: prefix.to_owned(),
            release,
            folder,
        }))
    }

    fn fetch(&mut self, prefix: &str) -> Result<Option<Kernel>> {
        let apt = match self.apt.take() {
            Some(apt) => apt,
            None => {
                let name = format!("apt-{}", std::process::id());
                AptRoot::new(&self.cache.join(name), &SUITES)?
            }
        };
        let apt = self.apt.insert(apt);
        let Some((name, packages)) = newest(apt, prefix)? else {
            return Ok(None);
        };
        // Others may be at the same.
        let building = self.cache.join(format!("new-{}", std::process::id()));
        remove_dir(&building)?;
        let (root, ready) = (building.join("root"), building.join("ready"));
        create_dir(&ready)?;
        // Named after the package until the release is known.
        if let Some(kernel) = self.at_hand(prefix)?
            && fs::read_to_string(kernel.folder.join("package")).is_ok_and(|it| it == name)
        {
            fs::File::open(kernel.folder.join("package"))?.set_modified(SystemTime::now())?;
            remove_dir(&building)?;
            return Ok(Some(kernel));
        }
        let apt = self.apt.as_ref().context("no lists of packages")?;
        apt.download_alone(&packages, &building.join("packages"))?;
        for package in walk(&building.join("packages"))? {
            let args = [Path::new("-x"), &package, &root].map(Path::as_os_str);
            output(Command::new("dpkg-deb").args(args))?;
        }
        let release = unpack(&root, &ready).with_context(|| name.clone())?;
        fs::write(ready.join("package"), &name)?;
        let folder = self.cache.join(&release);
        remove_dir(&folder)?;
        fs::rename(&ready, &folder).with_context(|| folder.display().to_string())?;
        remove_dir(&building)?;
        Ok(Some(Kernel {
            prefix: prefix.to_owned(),
            release,
            folder,
        }))
    }
}

/// The newest image of the lists and the packages that it consists of.
fn newest(apt: &AptRoot, prefix: &str) -> Result<Option<(String, Vec<String>)>> {
    let mut names = apt.names("^linux-image-[0-9].*-cloud-amd64$")?;
    names.retain(|name| {
        name.strip_prefix("linux-image-")
            .is_some_and(|version| matches(version, prefix))
    });
    names.sort_by_key(|name| Reverse(numbers(name)));
    for name in names {
        let Some(shown) = apt.show(&name) else {
            continue;
        };
        // Since 6.19 the image is two packages, and superseded ones lose the second.
        let version = name.trim_start_matches("linux-image-");
        let parts = [
            format!("linux-binary-{version}"),
            format!("linux-modules-{version}"),
        ];
        let split = shown.contains("linux-binary-") || apt.show(&parts[0]).is_some();
        if !split {
            return Ok(Some((name.clone(), vec![name])));
        }
        if parts.iter().all(|part| apt.show(part).is_some()) {
            return Ok(Some((name, parts.to_vec())));
        }
    }
    Ok(None)
}

/// Makes an unpacked package ready to boot; its release.
fn unpack(root: &Path, ready: &Path) -> Result<String> {
    // The tools look below lib, later packages install below usr/lib.
    if root.join("lib/modules").is_dir() && !root.join("lib").is_symlink() {
        create_dir(&root.join("usr/lib"))?;
        fs::rename(root.join("lib/modules"), root.join("usr/lib/modules"))?;
        remove_dir(&root.join("lib"))?;
    }
    if !root.join("lib").exists() {
        std::os::unix::fs::symlink("usr/lib", root.join("lib"))?;
    }
    let mut releases = fs::read_dir(root.join("usr/lib/modules"))?;
    let release = releases.next().context("no modules")??.file_name();
    let release = release.to_string_lossy().into_owned();
    // The packages carry no list of dependencies.
    let root_text = root.display().to_string();
    output(Command::new("/usr/sbin/depmod").args(["-b", &root_text, &release]))?;
    let image = walk(root)?.into_iter().find(|path| {
        let name = path.file_name().unwrap_or_default();
        name.to_string_lossy().starts_with("vmlinuz")
    });
    let image = fs::read(image.context("no kernel image")?)?;
    fs::write(ready.join("vmlinux"), vmlinux::extract(&image)?)?;
    modules(root, &release, ready)?;
    Ok(release)
}

/// Packs the modules, in the order in which they are to be loaded.
fn modules(root: &Path, release: &str, ready: &Path) -> Result<()> {
    let mut archive = Archive::default();
    archive.folder("modules");
    let mut order = String::new();
    let mut seen = Vec::new();
    for module in MODULES {
        let shown = Command::new("/usr/sbin/modprobe")
            .arg("-d")
            .arg(root)
            .args(["-S", release, "--show-depends", module])
            .stderr(Stdio::null())
            .output()
            .context("modprobe")?;
        // Built in, or not there: what needs it will say so.
        for line in String::from_utf8_lossy(&shown.stdout).lines() {
            let mut words = line.split_whitespace();
            let (Some("insmod"), Some(path)) = (words.next(), words.next()) else {
                continue;
            };
            if seen.iter().any(|it| it == path) {
                continue;
            }
            seen.push(path.to_owned());
            let name = Path::new(path).file_name().unwrap_or_default();
            let name = name.to_string_lossy();
            let data = fs::read(path).with_context(|| path.to_owned())?;
            let (name, data) = match name.rsplit_once('.') {
                Some((name, "xz")) => (name.to_owned(), vmlinux::through("xz", &data)?),
                Some((name, "zst")) => (name.to_owned(), vmlinux::through("zstd", &data)?),
                _ => (name.into_owned(), data),
            };
            archive.file(&format!("modules/{name}"), 0o644, &data)?;
            order.push_str(&name);
            order.push('\n');
        }
    }
    ensure!(
        order.contains("nf_tables.ko"),
        "no module nf_tables among {} modules",
        seen.len()
    );
    archive.file("modules/order", 0o644, order.as_bytes())?;
    fs::write(ready.join("modules.cpio"), archive.finish())?;
    fs::write(ready.join("modules.list"), MODULES.join("\n"))?;
    Ok(())
}

/// Whether it was made with all the modules that are wanted, or more.
fn is_complete(folder: &Path) -> bool {
    let list = fs::read_to_string(folder.join("modules.list")).unwrap_or_default();
    let made: Vec<_> = list.lines().collect();
    MODULES.iter().all(|module| made.contains(module))
}

fn is_fresh(kernel: &Kernel) -> bool {
    let modified = fs::metadata(kernel.folder.join("package")).and_then(|it| it.modified());
    modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < FRESH))
}

/// Whether a version starts so, number by number: `6.1` is not the beginning of `6.12.1`.
fn matches(version: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('.');
    version
        .strip_prefix(prefix)
        // Names without a patch number are those of packages that only refer to others.
        .is_some_and(|rest| rest.starts_with('.'))
}

/// All numbers in a version, to compare.
fn numbers(version: &str) -> Vec<u64> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .collect()
}

/// The processor that these packages are for.
pub(super) fn check_machine() -> Result<()> {
    if std::env::consts::ARCH != "x86_64" {
        bail!(
            "guests are x86_64 machines, this is {}",
            std::env::consts::ARCH
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_match_number_by_number() {
        assert!(matches("6.1.0-57-cloud-amd64", "6.1."));
        assert!(matches("6.1.0-57-cloud-amd64", "6.1"));
        assert!(!matches("6.12.117+deb12-cloud-amd64", "6.1"));
        assert!(matches("7.3.4+deb13-cloud-amd64", "7."));
        assert!(!matches("17.3.4", "7."));
        assert!(!matches("6.1-cloud-amd64", "6.1."));
    }

    #[test]
    fn newer_versions_are_bigger() {
        assert!(numbers("6.1.0-57-cloud-amd64") > numbers("6.1.0-9-cloud-amd64"));
        assert!(numbers("6.12.117+deb12") > numbers("6.12.9+deb12"));
    }
}
