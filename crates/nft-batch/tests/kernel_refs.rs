//! Which message takes which kind of reference: each test is a row of the table in docs/KERNEL.md,
//! asked of the running kernel. A row that a kernel answers otherwise is a change to that table.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

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

#[test]
fn tables_are_deleted_by_name_or_handle() {
    with_objects(|mut socket, mut connection| {
        let handle = table_handle(&mut connection);
        let mut by_handle = Table::default();
        by_handle.handle = Some(handle + 1000);
        let refused = Raw::new()
            .plain(NftMsg::DEL_TABLE, &by_handle)
            .refused(&mut socket);
        assert_eq!(refused, Errno::ENOENT);
        by_handle.handle = Some(handle);
        Raw::new()
            .plain(NftMsg::DEL_TABLE, &by_handle)
            .accepted(&mut socket);
        Raw::new()
            .new_(NftMsg::NEW_TABLE, &table())
            .plain(NftMsg::DEL_TABLE, &table())
            .accepted(&mut socket);
    });
}

/// With neither, all tables of the family go: the engine has no way to say that.
#[test]
fn deleting_a_table_without_a_reference_deletes_all() {
    with_objects(|mut socket, mut connection| {
        Raw::new()
            .new_(NftMsg::NEW_TABLE, &Table::named("another"))
            .accepted(&mut socket);
        Raw::new()
            .plain(NftMsg::DEL_TABLE, &Table::default())
            .accepted(&mut socket);
        let mut tables = 0;
        connection.dump_tables(IP, |_, _| tables += 1).unwrap();
        assert_eq!(tables, 0);
    });
}

#[test]
fn chains_are_deleted_by_name_or_handle_and_not_by_id() {
    with_objects(|mut socket, mut connection| {
        let handle = chain_handle(&mut connection, "c").unwrap();
        let mut by_handle = Chain::default();
        by_handle.table = Some(T.into());
        by_handle.handle = Some(handle);
        Raw::new()
            .plain(NftMsg::DEL_CHAIN, &by_handle)
            .accepted(&mut socket);
        let mut new = chain("d");
        new.id = Some(5);
        let mut by_id = Chain::default();
        by_id.table = Some(T.into());
        by_id.id = Some(5);
        let refused = Raw::new()
            .new_(NftMsg::NEW_CHAIN, &new)
            .plain(NftMsg::DEL_CHAIN, &by_id)
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &chain("d"))
            .plain(NftMsg::DEL_CHAIN, &chain("d"))
            .accepted(&mut socket);
    });
}

/// NEWCHAIN with a handle and a name renames.
#[test]
fn chains_are_changed_by_name_or_handle() {
    with_objects(|mut socket, mut connection| {
        let handle = chain_handle(&mut connection, "c").unwrap();
        let mut renamed = chain("renamed");
        renamed.handle = Some(handle);
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &renamed)
            .accepted(&mut socket);
        assert_eq!(chain_handle(&mut connection, "c"), None);
        assert_eq!(chain_handle(&mut connection, "renamed"), Some(handle));
    });
}

/// B90: hook and priority cannot change in place.
#[test]
fn a_base_chain_does_not_change_its_priority() {
    with_objects(|mut socket, _| {
        let base = |priority| chain("b").hooked("nat", ChainHook::new(Hook::PREROUTING, priority));
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &base(-110))
            .accepted(&mut socket);
        let refused = Raw::new()
            .new_(NftMsg::NEW_CHAIN, &base(0))
            .refused(&mut socket);
        assert!(
            [Errno::EOPNOTSUPP, Errno::EEXIST].contains(&refused),
            "{refused}"
        );
        Raw::new()
            .plain(NftMsg::DEL_CHAIN, &chain("b"))
            .new_(NftMsg::NEW_CHAIN, &base(0))
            .accepted(&mut socket);
    });
}

#[test]
fn rules_find_their_chain_by_name_or_by_id_in_the_same_batch() {
    with_objects(|mut socket, mut connection| {
        let exprs = [Counter::default().into()];
        let mut new = chain("d");
        new.id = Some(5);
        let mut by_id = Rule::new(T, "", Exprs::new(&exprs));
        by_id.chain = None;
        by_id.chain_id = Some(5);
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &new)
            .new_(NftMsg::NEW_RULE, &by_id)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .accepted(&mut socket);
        assert_eq!(rule_handles(&mut connection, "d").len(), 1);
        assert_eq!(rule_handles(&mut connection, "c").len(), 1);
        let refused = Raw::new()
            .new_(NftMsg::NEW_RULE, &by_id)
            .refused(&mut socket);
        assert_eq!(refused, Errno::ENOENT);
    });
}

