//! Options about privileges, and about what kube-proxy left.

use clap::{Args, ValueEnum};

use crate::leftovers;
use crate::netns::Netns;
use crate::startup::{Confinement, OnForbidden};

/// What the process keeps once it is at work.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Privileges")]
pub struct Privileges {
    /// What becomes of system calls that the proxy never makes: they fail (`refuse`), the process is
    /// killed (`kill`), or they are not looked at (`off`)
    #[arg(
        long,
        value_name = "refuse|kill|off",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    seccomp: Seccomp,

    /// Keep all capabilities, instead of those for the network alone
    #[arg(long)]
    keep_capabilities: bool,

    /// Rules that kube-proxy left in legacy iptables are removed (`remove`), or you have seen to them
    /// (`ignore`)
    #[arg(
        long,
        value_name = "remove|ignore",
        value_enum,
        default_value_t,
        hide_possible_values = true
    )]
    legacy_iptables: LegacyIptables,
}

impl Privileges {
    /// What to give up; whether the process will start programs (credential plugins), which a filter
    /// would keep it from.
    #[must_use]
    pub fn confinement(&self, netns: &Netns, starts_programs: bool) -> Confinement {
        let on_forbidden = match self.seccomp {
            Seccomp::Refuse => Some(OnForbidden::Refuse),
            Seccomp::Kill => Some(OnForbidden::Kill),
            Seccomp::Off => None,
        };
        if starts_programs && on_forbidden.is_some() {
            tracing::warn!(
                "credentials come from a program: system calls are not filtered (--seccomp off)"
            );
        }
        Confinement {
            drop_capabilities: !self.keep_capabilities,
            seccomp: on_forbidden.filter(|_| !starts_programs),
            enter_namespaces: *netns != Netns::Current,
        }
    }

    /// How to treat leftovers where a configuration says nothing of kube-proxy's modes.
    #[must_use]
    pub fn leftovers(&self) -> leftovers::Options {
        leftovers::Options {
            ignore_legacy: self.legacy_iptables == LegacyIptables::Ignore,
            ..leftovers::Options::default()
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Seccomp {
    #[default]
    Refuse,
    Kill,
    Off,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum LegacyIptables {
    #[default]
    Remove,
    Ignore,
}
