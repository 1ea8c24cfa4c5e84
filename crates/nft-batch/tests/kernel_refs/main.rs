//! Which message takes which kind of reference: each test is a row of the table in docs/KERNEL.md,
//! asked of the running kernel. A row that a kernel answers otherwise is a change to that table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

#[path = "../support/mod.rs"]
mod support;

mod objects;
mod sets;

use nft_batch::{Connection, Errno, Socket};
use nl_codec::msg::{Flags, NftMsg};
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{
    Counter, Dynset, DynsetOp, Immediate, Lookup, ObjType, Objref, Payload, PayloadBase,
};
use nl_codec::nft::flowtable::FlowtableHook;
use nl_codec::nft::set::SetFlags;
use nl_codec::nft::{
    Chain, Elem, ElemList, Elems, Expr, Exprs, Flowtable, Obj, Register, Rule, Set, Table, Verdict,
};
use support::raw::Raw;
use support::*;

const REG: Register = Register::R1;

/// A namespace with table `t`, chain `c`, set `s` (a map), object `o` (a counter).
fn with_objects(test: impl FnOnce(Socket, Connection) + Send + 'static) {
    in_new_netns(|| {
        let mut socket = Socket::open().unwrap();
        let counter = Obj::new(T, "o", Counter::default());
        Raw::new()
            .new_(NftMsg::NEW_TABLE, &table())
            .new_(NftMsg::NEW_CHAIN, &chain("c"))
            .new_(NftMsg::NEW_SET, &with_id(set("s", true, None), 1))
            .new_(NftMsg::NEW_OBJ, &counter)
            .accepted(&mut socket);
        test(socket, Connection::open().unwrap());
    });
}

fn with_id(mut set: Set<'_>, id: u32) -> Set<'_> {
    set.id = Some(id);
    set
}

fn table_handle(connection: &mut Connection) -> u64 {
    let mut handle = None;
    let dump = connection.dump_tables(IP, |_, table| handle = table.handle);
    assert!(dump.is_ok());
    handle.unwrap()
}

fn chain_handle(connection: &mut Connection, name: &str) -> Option<u64> {
    let mut handle = None;
    let dump = connection.dump_chains(IP, T, |chain| {
        if chain
            .name
            .is_some_and(|own| own.as_bytes() == name.as_bytes())
        {
            handle = chain.handle;
        }
    });
    assert!(dump.is_ok());
    handle
}

fn set_handle(connection: &mut Connection, name: &str) -> Option<u64> {
    connection
        .set_info(IP, T, name, |set| set.handle)
        .ok()
        .flatten()
}

fn rule_handles(connection: &mut Connection, chain: &str) -> Vec<u64> {
    let mut handles = Vec::new();
    let dump = connection.dump_rules(IP, T, Some(chain), |rule| handles.extend(rule.handle));
    assert!(dump.is_ok());
    handles
}

fn count(connection: &mut Connection, set: &str) -> usize {
    let mut count = 0;
    let dump = connection.dump_elements(IP, T, set, |_| count += 1);
    assert!(dump.is_ok());
    count
}

fn elements<'a>(set: Option<&'a str>, id: Option<u32>, elems: &'a [Elem<'a>]) -> ElemList<'a> {
    let mut list = ElemList::default();
    list.table = Some(T.into());
    list.set = set.map(Into::into);
    list.set_id = id;
    list.elems = Some(Elems::new(elems));
    list
}

fn address() -> Expr<'static> {
    Payload::load(PayloadBase::NETWORK, 16, 4, REG).into()
}
