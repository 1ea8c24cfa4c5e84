//! What a case works with: sockets in its own network namespace, what the kernel is known to have,
//! and the objects that most cases use.

use nft_batch::{Batch, Capabilities, Connection, SealedBatch, Socket};
use nl_codec::msg::{Family, NftMsg};
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{Counter, Payload, PayloadBase};
use nl_codec::nft::set::{SetDesc, SetFlags};
use nl_codec::nft::{
    Chain, Data, DataType, Elem, ElemList, Elems, Expr, Exprs, Register, Rule, Set, Table, Value,
};

use crate::Stop;
use crate::raw::Raw;
use crate::verdict::{Verdict, check};

/// The table of a case.
pub(crate) const T: &str = "t";
pub(crate) const IP: Family = Family::IPV4;
/// The first register.
pub(crate) const REG: Register = Register::R1;

/// See the module.
pub(crate) struct Bench {
    /// For messages that the engine would not send.
    pub(crate) socket: Socket,
    /// For the rest.
    pub(crate) connection: Connection,
    /// What the kernel has.
    pub(crate) can: Capabilities,
    /// `net.core.wmem_max`, where it can be read: only the first network namespace has it.
    pub(crate) wmem_max: Option<usize>,
    /// What is worth knowing whatever the verdict.
    pub(crate) notes: Vec<String>,
}

impl Bench {
    /// In the calling thread's network namespace.
    pub(crate) fn open(wmem_max: Option<usize>) -> Result<Self, Stop> {
        let mut connection = Connection::open()?;
        let can = Capabilities::probe(&mut connection)?;
        Ok(Self {
            socket: Socket::open()?,
            connection,
            can,
            wmem_max,
            notes: Vec::new(),
        })
    }

    /// Adds a line that is shown with the verdict.
    pub(crate) fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Skips the case where the kernel has no such thing.
    pub(crate) fn need(has: bool, what: &str) -> Verdict {
        if has {
            Ok(())
        } else {
            Err(Stop::skip(format!("the kernel has no {what}")))
        }
    }

    /// Table `t`, chain `c` and map `m` of 4-byte keys to 4 bytes.
    pub(crate) fn basics(&mut self) -> Verdict {
        Raw::new()
            .new_(NftMsg::NEW_TABLE, &table())
            .new_(NftMsg::NEW_CHAIN, &chain("c"))
            .new_(NftMsg::NEW_SET, &with_id(map("m"), 1))
            .accepted(&mut self.socket)
    }

    /// An empty batch.
    pub(crate) fn batch(&self) -> Batch {
        Batch::new(self.can.batch_options())
    }

    /// Commits; anything else is a failure.
    pub(crate) fn commit(&mut self, batch: Batch) -> Result<SealedBatch, Stop> {
        commit(&mut self.connection, batch)
    }

    /// Number of elements of a set of `t`.
    pub(crate) fn count(&mut self, set: &str) -> Result<usize, Stop> {
        let mut count = 0;
        self.connection.dump_elements(IP, T, set, |_| count += 1)?;
        Ok(count)
    }

    /// What map `m` holds for a key.
    pub(crate) fn value(&mut self, number: u32) -> Result<Option<u32>, Stop> {
        let found = self
            .connection
            .element(IP, T, "m", &key(number), |elem| match &elem.data {
                Some(Data::Value(value)) => value.as_bytes().try_into().ok(),
                _ => None,
            })?;
        Ok(found.flatten().map(u32::from_be_bytes))
    }

    /// Handles of the rules of a chain of `t`.
    pub(crate) fn rule_handles(&mut self, chain: &str) -> Result<Vec<u64>, Stop> {
        let mut handles = Vec::new();
        self.connection
            .dump_rules(IP, T, Some(chain), |rule| handles.extend(rule.handle))?;
        Ok(handles)
    }

