//! Reading single things: elements by key, tables, chains and sets by name. Cheap at any size of the ruleset, unlike
//! dumps.

use nl_codec::DecodeError;
use nl_codec::ack::Errno;
use nl_codec::msg::{Body, Family, Head, MsgType, NfMsg, NftMsg};
use nl_codec::nft::{Chain, Elem, ElemList, Elems, Generation, Set, Str, Table};

use crate::transport::Transport;
use crate::{Connection, OpError, QueryError};

impl<T: Transport> Connection<T> {
    /// The current generation of the network namespace's rulesets.
    ///
    /// # Errors
    /// See [`QueryError`].
    pub fn generation(&mut self) -> Result<u32, QueryError> {
        let what = "get generation";
        let head = Head::nft(NftMsg::GET_GEN, Family::UNSPEC);
        let mut found = None;
        self.query(what, &head, &Generation::default(), |msg| {
            if msg.header.kind == MsgType::nft(NftMsg::NEW_GEN) {
                found = msg.body::<Generation<'_>>()?.id;
            }
            Ok(())
        })?;
        found.ok_or(QueryError::NoReply { what })
    }

    /// Looks one element up by its key (in interval sets also by its end) and hands it to `found`;
    /// `None` if there is no such element.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT is about the table or the set then.
    pub fn element<R>(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        key: &Elem<'_>,
        found: impl FnOnce(&Elem<'_>) -> R,
    ) -> Result<Option<R>, QueryError> {
        self.read_element(family, table.into(), set.into(), key, found)
    }

    pub(crate) fn read_element<R>(
        &mut self,
        family: Family,
        table: Str<'_>,
        set: Str<'_>,
        key: &Elem<'_>,
        found: impl FnOnce(&Elem<'_>) -> R,
    ) -> Result<Option<R>, QueryError> {
        let keys = [*key];
        let mut list = ElemList::default();
        list.table = Some(table);
        list.set = Some(set);
        list.elems = Some(Elems::new(&keys));
        let head = Head::nft(NftMsg::GET_SETELEM, family);
        let mut found = Some(found);
        let mut result = None;
        let read = self.query("get element", &head, &list, |msg| {
            let list = msg.body::<ElemList<'_>>()?;
            for elem in list.elems.iter().flatten() {
                if let Some(found) = found.take() {
                    result = Some(found(&elem?));
                }
            }
            Ok(())
        });
        match read {
            Ok(_) => Ok(result),
            // The kernel says ENOENT for a missing table, set and element alike.
            Err(QueryError::Kernel {
                errno: Errno::ENOENT,
                ..
            }) => {
                self.read_set(family, table, set, |_| ())?;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Reads a table's name, flags, owner and number of objects.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table does not exist.
    pub fn table_info<R>(
        &mut self,
        family: Family,
        table: &str,
        found: impl FnOnce(&Table<'_>) -> R,
    ) -> Result<R, QueryError> {
        let head = Head::nft(NftMsg::GET_TABLE, family);
        self.read_one("get table", &head, &Table::named(table), |msg| {
            Ok(found(&msg.body::<Table<'_>>()?))
        })
    }

    /// Reads a chain's definition, without its rules.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table or the chain does not exist.
    pub fn chain_info<R>(
        &mut self,
        family: Family,
        table: &str,
        chain: &str,
        found: impl FnOnce(&Chain<'_>) -> R,
    ) -> Result<R, QueryError> {
        let head = Head::nft(NftMsg::GET_CHAIN, family);
        self.read_one("get chain", &head, &Chain::named(table, chain), |msg| {
            Ok(found(&msg.body::<Chain<'_>>()?))
        })
    }

    /// Reads a set's or map's definition.
    ///
    /// # Errors
    /// See [`QueryError`]; ENOENT if the table or the set does not exist.
    pub fn set_info<R>(
        &mut self,
        family: Family,
        table: &str,
        set: &str,
        found: impl FnOnce(&Set<'_>) -> R,
    ) -> Result<R, QueryError> {
        self.read_set(family, table.into(), set.into(), found)
    }

    fn read_set<R>(
        &mut self,
        family: Family,
        table: Str<'_>,
        name: Str<'_>,
        found: impl FnOnce(&Set<'_>) -> R,
    ) -> Result<R, QueryError> {
        let head = Head::nft(NftMsg::GET_SET, family);
        let mut filter = Set::default();
        filter.table = Some(table);
        filter.name = Some(name);
        self.read_one("get set", &head, &filter, |msg| {
            Ok(found(&msg.body::<Set<'_>>()?))
        })
    }

    /// Asks for one object.
    fn read_one<'a, B: Body<'a>, R>(
        &mut self,
        what: &'static str,
        head: &Head,
        filter: &B,
        found: impl FnOnce(NfMsg<'_>) -> Result<R, DecodeError>,
    ) -> Result<R, QueryError> {
        let mut found = Some(found);
        let mut result = None;
        self.query(what, head, filter, |msg| {
            if let Some(found) = found.take() {
                result = Some(found(msg)?);
            }
            Ok(())
        })?;
        result.ok_or(QueryError::NoReply { what })
    }

    /// Adds what the kernel's answer lacks: the size of a full set.
    pub(crate) fn explain(&mut self, error: &mut OpError) {
        if error.errno != Errno::ENFILE {
            return;
        }
        if let (Some(table), Some(set)) = (&error.table, &error.object) {
            let size = self.set_info(error.family, table, set, |set| {
                set.desc.and_then(|desc| desc.size)
            });
            error.set_size = size.ok().flatten();
        }
    }
}
