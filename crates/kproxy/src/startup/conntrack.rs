//! Settings of connection tracking, as kube-proxy 1.37 makes them (`pkg/proxy/conntrack`, `SetSysctls`).
//!
//! Each is read first and written only if need be, so that nothing is needed where all is right. A table
//! that is larger than asked for is left so.

use core::time::Duration;
use std::io;
use std::path::PathBuf;
use std::thread;

use nft_batch::{Capabilities, Connection};

use super::system::{self, System};
use super::{StartupError, Warning};

/// `KubeProxyConntrackConfiguration`. Zero leaves a setting as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ConntrackSettings {
    /// Connections to track, for each CPU.
    pub max_per_core: u32,
    /// Connections to track at least; nothing by itself if [`Self::max_per_core`] is 0.
    pub min: u32,
    /// How long an idle TCP connection is remembered.
    pub tcp_established_timeout: Duration,
    /// How long one is remembered that one side has closed.
    pub tcp_close_wait_timeout: Duration,
    /// Take packets outside of TCP's window for valid; never reset.
    pub tcp_be_liberal: bool,
    /// How long a UDP flow without replies is remembered.
    pub udp_timeout: Duration,
    /// How long one with replies is.
    pub udp_stream_timeout: Duration,
}

impl ConntrackSettings {
    /// kube-proxy's defaults.
    #[must_use]
    pub const fn kube_proxy() -> Self {
        Self {
            max_per_core: 32_768,
            min: 131_072,
            tcp_established_timeout: Duration::from_secs(24 * 3600),
            tcp_close_wait_timeout: Duration::from_secs(3600),
            tcp_be_liberal: false,
            udp_timeout: Duration::ZERO,
            udp_stream_timeout: Duration::ZERO,
        }
    }

    /// Connections to track, on `cpus` CPUs; `None` to leave it.
    fn max(&self, cpus: u32) -> Option<u64> {
        if self.max_per_core == 0 {
            return None;
        }
        let scaled = u64::from(self.max_per_core).saturating_mul(cpus.into());
        if scaled > SCALED_MAX {
            return Some(SCALED_MAX);
        }
        Some(scaled.max(self.min.into()))
    }

    /// What is to be set: file name, value, and the field that asks for it.
    fn sysctls(&self) -> impl Iterator<Item = (&'static str, u64, &'static str)> {
        let timeouts = [
            (
                "nf_conntrack_tcp_timeout_established",
                self.tcp_established_timeout,
                "conntrack.tcpEstablishedTimeout 0s",
            ),
            (
                "nf_conntrack_tcp_timeout_close_wait",
                self.tcp_close_wait_timeout,
                "conntrack.tcpCloseWaitTimeout 0s",
            ),
            (
                "nf_conntrack_udp_timeout",
                self.udp_timeout,
                "conntrack.udpTimeout 0s",
            ),
            (
                "nf_conntrack_udp_timeout_stream",
                self.udp_stream_timeout,
                "conntrack.udpStreamTimeout 0s",
            ),
        ];
        let timeouts = timeouts.into_iter().filter(|(_, time, _)| !time.is_zero());
        // A timeout of 0 forgets every connection at once; kube-proxy sets it for less than a second.
        let timeouts = timeouts.map(|(name, time, field)| (name, time.as_secs().max(1), field));
        let liberal = self.tcp_be_liberal.then_some((
            "nf_conntrack_tcp_be_liberal",
            1,
            "conntrack.tcpBeLiberal false",
        ));
        timeouts.chain(liberal)
    }
}

/// What many CPUs alone may ask for, so that connections do not eat the node's memory.
const SCALED_MAX: u64 = 1 << 20;
/// A bucket of the hash table for so many connections.
const PER_BUCKET: u64 = 4;

/// Has the kernel load its module: on a node that has just started nobody may have used it, and without it
/// there are no settings. Our rules use it; to try one out is enough.
pub(super) fn load(system: &System) {
    if system.net("netfilter/nf_conntrack_max").exists() {
        return;
    }
    if let Ok(mut connection) = Connection::open() {
        // What cannot be used is said, with everything else, when the proxy begins.
        let _ = Capabilities::probe(&mut connection);
    }
}

/// Sets what is not right.
///
/// # Errors
/// [`StartupError::Setting`], as kube-proxy, which ends then.
pub(super) fn set(
    system: &System,
    settings: &ConntrackSettings,
) -> Result<Vec<Warning>, StartupError> {
    let mut warnings = Vec::new();
    if let Some(max) = settings.max(cpus(system)) {
        let path = system.net("netfilter/nf_conntrack_max");
        if system::number(&path).is_none_or(|found| found < max) {
            write(path, max, "conntrack.maxPerCore 0")?;
        }
        warnings.extend(hash_size(system, max / PER_BUCKET));
    }
    for (name, value, field) in settings.sysctls() {
        let path = system.net("netfilter").join(name);
        if system::number(&path) != Some(value) {
            write(path, value, field)?;
        }
    }
    Ok(warnings)
}

