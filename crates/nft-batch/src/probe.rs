//! What the running kernel can do, found out once, at start, by asking it: a batch that is never
//! committed (see [`Connection::check`]) holds one operation per feature, and the errors tell which
//! are missing. Nothing is left behind and the generation does not advance.

mod advice;
mod expressions;
mod version;

pub use advice::{Advice, Severity};
pub use version::KernelVersion;

use nl_codec::ack::Errno;
use nl_codec::msg::Family;
use nl_codec::nft::chain::{Chain, ChainHook, Hook};
use nl_codec::nft::set::SetFlags;
use nl_codec::nft::table::TableFlags;
use nl_codec::nft::{DataType, Exprs, Rule, Set, Table};
use thiserror::Error;

use self::expressions::{Place, needed, optional};
use crate::outcome::{Check, NotSentReason, UnknownReason};
use crate::transport::Transport;
use crate::{Batch, BatchError, BatchOptions, Connection, OpError, OpId};

/// Table that the probe would make, and its companions; none is ever there.
const TABLE: &str = "nft-batch-probe";
const OWNED: &str = "nft-batch-probe-owned";
const PERSISTENT: &str = "nft-batch-probe-persistent";
const SET: &str = "set";

/// What the kernel has.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Capabilities {
    /// Release of the running kernel.
    pub kernel: KernelVersion,
    /// DESTROY messages: delete what may not exist (Linux 6.3).
    pub destroy: bool,
    /// Tables that only their owner may change (`NFT_TABLE_F_OWNER`, Linux 5.12).
    pub table_owner: bool,
    /// Owned tables that stay when the owner ends (`NFT_TABLE_F_PERSIST`, Linux 6.9).
    pub table_persist: bool,
    /// The end of a batch is acknowledged, after the commit (Linux 6.10).
    pub batch_end_ack: bool,
    /// Bitwise operations on two registers (Linux 6.13).
    pub bitwise_registers: bool,
    /// A chain reached by many map rows is validated once per transaction, not once per row.
    /// Found in the kernel's type information, else taken from the version (6.18).
    pub memoised_validation: bool,
    /// A lookup that meets a commit starts anew, so that it finds a row which the commit replaces
    /// (Linux 6.17, from the version).
    pub lookup_restart: bool,
    /// Expressions that a Service proxy needs and the kernel lacks, by name, with the error.
    pub missing: Vec<(&'static str, Errno)>,
}

/// Why the kernel could not be asked.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The questions could not be put together.
    #[error("probe: {0}")]
    Batch(#[from] BatchError),
    /// The kernel refuses all of it.
    #[error("probe: {0}")]
    Refused(Box<OpError>),
    /// Answers were lost.
    #[error("probe: {0}")]
    Unknown(UnknownReason),
    /// The questions could not be sent.
    #[error("probe: {0}")]
    NotSent(NotSentReason),
}

impl Capabilities {
    /// Options for batches on this kernel.
    #[must_use]
    pub fn batch_options(&self) -> BatchOptions {
        BatchOptions::default().destroy(self.destroy)
    }

    /// Asks the kernel.
    ///
    /// # Errors
    /// See [`ProbeError`].
    pub fn probe<T: Transport>(connection: &mut Connection<T>) -> Result<Self, ProbeError> {
        let mut batch = Batch::default();
        let family = Family::IPV4;
        batch.add_table(family, &Table::named(TABLE))?;
        for (name, kind, hook) in [
            (Place::Prerouting, "nat", Hook::PREROUTING),
            (Place::Postrouting, "nat", Hook::POSTROUTING),
            (Place::Forward, "filter", Hook::FORWARD),
        ] {
            let chain = Chain::named(TABLE, name.chain()).hooked(kind, ChainHook::new(hook, 0));
            batch.add_chain(family, &chain)?;
        }
        let mut set = Set::named(TABLE, SET);
        set.flags = Some(SetFlags::EVAL);
        set.key_type = Some(DataType(0));
        set.key_len = Some(4);
        let set = batch.add_set(family, &set)?;

        let mut questions = Vec::new();
        for (name, place, exprs) in needed(set) {
            let rule = Rule::new(TABLE, place.chain(), Exprs::new(&exprs));
            questions.push((name, batch.add_rule(family, &rule)?));
        }
        let (place, exprs) = optional();
        let rule = Rule::new(TABLE, place.chain(), Exprs::new(&exprs));
        let bitwise = batch.add_rule(family, &rule)?;

        let mut owned = Table::named(OWNED);
        owned.flags = Some(TableFlags::OWNER);
        let owner = batch.add_table(family, &owned)?;
        let mut persistent = Table::named(PERSISTENT);
        persistent.flags = Some(TableFlags::OWNER | TableFlags::PERSIST);
        let persist = batch.add_table(family, &persistent)?;
        let destroy = batch.destroy_table(family, "nft-batch-probe-none")?;

        let errors = match connection.check(&mut batch.seal()) {
            Check::Fine => Vec::new(),
            Check::Bad(errors) => errors,
            Check::Unknown(reason) => return Err(ProbeError::Unknown(reason)),
            Check::NotSent(reason) => return Err(ProbeError::NotSent(reason)),
        };
        if let Some(refusal) = errors.iter().find(|error| error.op.is_none()) {
            return Err(ProbeError::Refused(Box::new(refusal.clone())));
        }
        let error_of = |op: OpId| errors.iter().find(|error| error.op == Some(op));
        let has = |op: OpId| error_of(op).is_none();
        let kernel = KernelVersion::running();
        Ok(Self {
            destroy: has(destroy),
            table_owner: has(owner),
            table_persist: has(persist),
            batch_end_ack: connection.acknowledges_end(),
            bitwise_registers: has(bitwise),
            memoised_validation: version::type_information_has("nft_chain_validate_state")
                .unwrap_or_else(|| kernel.at_least(6, 18)),
            lookup_restart: kernel.at_least(6, 17),
            missing: questions
                .iter()
                .filter_map(|(name, op)| error_of(*op).map(|error| (*name, error.errno)))
                .collect(),
            kernel,
        })
    }
}