#[test]
fn verdicts_find_their_chain_by_name_or_by_id_in_the_same_batch() {
    with_objects(|mut socket, _| {
        let mut new = chain("d");
        new.id = Some(5);
        let mut by_id = Verdict::goto("");
        by_id.chain = None;
        by_id.chain_id = Some(5);
        let by_id = [Immediate::verdict(by_id).into()];
        let by_name = [Immediate::verdict(Verdict::goto("d")).into()];
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &new)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&by_id)))
            .accepted(&mut socket);
        Raw::new()
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&by_name)))
            .accepted(&mut socket);
        let refused = Raw::new()
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&by_id)))
            .refused(&mut socket);
        assert_eq!(refused, Errno::ENOENT);
    });
}

#[test]
fn rules_are_replaced_positioned_and_deleted_by_handle() {
    with_objects(|mut socket, mut connection| {
        let exprs = [Counter::default().into()];
        let rule = Rule::new(T, "c", Exprs::new(&exprs));
        let append = Flags::CREATE | Flags::APPEND;
        Raw::new()
            .message(NftMsg::NEW_RULE, append, &rule)
            .message(NftMsg::NEW_RULE, append, &rule)
            .accepted(&mut socket);
        let before = rule_handles(&mut connection, "c");

        // The old handle may stay or a new one be given; the content and the place tell.
        let other = [address()];
        let mut replacement = Rule::new(T, "c", Exprs::new(&other));
        replacement.handle = Some(before[0]);
        Raw::new()
            .message(NftMsg::NEW_RULE, Flags::REPLACE, &replacement)
            .accepted(&mut socket);
        let mut names = Vec::new();
        let dump = connection.dump_rules(IP, T, Some("c"), |rule| {
            let first = rule.exprs.unwrap().iter().next().unwrap().unwrap();
            names.push(first.name().to_string());
        });
        assert!(dump.is_ok());
        assert_eq!(names, ["payload", "counter"]);
        let replaced = rule_handles(&mut connection, "c");
        assert_eq!(replaced[1], before[1]);

        let mut between = rule;
        between.position = Some(replaced[0]);
        Raw::new()
            .message(NftMsg::NEW_RULE, append, &between)
            .accepted(&mut socket);
        let positioned = rule_handles(&mut connection, "c");
        assert_eq!((positioned[0], positioned[2]), (replaced[0], replaced[1]));

        Raw::new()
            .plain(NftMsg::DEL_RULE, &Rule::at(T, "c", Some(positioned[1])))
            .accepted(&mut socket);
        assert_eq!(rule_handles(&mut connection, "c"), replaced);
        // Without a handle all rules of the chain go.
        Raw::new()
            .plain(NftMsg::DEL_RULE, &Rule::at(T, "c", None))
            .accepted(&mut socket);
        assert_eq!(rule_handles(&mut connection, "c"), []);
    });
}

#[test]
fn rules_of_the_same_batch_have_ids() {
    with_objects(|mut socket, mut connection| {
        let exprs = [Counter::default().into()];
        let rule = Rule::new(T, "c", Exprs::new(&exprs));
        let append = Flags::CREATE | Flags::APPEND;
        let mut first = rule;
        first.id = Some(1);
        let mut after = rule;
        after.position_id = Some(1);
        let mut deleted = Rule::at(T, "c", None);
        deleted.id = Some(1);
        Raw::new()
            .message(NftMsg::NEW_RULE, append, &first)
            .message(NftMsg::NEW_RULE, append, &after)
            .plain(NftMsg::DEL_RULE, &deleted)
            .accepted(&mut socket);
        assert_eq!(rule_handles(&mut connection, "c").len(), 1);
        let refused = Raw::new()
            .plain(NftMsg::DEL_RULE, &deleted)
            .refused(&mut socket);
        assert_eq!(refused, Errno::ENOENT);
    });
}

/// DELRULE takes no chain id: a rule's chain must be named.
#[test]
fn rules_are_not_deleted_by_chain_id() {
    with_objects(|mut socket, mut connection| {
        let exprs = [Counter::default().into()];
        let mut new = chain("d");
        new.id = Some(5);
        let mut deleted = Rule::default();
        deleted.table = Some(T.into());
        deleted.chain_id = Some(5);
        // The id is not looked at, and without a chain all rules of the table go.
        Raw::new()
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .new_(NftMsg::NEW_CHAIN, &new)
            .plain(NftMsg::DEL_RULE, &deleted)
            .accepted(&mut socket);
        assert_eq!(rule_handles(&mut connection, "c"), []);
    });
}

