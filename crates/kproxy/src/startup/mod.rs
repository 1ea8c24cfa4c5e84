//! What happens once, before the proxy begins: what needs privileges is done, then they are given up.
//!
//! | step | what | without the privilege |
//! |---|---|---|
//! | [`require_kernel`] | Linux 5.13 or later | – |
//! | [`initialize`] | conntrack's settings, the process's rank for the OOM killer: all of `--init-only` | an error, unless all is set right already |
//! | [`confine`] | capabilities dropped, no new privileges, system calls filtered | never needs any |
//!
//! [`confine`] is called while the process has one thread: all later ones inherit what it did, so that none
//! escapes. Whatever is to be started with more privileges (see [`crate::leftovers`]) is started before.

mod capabilities;
mod conntrack;
mod descriptors;
mod kernel;
mod oom;
mod seccomp;
mod system;
mod threads;

pub use capabilities::held as held_capabilities;
pub use conntrack::ConntrackSettings;
pub use kernel::require as require_kernel;
pub use seccomp::OnForbidden;
pub use system::System;

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::leftovers;
use crate::netns::{Netns, NetnsError};

/// What is set up with privileges; kube-proxy's defaults.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// `conntrack` of the configuration.
    pub conntrack: ConntrackSettings,
    /// `oomScoreAdj` of the configuration, -1000 to 1000; `None` leaves it as it is.
    pub oom_score_adj: Option<i16>,
}

impl Settings {
    /// As kube-proxy without a configuration.
    #[must_use]
    pub fn kube_proxy() -> Self {
        Self {
            conntrack: ConntrackSettings::kube_proxy(),
            oom_score_adj: Some(-999),
        }
    }
}

/// All that is to be done before the proxy begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What is set up with privileges.
    pub settings: Settings,
    /// What is given up afterwards.
    pub confinement: Confinement,
    /// How leftovers of kube-proxy are treated.
    pub leftovers: leftovers::Options,
}

/// What came of a [`Plan`].
#[derive(Debug)]
pub struct Begun {
    /// What could not be set up.
    pub warnings: Vec<Warning>,
    /// To be started when the proxy is.
    pub leftovers: leftovers::Prepared,
}

/// Something that could not be set up and that the proxy does without: for the log and for an Event of
/// the own Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Reason of the Event (action `StartKubeProxy`).
    pub reason: &'static str,
    /// In one line, what and what to do.
    pub message: String,
}

/// What is given up for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Confinement {
    /// Drop capabilities that are not needed.
    pub drop_capabilities: bool,
    /// What becomes of system calls that are not needed; `None` filters nothing. Programs that are started
    /// later (exec plugins for credentials) would be under the same filter, which forbids to start any.
    pub seccomp: Option<OnForbidden>,
    /// Other network namespaces than the own are to be entered (`--netns`).
    pub enter_namespaces: bool,
}

/// Why the proxy does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartupError {
    /// A kernel that is too old.
    #[error(
        "Linux {release} is older than {major}.{minor}, the oldest that kube-proxy's nftables mode and kproxy \
         work with (environment variable {} set to anything goes on nevertheless)",
        kernel::SKIP
    )]
    Kernel {
        /// `uname -r`.
        release: String,
        /// Oldest that works.
        major: u32,
        /// Its minor version.
        minor: u32,
    },
    /// A setting of the kernel that is wrong and cannot be set right.
    #[error(
        "cannot set {} to {value} (it is {}): {error}; set it beforehand (`kproxy --init-only` with \
         privileges does), or have {field} leave it as it is",
        path.display(),
        found.as_deref().unwrap_or("unreadable")
    )]
    Setting {
        /// File.
        path: PathBuf,
        /// What it is to be.
        value: u64,
        /// What it is.
        found: Option<String>,
        /// Field of the configuration that asks for it.
        field: &'static str,
        /// Why not.
        error: io::Error,
    },
    /// The rank for the out-of-memory killer.
    #[error("cannot set oom_score_adj to {adjustment}: {error}")]
    OomScore {
        /// What it is to be.
        adjustment: i16,
        /// Why not.
        error: io::Error,
    },
    /// The network namespace whose settings are meant.
    #[error(transparent)]
    Netns(#[from] NetnsError),
    /// Capabilities cannot be given up.
    #[error("cannot drop capabilities: {0}")]
    Capabilities(io::Error),
    /// New privileges cannot be ruled out.
    #[error("cannot set no_new_privs: {0}")]
    NoNewPrivileges(io::Error),
    /// System calls cannot be filtered.
    #[error("cannot filter system calls: {0}")]
    Seccomp(String),
    /// Threads that would keep all privileges.
    #[error("{0} other threads are at work: privileges are dropped before the first one starts")]
    Threads(usize),
}

