//! What follows from what a kernel lacks, for whoever serves Services with it.

use super::{Capabilities, KernelVersion};

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Advice {
    /// How bad it is.
    pub severity: Severity,
    /// What is missing.
    pub what: String,
    /// What follows from it.
    pub effect: &'static str,
    /// What can be done.
    pub remedy: &'static str,
}

/// How bad it is that something is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// Services are served; something is slower, or less safe.
    Degraded,
    /// Services cannot be served.
    Fatal,
}

impl Capabilities {
    /// What this kernel lacks that a Service proxy would use, the worst first; nothing if all is
    /// there.
    #[must_use]
    pub fn advice(&self) -> Vec<Advice> {
        let mut advice = Vec::new();
        let (major, minor) = KernelVersion::OLDEST;
        if !self.kernel.at_least(major, minor) {
            advice.push(Advice {
                severity: Severity::Fatal,
                what: format!(
                    "Linux {} is older than {major}.{minor}",
                    self.kernel.release
                ),
                effect: "it is not tested, and kube-proxy's nftables mode refuses it as well",
                remedy: "use a newer kernel",
            });
        }
        if !self.missing.is_empty() {
            let names: Vec<_> = self
                .missing
                .iter()
                .map(|(name, errno)| format!("{name} ({errno})"))
                .collect();
            advice.push(Advice {
                severity: Severity::Fatal,
                what: format!("nf_tables lacks {}", names.join(", ")),
                effect: "rules for Services cannot be loaded",
                remedy: "load or enable the kernel modules nft_*",
            });
        }
        let mut lacks = |has: bool, what: &str, effect, remedy| {
            if !has {
                advice.push(Advice {
                    severity: Severity::Degraded,
                    what: what.to_owned(),
                    effect,
                    remedy,
                });
            }
        };
        lacks(
            self.table_owner,
            "tables have no owner (Linux 5.12)",
            "other programs cannot be kept from changing the tables",
            "nothing; what they change is put right",
        );
        lacks(
            self.destroy,
            "there are no DESTROY messages (Linux 6.3)",
            "deleting what may not exist takes an addition before it",
            "nothing; it is done so",
        );
        lacks(
            self.table_persist,
            "tables with an owner go when it ends (Linux 6.9)",
            "with an owner, Services are not served while the proxy restarts",
            "leave tables without an owner, or use a newer kernel",
        );
        lacks(
            self.batch_end_ack,
            "the end of a transaction is not acknowledged (Linux 6.10)",
            "a commit is proven by the generation number instead",
            "nothing; it is done so",
        );
        lacks(
            self.memoised_validation,
            "chains are validated once for each way that leads to them (Linux 6.18)",
            "adding a verdict row takes longer the more rules are behind the map",
            "keep the number of classes low, or use a newer kernel",
        );
        lacks(
            self.lookup_restart,
            "a lookup during a commit may find neither the old nor the new row (Linux 6.17)",
            "once in a while a first packet during a change is dropped and must be sent again",
            "use a newer kernel where that matters",
        );
        advice
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Errno, KernelVersion};

    fn modern() -> Capabilities {
        Capabilities {
            kernel: KernelVersion::parse("6.18.1"),
            destroy: true,
            table_owner: true,
            table_persist: true,
            batch_end_ack: true,
            bitwise_registers: true,
            memoised_validation: true,
            lookup_restart: true,
            missing: Vec::new(),
        }
    }

    #[test]
    fn nothing_to_say_about_a_modern_kernel() {
        assert_eq!(modern().advice(), []);
    }

    #[test]
    fn what_is_missing_is_named_the_worst_first() {
        let mut old = modern();
        old.kernel = KernelVersion::parse("5.10.0-46-cloud-amd64");
        old.missing = vec![("numgen", Errno::ENOENT)];
        old.destroy = false;
        let advice = old.advice();
        let severities: Vec<_> = advice.iter().map(|it| it.severity).collect();
        assert_eq!(
            severities,
            [Severity::Fatal, Severity::Fatal, Severity::Degraded]
        );
        assert!(advice[0].what.contains("5.10.0-46"), "{}", advice[0].what);
        assert_eq!(advice[1].what, "nf_tables lacks numgen (ENOENT)");
    }
}