fn write(path: PathBuf, value: u64, field: &'static str) -> Result<(), StartupError> {
    match system::write(&path, value) {
        Ok(()) => {
            tracing::info!("{} set to {value}", path.display());
            Ok(())
        }
        Err(error) => Err(StartupError::Setting {
            found: system::text(&path),
            path,
            value,
            field,
            error,
        }),
    }
}

/// Makes the hash table large enough. One that is too small costs time for each packet, and no
/// connection, so it is no reason to stay away (kube-proxy 1.37 ends; up to 1.36 it goes on like this).
fn hash_size(system: &System, buckets: u64) -> Option<Warning> {
    let path = system.sys.join("module/nf_conntrack/parameters/hashsize");
    // Root alone may read it; everybody may read the same number here.
    let found = system::number(&path)
        .or_else(|| system::number(&system.net("netfilter/nf_conntrack_buckets")));
    if found.is_some_and(|found| found >= buckets) {
        return None;
    }
    let error: io::Error = match system::write(&path, buckets) {
        Ok(()) => {
            tracing::info!("{} set to {buckets}", path.display());
            return None;
        }
        Err(error) => error,
    };
    let found = found.map_or_else(|| "unreadable".to_owned(), |found| found.to_string());
    let message = format!(
        "cannot set {} to {buckets} (it is {found}): {error}; with many connections each packet takes \
         longer. Mount /sys writable, or set module parameter nf_conntrack.hashsize on the node",
        path.display()
    );
    tracing::warn!("{message}");
    Some(Warning {
        reason: "readOnlySysFS",
        message,
    })
}

/// CPUs of the node that are online. What this process may use says nothing: the limit is the host's.
fn cpus(system: &System) -> u32 {
    let online = system::text(&system.sys.join("devices/system/cpu/online"));
    let counted = online.as_deref().and_then(count).filter(|cpus| *cpus > 0);
    counted.unwrap_or_else(|| {
        let usable = thread::available_parallelism();
        usable.map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
    })
}