/// Carries a plan out, and raises the limit of open files. The process must have one thread.
///
/// # Errors
/// See [`StartupError`]. Where the kernel cannot filter system calls, that is logged and done without.
pub fn begin(netns: &Netns, plan: &Plan) -> Result<Begun, StartupError> {
    require_kernel()?;
    descriptors::raise_limit();
    let warnings = initialize(netns, &plan.settings)?;
    let leftovers = leftovers::prepare(netns, plan.leftovers.clone())?;
    match confine(&plan.confinement) {
        Err(error @ StartupError::Seccomp(_)) => tracing::error!("{error}"),
        confined => confined?,
    }
    Ok(Begun {
        warnings,
        leftovers,
    })
}

/// Does what needs privileges. What is right already needs none. A rank for the out-of-memory killer that
/// cannot be had is only logged, as kube-proxy does.
///
/// # Errors
/// [`StartupError::Setting`], [`StartupError::Netns`].
pub fn initialize(netns: &Netns, settings: &Settings) -> Result<Vec<Warning>, StartupError> {
    if let Some(adjustment) = settings.oom_score_adj
        && let Err(error) = adjust_oom_score(adjustment)
    {
        tracing::warn!("{error}");
    }
    set_conntrack(netns, &settings.conntrack)
}

/// Sets what is not right in connection tracking.
///
/// # Errors
/// [`StartupError::Setting`], [`StartupError::Netns`].
pub fn set_conntrack(
    netns: &Netns,
    settings: &ConntrackSettings,
) -> Result<Vec<Warning>, StartupError> {
    let system = System::default();
    // Settings under /proc/sys/net are those of the namespace of the thread that reads them.
    netns.within(|| {
        conntrack::load(&system);
        conntrack::set(&system, settings)
    })?
}

/// Sets the process's rank for the out-of-memory killer.
///
/// # Errors
/// [`StartupError::OomScore`].
pub fn adjust_oom_score(adjustment: i16) -> Result<(), StartupError> {
    oom::adjust(&System::default(), adjustment)
        .map_err(|error| StartupError::OomScore { adjustment, error })
}

/// Gives up what the proxy does not need, for this thread and all that it will start.
///
/// # Errors
/// See [`StartupError`]; [`StartupError::Threads`] unless this is the process's only thread.
pub fn confine(confinement: &Confinement) -> Result<(), StartupError> {
    threads::only_one()?;
    confine_thread(confinement)
}

/// As [`confine`], for a thread among others; these keep what they have.
///
/// # Errors
/// See [`StartupError`].
pub fn confine_thread(confinement: &Confinement) -> Result<(), StartupError> {
    if confinement.drop_capabilities {
        capabilities::drop_unneeded(confinement.enter_namespaces)
            .map_err(StartupError::Capabilities)?;
    }
    rustix::thread::set_no_new_privs(true)
        .map_err(|error| StartupError::NoNewPrivileges(error.into()))?;
    // Last: it forbids the calls above.
    if let Some(on_forbidden) = confinement.seccomp {
        seccomp::install(on_forbidden, confinement.enter_namespaces)?;
    }
    Ok(())
}