#[test]
fn sets_are_deleted_by_name_or_handle_and_not_by_id() {
    with_objects(|mut socket, mut connection| {
        let handle = set_handle(&mut connection, "s").unwrap();
        let mut by_id = Set::default();
        by_id.table = Some(T.into());
        by_id.id = Some(9);
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 9))
            .plain(NftMsg::DEL_SET, &by_id)
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);

        let mut by_handle = Set::default();
        by_handle.table = Some(T.into());
        by_handle.handle = Some(handle);
        Raw::new()
            .plain(NftMsg::DEL_SET, &by_handle)
            .accepted(&mut socket);
        assert_eq!(set_handle(&mut connection, "s"), None);
        Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("s", true, None), 1))
            .plain(NftMsg::DEL_SET, &Set::named(T, "s"))
            .accepted(&mut socket);
    });
}

/// The handle wins over the name.
#[test]
fn a_handle_beside_a_name_decides() {
    with_objects(|mut socket, mut connection| {
        Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 1))
            .accepted(&mut socket);
        let mut both = Set::named(T, "x");
        both.handle = set_handle(&mut connection, "s");
        Raw::new()
            .plain(NftMsg::DEL_SET, &both)
            .accepted(&mut socket);
        assert_eq!(set_handle(&mut connection, "s"), None);
        assert!(set_handle(&mut connection, "x").is_some());
    });
}

#[test]
fn sets_need_an_id_and_a_name() {
    with_objects(|mut socket, _| {
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &set("x", true, None))
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
        let mut nameless = with_id(set("x", true, None), 1);
        nameless.name = None;
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &nameless)
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
    });
}

#[test]
fn elements_are_added_by_name_or_by_id_in_the_same_batch() {
    with_objects(|mut socket, mut connection| {
        let rows = [row(1, 1)];
        let more = [row(2, 2)];
        Raw::new()
            .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &rows))
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 9))
            .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &rows))
            // A name that is not found and an id that is.
            .new_(NftMsg::NEW_SETELEM, &elements(Some("none"), Some(9), &more))
            .accepted(&mut socket);
        assert_eq!(
            (count(&mut connection, "s"), count(&mut connection, "x")),
            (1, 2)
        );

        // The id is unknown to later batches; neither is no reference.
        for (list, errno) in [
            (elements(None, Some(9), &rows), Errno::ENOENT),
            (elements(None, None, &rows), Errno::EINVAL),
        ] {
            let refused = Raw::new()
                .new_(NftMsg::NEW_SETELEM, &list)
                .refused(&mut socket);
            assert_eq!(refused, errno);
        }
    });
}

/// With both, the name decides, at the cost of walking the list of sets.
#[test]
fn a_name_beside_an_id_decides_for_elements() {
    with_objects(|mut socket, mut connection| {
        let rows = [row(1, 1)];
        Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 9))
            .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), Some(9), &rows))
            .accepted(&mut socket);
        assert_eq!(
            (count(&mut connection, "s"), count(&mut connection, "x")),
            (1, 0)
        );
    });
}

/// The kernel accepts one id for two sets, and elements then go to one of them.
#[test]
fn an_id_used_twice_is_accepted_and_leads_to_one_set() {
    with_objects(|mut socket, mut connection| {
        let (first, second) = ([row(1, 1)], [row(2, 2)]);
        Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 9))
            .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &first))
            .new_(NftMsg::NEW_SET, &with_id(set("y", true, None), 9))
            .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &second))
            .accepted(&mut socket);
        let counts = (count(&mut connection, "x"), count(&mut connection, "y"));
        // The newest (since 6.10 or so), or the oldest.
        assert!([(1, 1), (2, 0)].contains(&counts), "{counts:?}");
    });
}

#[test]
fn elements_are_deleted_by_name_only() {
    with_objects(|mut socket, mut connection| {
        let rows = [row(1, 1)];
        let keys = [key(1)];
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("x", true, None), 9))
            .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &rows))
            .plain(NftMsg::DEL_SETELEM, &elements(None, Some(9), &keys))
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
        Raw::new()
            .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &rows))
            .accepted(&mut socket);
        Raw::new()
            .plain(NftMsg::DEL_SETELEM, &elements(Some("s"), None, &keys))
            .accepted(&mut socket);
        assert_eq!(count(&mut connection, "s"), 0);
    });
}

/// A lookup needs the name attribute; with an id the name may be empty.
#[test]
fn lookups_need_a_name_and_take_an_id() {
    with_objects(|mut socket, _| {
        let plain_set = with_id(set("x", false, None), 9);
        let lookup = |name: Option<&'static str>, id| {
            let mut lookup = Lookup::set("", REG);
            lookup.set = name.map(Into::into);
            lookup.set_id = id;
            [address(), lookup.into()]
        };
        let exprs = lookup(Some(""), Some(9));
        Raw::new()
            .new_(NftMsg::NEW_SET, &plain_set)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .accepted(&mut socket);
        let exprs = lookup(Some("x"), None);
        Raw::new()
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .accepted(&mut socket);
        let exprs = lookup(None, Some(9));
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(set("y", false, None), 9))
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
    });
}

