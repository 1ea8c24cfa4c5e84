//! Version and features of the running kernel.

use nft_batch::{Capabilities, Connection, KernelVersion};

use super::{Check, Finding, Level, finding};

/// The oldest series that we are made for.
pub(crate) const OLDEST: (u32, u32) = KernelVersion::OLDEST;

pub(super) fn version() -> Finding {
    judge(&KernelVersion::running())
}

fn judge(version: &KernelVersion) -> Finding {
    let (major, minor) = OLDEST;
    if version.at_least(major, minor) {
        finding(
            Check::Kernel,
            Level::Ok,
            format!("Linux {}", version.release),
        )
    } else {
        finding(
            Check::Kernel,
            Level::Problem,
            format!(
                "Linux {} is older than {major}.{minor}, the oldest that works",
                version.release
            ),
        )
    }
}

pub(super) fn features(connection: &mut Connection) -> Finding {
    match Capabilities::probe(connection) {
        Ok(found) if found.missing.is_empty() => finding(
            Check::Features,
            Level::Ok,
            "nf_tables has all that is needed",
        ),
        Ok(found) => {
            let names: Vec<_> = found
                .missing
                .iter()
                .map(|(name, errno)| format!("{name} ({errno})"))
                .collect();
            finding(
                Check::Features,
                Level::Problem,
                format!(
                    "the kernel lacks nf_tables features: {}; load or enable their modules (nft_*)",
                    names.join(", ")
                ),
            )
        }
        Err(error) => finding(
            Check::Features,
            Level::Problem,
            format!("nf_tables cannot be asked: {error}"),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_kernels_are_named() {
        let old = judge(&KernelVersion::parse("5.10.0-33-amd64"));
        assert_eq!(old.level, Level::Problem);
        assert!(old.message.contains("5.10.0-33-amd64") && old.message.contains("5.13"));
        assert_eq!(judge(&KernelVersion::parse("5.13.1")).level, Level::Ok);
        assert_eq!(judge(&KernelVersion::parse("7.0")).level, Level::Ok);
    }
}