    /// Packets that the counters of a chain's rules saw, in order.
    pub(crate) fn packets(&mut self, chain: &str) -> Result<Vec<u64>, Stop> {
        let mut packets = Vec::new();
        self.connection.dump_rules(IP, T, Some(chain), |rule| {
            for expr in rule.exprs.iter().flatten().flatten() {
                if let Expr::Counter(counter) = expr {
                    packets.push(counter.packets.unwrap_or_default());
                }
            }
        })?;
        Ok(packets)
    }
}

/// Commits on any connection; anything else is a failure.
pub(crate) fn commit(connection: &mut Connection, batch: Batch) -> Result<SealedBatch, Stop> {
    let mut sealed = batch.seal();
    let outcome = connection.commit(&mut sealed);
    check!(outcome.is_committed(), "{outcome}");
    Ok(sealed)
}

pub(crate) fn table() -> Table<'static> {
    Table::named(T)
}

pub(crate) fn chain(name: &str) -> Chain<'_> {
    Chain::named(T, name)
}

/// A base chain that filters what this namespace sends.
pub(crate) fn output(name: &str) -> Chain<'_> {
    chain(name).hooked("filter", ChainHook::new(Hook::OUTPUT, 0))
}

pub(crate) fn rule<'a>(chain: &'a str, exprs: &'a [Expr<'a>]) -> Rule<'a> {
    Rule::new(T, chain, Exprs::new(exprs))
}

/// A set of 4-byte keys.
pub(crate) fn set(name: &str) -> Set<'_> {
    let mut set = Set::named(T, name);
    set.flags = Some(SetFlags::empty());
    set.key_type = Some(DataType::IPV4_ADDR);
    set.key_len = Some(4);
    set
}

/// A map of 4-byte keys to 4 bytes.
pub(crate) fn map(name: &str) -> Set<'_> {
    let mut map = set(name);
    map.flags = Some(SetFlags::MAP);
    map.data_type = Some(DataType::IPV4_ADDR);
    map.data_len = Some(4);
    map
}

/// A map of 4-byte keys to verdicts.
pub(crate) fn vmap(name: &str) -> Set<'_> {
    let mut map = set(name);
    map.flags = Some(SetFlags::MAP);
    map.data_type = Some(DataType::VERDICT_MAP);
    map
}

pub(crate) fn with_id(mut set: Set<'_>, id: u32) -> Set<'_> {
    set.id = Some(id);
    set
}

pub(crate) fn sized(mut set: Set<'_>, size: u32) -> Set<'_> {
    let mut desc = set.desc.unwrap_or_default();
    desc.size = Some(size);
    set.desc = Some(desc);
    set
}

/// The lengths of the fields of a concatenated key.
pub(crate) fn desc<'a>(fields: &'a [nl_codec::nft::set::SetField]) -> SetDesc<'a> {
    let mut desc = SetDesc::default();
    desc.concat = Some(nl_codec::nft::List::new(fields));
    desc
}

pub(crate) fn key(number: u32) -> Elem<'static> {
    Elem::new(Value::u32_be(number))
}

pub(crate) fn row(number: u32, data: u32) -> Elem<'static> {
    Elem::mapping(Value::u32_be(number), Data::Value(Value::u32_be(data)))
}

/// Elements of the set of a name, an id, or both.
pub(crate) fn elements<'a>(
    set: Option<&'a str>,
    id: Option<u32>,
    elems: &'a [Elem<'a>],
) -> ElemList<'a> {
    let mut list = ElemList::default();
    list.table = Some(T.into());
    list.set = set.map(Into::into);
    list.set_id = id;
    list.elems = Some(Elems::new(elems));
    list
}

/// Loads the destination address of IPv4.
pub(crate) fn daddr(register: Register) -> Expr<'static> {
    Payload::load(PayloadBase::NETWORK, 16, 4, register).into()
}

pub(crate) fn counter() -> Expr<'static> {
    Counter::default().into()
}
