//! What to do about a refused transaction: who is to blame, and what may still be sent.
//!
//! The kernel names every bad message and the first bad element of each. All Service ports behind them
//! are set aside at once; what is sent then has each element in a message of its own, so that whatever
//! else is bad is named as well. Where the kernel names nothing (out of memory, chains that loop or nest
//! too deep: found at the commit), transactions are halved until one is refused that is about one
//! Service port alone.

use nft_batch::{Errno, OpError, Rejected, Transport};
use nl_codec::msg::NftMsg;
use svc_planner::Narrowed;
use svc_planner::plan::Transaction;
use svc_planner::report::PortName;

use super::fault::{Trouble, judge};
use super::guard::Doubt;
use super::{Engine, EngineError};

/// So many Service ports refused one after the other, each alone: it is the kernel that fails.
const SUSPECTS: usize = 3;
/// Fewer messages than these say nothing about how much of a transaction is bad.
const FEW: usize = 8;

/// A Service port that was refused alone, without the kernel saying what for.
#[derive(Debug)]
pub(super) struct Suspect {
    pub(super) name: PortName,
    /// It was not the last time.
    pub(super) is_new: bool,
}

impl<T: Transport> Engine<T> {
    /// A transaction of so many messages was refused. `Ok` if another one is worth a try at once.
    pub(super) fn rejected(
        &mut self,
        index: usize,
        transaction: &Transaction,
        rejected: &Rejected,
        messages: u32,
    ) -> Result<(), EngineError> {
        let Some(first) = rejected.errors.first() else {
            self.reject(index, &[]);
            return Err(EngineError::NotCommitted("rejected".to_owned()));
        };
        if self.have_vanished(index, &rejected.errors) {
            return Ok(());
        }
        let fail = |error: &OpError| EngineError::Rejected(Box::new(error.clone()));
        let of = |trouble| move |error: &&OpError| judge(error) == trouble;
        if let Some(error) = rejected.errors.iter().find(of(Trouble::Privilege)) {
            self.reject(index, &[]);
            return Err(fail(error));
        }
        let partly = rejected.progress.committed > 0;
        let damage = rejected.errors.iter().find(of(Trouble::Damage));
        if damage.is_some() {
            self.note_conflict(index);
        }
        if damage.is_none() && !partly {
            let offenders = self.offenders(index, transaction, &rejected.errors);
            // If most of it is bad, no Service is to blame but the table, unless that is new.
            let bad = rejected.errors.len();
            let total = usize::try_from(messages).unwrap_or(usize::MAX);
            let most = bad >= FEW && bad > total / 2;
            if !offenders.is_empty() && (!most || self.is_rebuilt(index)) {
                let names: Vec<_> = offenders
                    .into_iter()
                    .map(|(name, error)| {
                        tracing::error!(service = %name, "set aside: {error}");
                        name
                    })
                    .collect();
                self.reject(index, &names);
                if let Some(state) = self.families.get_mut(index) {
                    state.isolate = true;
                }
                return Ok(());
            }
            if judge(first) == Trouble::Whole || self.is_rebuilt(index) {
                return self.narrow(index, || fail(first));
            }
        }
        self.reject(index, &[]);
        let error = damage.unwrap_or(first);
        if self.is_rebuilt(index) {
            // Whoever was in the way may be again, but the same once more would not do better.
            self.distrust(index);
            return Err(fail(error));
        }
        match self.doubt(index) {
            Doubt::Rebuild => {}
            Doubt::Look => return Ok(()),
            Doubt::LetGo => return Err(fail(error)),
        }
        tracing::warn!(family = ?transaction.family, "starting over beside the table: {error}");
        self.rebuild(index)
    }

    /// Whether a transaction was refused because names to be deleted are not there any more. They are
    /// forgotten then.
    fn have_vanished(&mut self, index: usize, errors: &[OpError]) -> bool {
        let now = self.clock.now();
        let missing = |of: fn(NftMsg) -> bool| -> Vec<&str> {
            let missing = errors.iter().filter(|error| error.errno == Errno::ENOENT);
            missing
                .filter(|error| error.kind.is_some_and(of))
                .filter_map(|error| error.object.as_deref())
                .collect()
        };
        let chains = missing(|kind| matches!(kind, NftMsg::DEL_RULE | NftMsg::DEL_CHAIN));
        let sets = missing(|kind| kind == NftMsg::DEL_SET);
        let state = self.families.get_mut(index);
        state.is_some_and(|state| state.planner.vanished(now, &chains, &sets))
    }

    /// There was no memory to send a transaction. `Ok` if a smaller one is worth a try at once.
    pub(super) fn not_sent(&mut self, index: usize, why: &str) -> Result<(), EngineError> {
        let now = self.clock.now();
        let narrowed = self
            .families
            .get_mut(index)
            .map(|state| state.planner.narrow(now));
        match narrowed {
            Some(Narrowed::Halved) => Ok(()),
            _ => Err(EngineError::NotCommitted(why.to_owned())),
        }
    }

    /// Tries less at once.
    fn narrow(&mut self, index: usize, fail: impl Fn() -> EngineError) -> Result<(), EngineError> {
        let now = self.clock.now();
        let Some(state) = self.families.get_mut(index) else {
            return Err(fail());
        };
        match state.planner.narrow(now) {
            Narrowed::Halved => Ok(()),
            Narrowed::Alone(name) => {
                let is_new = state.planner.suspect(now, &name);
                state.suspects.push(Suspect { name, is_new });
                if state.suspects.len() < SUSPECTS {
                    return Ok(());
                }
                let suspects = state.suspects.drain(..).map(|it| it.name);
                state.planner.release(&suspects.collect::<Vec<_>>());
                Err(fail())
            }
            _ => Err(fail()),
        }
    }

    /// The Service ports whose rows were refused, each once.
    fn offenders<'e>(
        &self,
        index: usize,
        transaction: &Transaction,
        errors: &'e [OpError],
    ) -> Vec<(PortName, &'e OpError)> {
        let Some(state) = self.families.get(index) else {
            return Vec::new();
        };
        let mut offenders = Vec::new();
        for error in errors {
            let key = error.element.as_ref().zip(error.op);
            let key = key.and_then(|(it, op)| self.lowered.key(transaction, op, it.index));
            let owners = key.map_or_else(Vec::new, |key| state.planner.owners(key));
            offenders.extend(owners.into_iter().map(|name| (name, error)));
        }
        offenders.sort_by(|(a, _), (b, _)| a.cmp(b));
        offenders.dedup_by(|(a, _), (b, _)| a == b);
        offenders
    }
}
