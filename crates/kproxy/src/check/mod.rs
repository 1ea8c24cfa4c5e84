//! What on this node keeps Services from working, found by looking, never by changing: what the
//! kernel can do, settings of the network namespace, and the headers of other tables' base chains.
//!
//! Run by hand (`kproxy check`). It is the only part of kproxy that looks at tables of others.

mod bridges;
mod chains;
mod kernel;
mod owner;
mod state_dir;
mod sysctl;

pub(crate) use kernel::OLDEST as OLDEST_KERNEL;

use std::path::Path;

use nft_batch::{Connection, Errno, OpenError};
use serde::Serialize;
use thiserror::Error;

use crate::engine::EngineError;
use crate::netns::Netns;

/// What one check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// What was looked at.
    pub check: Check,
    /// How bad it is.
    pub level: Level,
    /// In one line: what it is, and what to do about it.
    pub message: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// To know about.
    Note,
    /// Services do not work, or not all of them.
    Problem,
}

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Check {
    /// Version of the kernel.
    Kernel,
    /// nf_tables features.
    Features,
    /// Connection tracking.
    Conntrack,
    /// IPv4 forwarding.
    Ipv4,
    /// IPv6 and its forwarding.
    Ipv6,
    /// Base chains of others that drop forwarded packets.
    Forward,
    /// Base chains of others that drop packets to this node.
    Input,
    /// Bridges.
    Bridge,
    /// Who owns the tables that kproxy is to fill.
    Table,
    /// The folder for state.
    StateDir,
}

impl Check {
    /// As it is printed.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Features => "features",
            Self::Conntrack => "conntrack",
            Self::Ipv4 => "ipv4",
            Self::Ipv6 => "ipv6",
            Self::Forward => "forward",
            Self::Input => "input",
            Self::Bridge => "bridge",
            Self::Table => "table",
            Self::StateDir => "state-dir",
        }
    }
}

/// Why nothing can be said.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CheckError {
    /// The namespace, or netlink there.
    #[error(transparent)]
    Engine(#[from] EngineError),
}

/// Looks at everything in a network namespace.
///
/// # Errors
/// See [`CheckError`]; what cannot be found out about a single thing is a finding.
pub fn check(netns: &Netns, state_folder: &Path) -> Result<Vec<Finding>, CheckError> {
    let findings = netns.within(|| look(netns, state_folder));
    Ok(findings.map_err(EngineError::from)?)
}

/// What a proxy looks at before it starts, which concerns nobody else: problems only.
///
/// # Errors
/// As [`check`].
pub fn at_start(netns: &Netns) -> Result<Vec<Finding>, CheckError> {
    let findings = netns.within(|| {
        let mut findings = vec![kernel::version(), sysctl::conntrack(), bridges::look()];
        findings.push(match Connection::open() {
            Ok(mut connection) => kernel::features(&mut connection),
            Err(error) => unusable(&error),
        });
        findings
    });
    let mut findings = findings.map_err(EngineError::from)?;
    findings.retain(|finding| finding.level == Level::Problem);
    Ok(findings)
}

fn look(netns: &Netns, state_folder: &Path) -> Vec<Finding> {
    let mut findings = vec![kernel::version()];
    match Connection::open() {
        Ok(mut connection) => {
            findings.push(kernel::features(&mut connection));
            findings.push(sysctl::conntrack());
            findings.push(sysctl::ipv4());
            findings.push(sysctl::ipv6());
            findings.extend(chains::look(&mut connection));
            findings.push(bridges::look());
            findings.extend(owner::look(&mut connection, netns, state_folder));
        }
        Err(error) => findings.push(unusable(&error)),
    }
    findings.push(state_dir::look(state_folder));
    findings
}

fn unusable(error: &OpenError) -> Finding {
    let errno = match error {
        OpenError::Query(error) => error.errno(),
        OpenError::Socket { errno, .. } => Some(*errno),
        _ => None,
    };
    let why = match errno {
        Some(Errno::EPERM) => {
            " (needs CAP_NET_ADMIN in the user namespace that the network namespace belongs to)"
        }
        Some(Errno::EINVAL | Errno::EOPNOTSUPP) => {
            " (the kernel lacks it: load module nf_tables, or use a kernel with CONFIG_NF_TABLES)"
        }
        _ => "",
    };
    let message = format!("nf_tables cannot be used at all: {error}{why}");
    finding(Check::Features, Level::Problem, message)
}

fn finding(check: Check, level: Level, message: impl Into<String>) -> Finding {
    Finding {
        check,
        level,
        message: message.into(),
    }
}
