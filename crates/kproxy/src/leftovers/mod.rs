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
//! the leftovers serve. It is looked for again from then on, as a kube-proxy that ends later than we begin
//! writes its rules again. This is the only thing of others that a running proxy touches, and only by name:
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
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Instant;

use ipnet::IpNet;
use nft_batch::Connection;
use svc_planner::plan::Family;

use self::legacy::{Hands, Helper, Legacy};
use crate::family::{FAMILIES, present_families};
use crate::netns::{Netns, NetnsError};

/// When to look again: twice as long each time. A lock is soon free, and a kube-proxy that goes is soon gone.
const FIRST_RETRY: Duration = Duration::from_secs(2);
const LAST_RETRY: Duration = Duration::from_secs(60);
/// What was removed so often within this time is written by somebody at work. (A kube-proxy that misses its
/// chains writes them within 30 s.)
const TOO_OFTEN: usize = 3;
const OFTEN: Duration = Duration::from_secs(600);
/// After this time without anything new that somebody is gone.
const QUIET: Duration = Duration::from_secs(120);

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
    hands: Hands,
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
    let hands = if options.ignore_legacy {
        Hands::None
    } else {
        netns.within(start_helper)?
    };
    Ok(Prepared {
        netns: netns.clone(),
        options,
        hands,
    })
}

/// Starts the helper if there are tables that it can look into: privileges to start it later there are none.
fn start_helper() -> Hands {
    let mut families = FAMILIES.into_iter();
    if !families.any(|family| matches!(legacy::look(family), Legacy::Program(_))) {
        return Hands::None;
    }
    Helper::start().map_or_else(
        |error| Hands::Tied(format!("no helper for legacy rules: {error}")),
        Hands::Helper,
    )
}

impl Prepared {
    /// Starts the thread; it ends with the [`Remover`].
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
                    hands,
                } = self;
                let mut cleaner = Cleaner::new(options, hands);
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
            // Without the thread, which says so itself, nobody listens.
            let _ = programmed.send(family);
        }
    }
}

