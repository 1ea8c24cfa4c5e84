//! What kube-proxy leaves behind in its modes `iptables` and `ipvs`, which is what an empty `mode` means up to
//! 1.39: rules that may translate packets before ours see them (of hooks of one priority the kernel runs the
//! one that was registered last first, `nf_hook_entries_grow`), and a link that makes the node take packets to
//! Services for its own.
//!
//! | where | what | how it is removed |
//! |---|---|---|
//! | nf_tables, families `ip` and `ip6`, tables `nat`, `filter`, `mangle` | chains by name, jumps to them | netlink |
//! | legacy iptables, the same tables | the same | `iptables-legacy-restore`, if there is one |
//! | link `kube-ipvs0` | by name | netlink |
//! | IPVS | virtual services, if there is that link, outside of `ipvs.excludeCIDRs` | generic netlink |
//! | ipset | sets by name | netlink |
//!
//! It is removed once the kernel holds what ours is, family by family, so that there is no gap: until then
//! the leftovers serve. This is the only thing of others that a running proxy touches, and only by name:
//! neither the kubelet's chains, which begin with `KUBE-` as well, nor anything that others put beside or
//! behind it. Chains that rules of others jump to are emptied and kept, the marking chain whole.

mod board;
mod exchange;
mod ip_set;
mod ipvs;
mod legacy;
mod link;
mod names;
mod nft;

pub use board::{Board, Remaining, What};
pub(crate) use legacy::COMMAND as HELPER_COMMAND;
pub use names::{IPVS_LINK, Table};

use core::time::Duration;
use std::collections::BTreeSet;
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;

use ipnet::IpNet;
use nft_batch::Connection;
use svc_planner::plan::Family;

use self::legacy::{Helper, Legacy};
use crate::family::{FAMILIES, present_families};
use crate::netns::{Netns, NetnsError};

/// When to try again what failed: twice as long each time. A lock is soon free.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_secs(60);

/// What is expected, and what is to be left alone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// The configuration is that of a kube-proxy in mode `iptables` or `ipvs`, so that there may well be
    /// something left. Legacy tables that nobody can look into then count as leftovers.
    pub expected: bool,
    /// Legacy iptables is left alone: the operator has seen to it.
    pub ignore_legacy: bool,
    /// `ipvs.excludeCIDRs`: virtual services there are somebody else's.
    pub exclude: Vec<IpNet>,
}

/// What was prepared while there were privileges.
#[derive(Debug)]
pub struct Prepared {
    netns: Netns,
    options: Options,
    helper: Option<Helper>,
}

/// Removes leftovers on a thread of its own, when it is told that they are needed no more.
#[derive(Debug)]
pub struct Remover {
    programmed: Sender<Family>,
    board: Board,
}

/// Starts what needs more privileges than a proxy at work has.
///
/// # Errors
/// [`NetnsError`]. That something is missing is told later, when it turns out to be needed.
pub fn prepare(netns: &Netns, options: Options) -> Result<Prepared, NetnsError> {
    let helper = if options.ignore_legacy {
        None
    } else {
        netns.within(start_helper)?
    };
    Ok(Prepared {
        netns: netns.clone(),
        options,
        helper,
    })
}

/// Starts the helper if it has something to do.
fn start_helper() -> Option<Helper> {
    let needed = FAMILIES
        .into_iter()
        .any(|family| match legacy::look(family) {
            // What cannot be read may well have to be removed.
            Legacy::Program(program) => program.finds().unwrap_or(true),
            Legacy::None | Legacy::Unseen => false,
        });
    if !needed {
        return None;
    }
    let started = Helper::start();
    started
        .map_err(|error| tracing::warn!("no helper for legacy rules: {error}"))
        .ok()
}

impl Prepared {
    /// Starts the thread; it ends when nothing is left.
    ///
    /// # Errors
    /// Of making a thread.
    pub fn start(self) -> io::Result<Remover> {
        let (programmed, told) = mpsc::channel();
        let board = Board::default();
        let shown = board.clone();
        thread::Builder::new()
            .name("leftovers".to_owned())
            .spawn(move || {
                let Self {
                    netns,
                    options,
                    helper,
                } = self;
                let mut cleaner = Cleaner { options, helper };
                let done = netns.within(move || cleaner.follow(&told, &shown));
                if let Err(error) = done {
                    tracing::error!("leftovers of kube-proxy cannot be looked for: {error}");
                }
            })?;
        Ok(Remover { programmed, board })
    }
}

impl Remover {
    /// What cannot be removed.
    #[must_use]
    pub fn board(&self) -> Board {
        self.board.clone()
    }

    /// To be called when a family's table holds all that is wanted, for the first time.
    pub fn told(&self) -> impl FnMut(Family) + Send + 'static {
        let programmed = self.programmed.clone();
        move |family| {
            // Once all is removed nobody listens.
            let _ = programmed.send(family);
        }
    }
}

/// Removes everything now, whether something else serves or not (`kproxy cleanup`). Returns what is left.
///
/// # Errors
/// [`NetnsError`].
pub fn cleanup(netns: &Netns, options: Options) -> Result<Vec<Remaining>, NetnsError> {
    let helper = None;
    let board = Board::default();
    netns.within(|| {
        let mut cleaner = Cleaner { options, helper };
        for family in FAMILIES {
            board.put(cleaner.family(family));
        }
        board.put(cleaner.ipvs());
    })?;
    Ok(board.read())
}