/// How many a list such as `0-3,8` names.
fn count(list: &str) -> Option<u32> {
    list.split(',')
        .map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            last.checked_sub(first)?.checked_add(1)
        })
        .try_fold(0_u32, |sum, cpus| sum.checked_add(cpus?))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::Path;

    use super::*;

    const SYSCTLS: [&str; 6] = [
        "nf_conntrack_max",
        "nf_conntrack_tcp_timeout_established",
        "nf_conntrack_tcp_timeout_close_wait",
        "nf_conntrack_udp_timeout",
        "nf_conntrack_udp_timeout_stream",
        "nf_conntrack_tcp_be_liberal",
    ];
    const HASH_SIZE: &str = "module/nf_conntrack/parameters/hashsize";

    /// Files that look like procfs and sysfs.
    struct Fake {
        system: System,
        _folder: tempfile::TempDir,
    }

    impl Fake {
        /// A node with these CPUs and this table, and zero in all other settings.
        fn new(cpus: &str, max: u64, buckets: u64) -> Self {
            let folder = tempfile::tempdir().unwrap();
            let system = System {
                proc: folder.path().join("proc"),
                sys: folder.path().join("sys"),
            };
            let put = |path: PathBuf, text: String| {
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            };
            for name in SYSCTLS {
                put(system.net("netfilter").join(name), "0\n".to_owned());
            }
            put(system.net("netfilter/nf_conntrack_max"), format!("{max}\n"));
            put(system.sys.join(HASH_SIZE), format!("{buckets}\n"));
            put(
                system.sys.join("devices/system/cpu/online"),
                format!("{cpus}\n"),
            );
            Self {
                system,
                _folder: folder,
            }
        }

        /// All settings in the order of [`SYSCTLS`], and the size of the hash table.
        fn read(&self) -> [u64; 7] {
            let mut out = [0; 7];
            for (place, name) in SYSCTLS.iter().enumerate() {
                let path = self.system.net("netfilter").join(name);
                out[place] = system::number(&path).unwrap();
            }
            out[6] = system::number(&self.system.sys.join(HASH_SIZE)).unwrap();
            out
        }
    }

    /// Takes away what a setting can be written through.
    fn forbid(path: &Path) {
        fs::remove_file(path).unwrap();
        fs::create_dir(path).unwrap();
    }

    #[test]
    fn defaults_are_kube_proxys() {
        let fake = Fake::new("0-7", 65_536, 16_384);
        let warnings = set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap();
        assert_eq!(warnings, []);
        assert_eq!(fake.read(), [262_144, 86_400, 3_600, 0, 0, 0, 65_536]);
    }

    #[test]
    fn everything_can_be_asked_for() {
        let fake = Fake::new("0", 1, 1);
        let seconds = Duration::from_secs;
        let settings = ConntrackSettings {
            max_per_core: 100,
            min: 50,
            tcp_established_timeout: seconds(11),
            tcp_close_wait_timeout: seconds(12),
            tcp_be_liberal: true,
            udp_timeout: seconds(13),
            udp_stream_timeout: Duration::from_millis(14_999),
        };
        set(&fake.system, &settings).unwrap();
        assert_eq!(fake.read(), [100, 11, 12, 13, 14, 1, 25]);
    }

    #[test]
    fn nothing_is_made_smaller_and_zeros_leave_things_alone() {
        let fake = Fake::new("0-1", 1_000_000, 300_000);
        set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap();
        assert_eq!(fake.read()[..1], [1_000_000]);
        assert_eq!(fake.read()[6], 300_000);
        let before = Fake::new("0-1", 7, 7);
        let nothing = ConntrackSettings {
            min: 1 << 20,
            ..ConntrackSettings::default()
        };
        set(&before.system, &nothing).unwrap();
        assert_eq!(before.read(), [7, 0, 0, 0, 0, 0, 7]);
    }

    #[test]
    fn the_number_of_cpus_counts_between_two_bounds() {
        let max = |per_core, min, cpus| {
            let settings = ConntrackSettings {
                max_per_core: per_core,
                min,
                ..ConntrackSettings::default()
            };
            settings.max(cpus)
        };
        assert_eq!(max(0, 5, 8), None);
        assert_eq!(max(10, 5, 8), Some(80));
        assert_eq!(max(10, 500, 8), Some(500));
        assert_eq!(max(32_768, 131_072, 256), Some(1 << 20));
        assert_eq!(max(1 << 18, 1 << 24, 16), Some(1 << 20), "as kube-proxy");
        assert_eq!(max(u32::MAX, 0, u32::MAX), Some(1 << 20));
    }

    #[test]
    fn lists_of_cpus_are_counted() {
        for (list, cpus) in [("0", 1), ("0-3", 4), ("0-3,8,10-11", 7)] {
            assert_eq!(count(list), Some(cpus), "{list}");
        }
        for wrong in ["", "x", "3-1", "0-", "0-4294967295"] {
            assert_eq!(count(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn what_is_right_needs_no_privilege() {
        let fake = Fake::new("0-7", 65_536, 16_384);
        set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap();
        for name in SYSCTLS {
            let path = fake.system.net("netfilter").join(name);
            // Root may write what its mode forbids, but not where no write ends up.
            fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
        }
        let modified = |fake: &Fake| {
            SYSCTLS.map(|name| {
                let path = fake.system.net("netfilter").join(name);
                fs::metadata(path).unwrap().modified().unwrap()
            })
        };
        let before = modified(&fake);
        set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap();
        assert_eq!(modified(&fake), before, "nothing was written");
    }

    #[test]
    fn what_cannot_be_set_is_named_with_the_way_out() {
        for (name, field) in [
            ("nf_conntrack_max", "conntrack.maxPerCore"),
            (
                "nf_conntrack_tcp_timeout_established",
                "conntrack.tcpEstablishedTimeout",
            ),
        ] {
            let fake = Fake::new("0-7", 65_536, 65_536);
            forbid(&fake.system.net("netfilter").join(name));
            let error = set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap_err();
            let text = error.to_string();
            assert!(text.contains(name) && text.contains(field), "{text}");
            assert!(
                text.contains("--init-only") && !text.contains('\n'),
                "{text}"
            );
        }
    }

    #[test]
    fn a_small_hash_table_is_only_warned_of() {
        let fake = Fake::new("0-7", 65_536, 5);
        let path = fake.system.sys.join(HASH_SIZE);
        forbid(&path);
        let warnings = set(&fake.system, &ConntrackSettings::kube_proxy()).unwrap();
        let [warning] = warnings.as_slice() else {
            panic!("{warnings:?}");
        };
        assert_eq!(warning.reason, "readOnlySysFS");
        assert!(warning.message.contains("65536"), "{}", warning.message);
        let timeout = fake
            .system
            .net("netfilter/nf_conntrack_tcp_timeout_established");
        assert_eq!(
            system::number(&timeout),
            Some(86_400),
            "the rest is set nevertheless"
        );
    }
}