/// Removes everything now, whether something else serves or not (`kproxy cleanup`). Returns what is left.
///
/// # Errors
/// [`NetnsError`].
pub fn cleanup(netns: &Netns, options: Options) -> Result<Vec<Remaining>, NetnsError> {
    let board = Board::default();
    netns.within(|| {
        let mut cleaner = Cleaner::new(options, Hands::Own);
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
    hands: Hands,
    /// When something was removed.
    removals: BTreeMap<What, Vec<Instant>>,
    /// When something had been removed last before sets were looked for last. To ask for them may have the
    /// kernel look for a module, which it is not to do every minute.
    sets: Option<Option<Instant>>,
}

/// What a look at a part came to.
enum Found {
    Nothing,
    Removed,
    Left(Remaining),
}

/// What became of each part that was looked at.
type Outcome = Vec<(What, Option<Remaining>)>;

impl Cleaner {
    const fn new(options: Options, hands: Hands) -> Self {
        Self {
            options,
            hands,
            removals: BTreeMap::new(),
            sets: None,
        }
    }

    /// Removes each family's leftovers when told that they are needed no more, and what comes back.
    fn follow(&mut self, programmed: &Receiver<Family>, board: &Board) {
        let mut served = BTreeSet::new();
        let all: BTreeSet<_> = present_families().into_iter().collect();
        let mut retry = FIRST_RETRY;
        loop {
            let told = if served.is_empty() {
                programmed
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                programmed.recv_timeout(retry)
            };
            match told {
                Ok(family) => {
                    served.insert(family);
                    retry = FIRST_RETRY;
                }
                Err(RecvTimeoutError::Timeout) => retry = (retry * 2).min(LAST_RETRY),
                Err(RecvTimeoutError::Disconnected) => return,
            }
            let before = self.removed();
            let mut clean = true;
            for family in &served {
                clean &= board.put(self.family(*family));
            }
            if served.is_superset(&all) {
                clean &= board.put(self.ipvs());
            }
            if clean && self.removed() == before {
                tracing::debug!("leftovers of kube-proxy: none");
            }
            if self.removed() != before && !self.is_contested() {
                retry = FIRST_RETRY;
            }
        }
    }

    /// When something was removed last.
    fn removed(&self) -> Option<Instant> {
        self.removals.values().flatten().max().copied()
    }

    /// Whether somebody at work writes again what is removed. To be quicker than that one helps nobody, and
    /// costs both.
    fn is_contested(&self) -> bool {
        self.removals.values().any(|it| it.len() >= TOO_OFTEN)
    }

    /// A family's rules.
    fn family(&mut self, family: Family) -> Outcome {
        let nft = remove_nft(family);
        let legacy = self.remove_legacy(family);
        vec![
            self.judge(What::NfTables(family), nft),
            self.judge(What::Legacy(family), legacy),
        ]
    }

    /// What mode `ipvs` made beside its rules.
    fn ipvs(&mut self) -> Outcome {
        let ipvs = remove_ipvs(&self.options.exclude);
        let removed = matches!(ipvs, Found::Removed);
        let last = Some(self.removed());
        if removed || self.sets != last {
            remove_sets();
            self.sets = last;
        }
        vec![self.judge(What::Ipvs, ipvs)]
    }

    /// What cannot be removed, or not for long.
    fn judge(&mut self, what: What, found: Found) -> (What, Option<Remaining>) {
        let now = Instant::now();
        let removals = self.removals.entry(what).or_default();
        let since = |at: Option<&Instant>| at.map(|at| now.duration_since(*at));
        match found {
            Found::Left(remaining) => return (what, Some(remaining)),
            Found::Removed => {
                removals.retain(|at| now.duration_since(*at) < OFTEN);
                removals.push(now);
            }
            Found::Nothing if since(removals.last()).is_some_and(|it| it > QUIET) => {
                removals.clear();
            }
            Found::Nothing => {}
        }
        let comes_back = (removals.len() >= TOO_OFTEN).then(|| {
            let reason = "it comes back each time: a kube-proxy in that mode is at work on this node; \
                          end it";
            Remaining::new(what, reason.to_owned(), "pgrep -a kube-proxy".to_owned())
        });
        (what, comes_back)
    }

    fn remove_legacy(&mut self, family: Family) -> Found {
        if self.options.ignore_legacy {
            return Found::Nothing;
        }
        let removed = match &mut self.hands {
            Hands::Helper(helper) if legacy::has_tables(family) => match helper.remove(family) {
                Ok(Some(removed)) => Ok(removed),
                Ok(None) => return self.unseen(family),
                Err(reason) => Err(reason),
            },
            hands => match (hands, legacy::look(family)) {
                (_, Legacy::None) => return Found::Nothing,
                (_, Legacy::Unseen) => return self.unseen(family),
                (Hands::Own, Legacy::Program(program)) => {
                    program.remove().map_err(|error| error.to_string())
                }
                (Hands::Tied(reason), Legacy::Program(_)) => Err(reason.clone()),
                // They came after us: a kube-proxy's were there before.
                (_, Legacy::Program(_)) => return Found::Nothing,
            },
        };
        match removed {
            Ok(false) => Found::Nothing,
            Ok(true) => {
                tracing::info!("removed what kube-proxy left in legacy iptables ({family})");
                Found::Removed
            }
            Err(reason) => Found::Left(Remaining::new(
                What::Legacy(family),
                reason,
                legacy::command(family),
            )),
        }
    }

    /// Legacy tables that nothing here can show: kube-proxy's or somebody else's.
    fn unseen(&self, family: Family) -> Found {
        if !self.options.expected {
            return Found::Nothing;
        }
        // kube-proxy's image takes the kind of iptables that the kubelet uses, and so did its rules.
        let hinted = Connection::open()
            .is_ok_and(|mut connection| nft::has_kubelet_hint(&mut connection).unwrap_or(false));
        if hinted {
            return Found::Nothing;
        }
        Found::Left(Remaining::new(
            What::Legacy(family),
            "there are tables of legacy iptables, and no iptables-legacy-save to see what is in them"
                .to_owned(),
            legacy::command(family),
        ))
    }
}

fn remove_nft(family: Family) -> Found {
    let removed = match Connection::open() {
        Ok(mut connection) => nft::remove(&mut connection, family).map_err(|it| it.to_string()),
        Err(error) => Err(error.to_string()),
    };
    match removed {
        Ok(removed) if removed == nft::Removed::default() => Found::Nothing,
        Ok(nft::Removed { chains, jumps }) => {
            tracing::info!(
                "removed what kube-proxy left in iptables ({family}): {chains} chains, {jumps} rules \
                 that led there"
            );
            Found::Removed
        }
        Err(reason) => {
            let tool = match family {
                Family::Ipv4 => "iptables",
                Family::Ipv6 => "ip6tables",
            };
            let command = legacy::command(family);
            let command = command.replace(&format!("{tool}-legacy"), &format!("{tool}-nft"));
            Found::Left(Remaining::new(What::NfTables(family), reason, command))
        }
    }
}

fn remove_ipvs(exclude: &[IpNet]) -> Found {
    let remaining = |reason: String| {
        let command = format!("ipvsadm --clear; ip link delete {IPVS_LINK}");
        Found::Left(Remaining::new(What::Ipvs, reason, command))
    };
    let index = match link::find() {
        Ok(index) => index,
        Err(error) => return remaining(error.to_string()),
    };
    // Without the link nothing of IPVS is kube-proxy's; to ask would have its module loaded.
    let Some(index) = index else {
        return Found::Nothing;
    };
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
    Found::Removed
}

/// They take no packets, so what cannot be removed stays.
fn remove_sets() {
    match ip_set::remove() {
        Ok(0) => {}
        Ok(sets) => tracing::info!("removed what kube-proxy's mode ipvs left: {sets} sets"),
        Err(error) => tracing::debug!("ipset: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_removed_time_and_again_cannot_be_removed() {
        let mut cleaner = Cleaner::new(Options::default(), Hands::None);
        let what = What::NfTables(Family::Ipv4);
        for found in [Found::Removed, Found::Nothing, Found::Removed] {
            assert_eq!(cleaner.judge(what, found), (what, None));
            assert!(!cleaner.is_contested());
        }
        // Gone for the moment only.
        for found in [Found::Removed, Found::Nothing] {
            let (_, remaining) = cleaner.judge(what, found);
            let line = remaining.unwrap().to_string();
            assert!(
                line.contains("comes back") && line.ends_with("pgrep -a kube-proxy"),
                "{line}"
            );
            assert!(cleaner.is_contested(), "looked for once a minute");
        }
        let other = What::NfTables(Family::Ipv6);
        assert_eq!(cleaner.judge(other, Found::Removed), (other, None));
        let quiet = Instant::now().checked_sub(QUIET + Duration::from_secs(1));
        cleaner
            .removals
            .insert(what, vec![quiet.unwrap(); TOO_OFTEN]);
        assert_eq!(cleaner.judge(what, Found::Nothing), (what, None));
        assert!(!cleaner.is_contested());
    }
}