/// What the helper process does (a hidden command of the program).
///
/// # Errors
/// Of its standard input and output.
pub fn serve_helper() -> io::Result<()> {
    legacy::serve()
}

/// Does the work, in the calling thread's network namespace.
struct Cleaner {
    options: Options,
    helper: Option<Helper>,
}

/// What became of each part that was looked at.
type Outcome = Vec<(What, Option<Remaining>)>;

impl Cleaner {
    /// Removes each family's leftovers when told that they are needed no more, until none are left.
    fn follow(&mut self, programmed: &Receiver<Family>, board: &Board) {
        let mut served = BTreeSet::new();
        let mut pending = BTreeSet::new();
        let all: BTreeSet<_> = present_families().into_iter().collect();
        let mut ipvs = true;
        let mut retry = FIRST_RETRY;
        loop {
            let told = if pending.is_empty() && !served.is_superset(&all) {
                programmed
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                programmed.recv_timeout(retry)
            };
            match told {
                Ok(family) => {
                    served.insert(family);
                    pending.insert(family);
                    retry = FIRST_RETRY;
                }
                Err(RecvTimeoutError::Timeout) => retry = (retry * 2).min(LAST_RETRY),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            pending.retain(|family| !board.put(self.family(*family)));
            if ipvs && served.is_superset(&all) {
                ipvs = !board.put(self.ipvs());
            }
            if pending.is_empty() && !ipvs {
                return;
            }
        }
    }

    /// A family's rules.
    fn family(&mut self, family: Family) -> Outcome {
        vec![
            (What::NfTables(family), remove_nft(family)),
            (What::Legacy(family), self.remove_legacy(family)),
        ]
    }

    /// What mode `ipvs` made beside its rules.
    fn ipvs(&self) -> Outcome {
        vec![(What::Ipvs, remove_ipvs(&self.options.exclude))]
    }

    fn remove_legacy(&mut self, family: Family) -> Option<Remaining> {
        if self.options.ignore_legacy {
            return None;
        }
        let removed = match (&mut self.helper, legacy::look(family)) {
            (_, Legacy::None) => return None,
            (_, Legacy::Unseen) => return self.unseen(family),
            (Some(helper), Legacy::Program(_)) => helper.remove(family),
            // Either it has nothing to do, or there are no privileges to give up.
            (None, Legacy::Program(program)) => program.remove().map_err(|error| error.to_string()),
        };
        match removed {
            Ok(removed) => {
                if removed {
                    tracing::info!("removed what kube-proxy left in legacy iptables ({family})");
                }
                None
            }
            Err(reason) => Some(Remaining::new(
                What::Legacy(family),
                reason,
                legacy::command(family),
            )),
        }
    }

    /// Legacy tables that nothing here can show: kube-proxy's or somebody else's.
    fn unseen(&self, family: Family) -> Option<Remaining> {
        if !self.options.expected {
            return None;
        }
        // kube-proxy's image takes the kind of iptables that the kubelet uses, and so did its rules.
        let hinted = Connection::open()
            .is_ok_and(|mut connection| nft::has_kubelet_hint(&mut connection).unwrap_or(false));
        if hinted {
            return None;
        }
        Some(Remaining::new(
            What::Legacy(family),
            "there are tables of legacy iptables, and no iptables-legacy-save to see what is in them"
                .to_owned(),
            legacy::command(family),
        ))
    }
}

fn remove_nft(family: Family) -> Option<Remaining> {
    let removed = match Connection::open() {
        Ok(mut connection) => nft::remove(&mut connection, family).map_err(|it| it.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match removed {
        Ok(removed) => {
            let nft::Removed { chains, jumps } = removed;
            if removed != nft::Removed::default() {
                tracing::info!(
                    "removed what kube-proxy left in iptables ({family}): {chains} chains, {jumps} rules \
                     that led there"
                );
            }
            None
        }
        Err(reason) => {
            let tool = match family {
                Family::Ipv4 => "iptables",
                Family::Ipv6 => "ip6tables",
            };
            let command = legacy::command(family);
            let command = command.replace(&format!("{tool}-legacy"), &format!("{tool}-nft"));
            Some(Remaining::new(What::NfTables(family), reason, command))
        }
    }
}

fn remove_ipvs(exclude: &[IpNet]) -> Option<Remaining> {
    let remaining = |reason: String| {
        let command = format!("ipvsadm --clear; ip link delete {IPVS_LINK}");
        Some(Remaining::new(What::Ipvs, reason, command))
    };
    let index = match link::find() {
        Ok(index) => index,
        Err(error) => return remaining(error.to_string()),
    };
    // Without the link nothing of IPVS is kube-proxy's; to ask would have its module loaded.
    if let Some(index) = index {
        let services = match ipvs::remove(exclude) {
            Ok(services) => services,
            Err(error) => return remaining(format!("IPVS: {error}")),
        };
        // Last: without it the services are not found any more.
        if let Err(error) = link::remove(index) {
            return remaining(error.to_string());
        }
        tracing::info!(
            "removed what kube-proxy's mode ipvs left: {services} virtual services and {IPVS_LINK}"
        );
    }
    match ip_set::remove() {
        Ok(0) => {}
        Ok(sets) => tracing::info!("removed what kube-proxy's mode ipvs left: {sets} sets"),
        Err(error) => tracing::debug!("ipset: {error}"),
    }
    None
}