/// As lookups.
#[test]
fn dynsets_need_a_name_and_take_an_id() {
    with_objects(|mut socket, _| {
        let mut dynamic = with_id(set("x", false, None), 9);
        dynamic.flags = Some(SetFlags::EVAL);
        let dynset = |name: Option<&'static str>, id| {
            let mut dynset = Dynset::new(DynsetOp::UPDATE, "", REG);
            dynset.set = name.map(Into::into);
            dynset.set_id = id;
            [address(), dynset.into()]
        };
        let by_id = dynset(Some(""), Some(9));
        Raw::new()
            .new_(NftMsg::NEW_SET, &dynamic)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&by_id)))
            .accepted(&mut socket);
        let by_name = dynset(Some("x"), None);
        Raw::new()
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&by_name)))
            .accepted(&mut socket);
        let nameless = dynset(None, Some(9));
        dynamic.name = Some("y".into());
        let refused = Raw::new()
            .new_(NftMsg::NEW_SET, &dynamic)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&nameless)))
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);
    });
}

/// Unlike lookups, maps of objects are found by id alone.
#[test]
fn object_maps_take_an_id_alone() {
    with_objects(|mut socket, _| {
        let mut objects = with_id(set("x", false, None), 9);
        objects.flags = Some(SetFlags::OBJECT);
        objects.obj_type = Some(ObjType::COUNTER);
        let mut objref = Objref::map("", REG);
        objref.set = None;
        objref.set_id = Some(9);
        let exprs = [address(), objref.into()];
        Raw::new()
            .new_(NftMsg::NEW_SET, &objects)
            .new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
            .accepted(&mut socket);
    });
}

#[test]
fn objects_are_deleted_by_name_or_handle_of_their_type() {
    with_objects(|mut socket, mut connection| {
        let mut handle = None;
        connection
            .dump_objects(IP, T, |object| handle = object.handle)
            .unwrap();
        let mut by_handle = Obj::default();
        by_handle.table = Some(T.into());
        by_handle.kind = Some(ObjType::QUOTA);
        by_handle.handle = handle;
        let refused = Raw::new()
            .plain(NftMsg::DEL_OBJ, &by_handle)
            .refused(&mut socket);
        assert_eq!(refused, Errno::ENOENT);
        by_handle.kind = Some(ObjType::COUNTER);
        Raw::new()
            .plain(NftMsg::DEL_OBJ, &by_handle)
            .accepted(&mut socket);
        Raw::new()
            .new_(NftMsg::NEW_OBJ, &Obj::new(T, "o", Counter::default()))
            .plain(NftMsg::DEL_OBJ, &Obj::named(T, "o", ObjType::COUNTER))
            .accepted(&mut socket);
    });
}

/// Both are looked up; a kernel without the flowtable module has none to delete.
#[test]
fn flowtables_are_deleted_by_name_or_handle() {
    with_objects(|mut socket, mut connection| {
        let by_name = Flowtable::named(T, "f");
        let mut by_handle = Flowtable::default();
        by_handle.table = Some(T.into());
        by_handle.handle = Some(77);
        for body in [&by_name, &by_handle] {
            let refused = Raw::new()
                .plain(NftMsg::DEL_FLOWTABLE, body)
                .refused(&mut socket);
            assert_eq!(refused, Errno::ENOENT);
        }
        let mut neither = by_handle;
        neither.handle = None;
        let refused = Raw::new()
            .plain(NftMsg::DEL_FLOWTABLE, &neither)
            .refused(&mut socket);
        assert_eq!(refused, Errno::EINVAL);

        let mut hook = FlowtableHook::default();
        hook.hook = Some(0);
        hook.priority = Some(0);
        let mut flowtable = by_name;
        flowtable.hook = Some(hook);
        let create = || Raw::new().new_(NftMsg::NEW_FLOWTABLE, &flowtable);
        match create().send(&mut socket).as_slice() {
            [None] => {}
            [Some(Errno::ENOENT)] => return,
            other => panic!("{other:?}"),
        }
        let mut handle = None;
        connection
            .dump_flowtables(IP, T, |flowtable| handle = flowtable.handle)
            .unwrap();
        by_handle.handle = Some(handle.unwrap());
        Raw::new()
            .plain(NftMsg::DEL_FLOWTABLE, &by_handle)
            .accepted(&mut socket);
        create()
            .plain(NftMsg::DEL_FLOWTABLE, &by_name)
            .accepted(&mut socket);
    });
}
