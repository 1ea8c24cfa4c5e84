//! Which message takes which kind of reference (name, id, handle): tables, chains, rules, stateful
//! objects and flowtables.

use nft_batch::Errno;
use nl_codec::msg::{Flags, NftMsg};
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{Counter, Immediate, ObjType};
use nl_codec::nft::flowtable::FlowtableHook;
use nl_codec::nft::{Chain, Flowtable, Obj, Rule, Table, Verdict as NftVerdict};

use super::{chain_handle, objects, table_handle};
use crate::bench::{Bench, IP, REG, T, chain, counter, daddr, rule, table};
use crate::raw::Raw;
use crate::verdict::{Stop, Verdict, check, check_eq};

pub(super) fn tables_are_deleted_by_name_or_handle(b: &mut Bench) -> Verdict {
    objects(b)?;
    let handle = table_handle(b)?;
    let mut by_handle = Table::default();
    by_handle.handle = handle.map(|it| it + 1000);
    let refused = Raw::new()
        .plain(NftMsg::DEL_TABLE, &by_handle)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ENOENT);
    by_handle.handle = handle;
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &by_handle)
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .plain(NftMsg::DEL_TABLE, &table())
        .accepted(&mut b.socket)?;
    Ok(())
}

/// With neither, all tables of the family go: the engine has no way to say that.
pub(super) fn deleting_a_table_without_a_reference_deletes_all(b: &mut Bench) -> Verdict {
    objects(b)?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named("another"))
        .accepted(&mut b.socket)?;
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &Table::default())
        .accepted(&mut b.socket)?;
    let mut tables = 0;
    b.connection.dump_tables(IP, |_, _| tables += 1)?;
    check_eq!(tables, 0);
    Ok(())
}

pub(super) fn chains_are_deleted_by_name_or_handle_and_not_by_id(b: &mut Bench) -> Verdict {
    objects(b)?;
    let handle = chain_handle(b, "c")?;
    let mut by_handle = Chain::default();
    by_handle.table = Some(T.into());
    by_handle.handle = handle;
    Raw::new()
        .plain(NftMsg::DEL_CHAIN, &by_handle)
        .accepted(&mut b.socket)?;
    let mut new = chain("d");
    new.id = Some(5);
    let mut by_id = Chain::default();
    by_id.table = Some(T.into());
    by_id.id = Some(5);
    let refused = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &new)
        .plain(NftMsg::DEL_CHAIN, &by_id)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .plain(NftMsg::DEL_CHAIN, &chain("d"))
        .accepted(&mut b.socket)?;
    Ok(())
}

/// NEWCHAIN with a handle and a name renames.
pub(super) fn chains_are_changed_by_name_or_handle(b: &mut Bench) -> Verdict {
    objects(b)?;
    let handle = chain_handle(b, "c")?;
    let mut renamed = chain("renamed");
    renamed.handle = handle;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &renamed)
        .accepted(&mut b.socket)?;
    check_eq!(chain_handle(b, "c")?, None);
    check_eq!(chain_handle(b, "renamed")?, handle);
    Ok(())
}

/// kubernetes/kubernetes#123162: hook and priority cannot change in place.
pub(super) fn a_base_chain_does_not_change_its_priority(b: &mut Bench) -> Verdict {
    objects(b)?;
    let base = |priority| chain("b").hooked("nat", ChainHook::new(Hook::PREROUTING, priority));
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &base(-110))
        .accepted(&mut b.socket)?;
    let refused = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &base(0))
        .refused(&mut b.socket)?;
    check!(
        [Errno::EOPNOTSUPP, Errno::EEXIST].contains(&refused),
        "{refused}"
    );
    Raw::new()
        .plain(NftMsg::DEL_CHAIN, &chain("b"))
        .new_(NftMsg::NEW_CHAIN, &base(0))
        .accepted(&mut b.socket)?;
    Ok(())
}

pub(super) fn rules_find_their_chain_by_name_or_by_id_in_the_same_batch(b: &mut Bench) -> Verdict {
    objects(b)?;
    let exprs = [counter()];
    let mut new = chain("d");
    new.id = Some(5);
    let mut by_id = rule("", &exprs);
    by_id.chain = None;
    by_id.chain_id = Some(5);
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &new)
        .new_(NftMsg::NEW_RULE, &by_id)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .accepted(&mut b.socket)?;
    check_eq!(b.rule_handles("d")?.len(), 1);
    check_eq!(b.rule_handles("c")?.len(), 1);
    let refused = Raw::new()
        .new_(NftMsg::NEW_RULE, &by_id)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ENOENT);
    Ok(())
}

pub(super) fn verdicts_find_their_chain_by_name_or_by_id_in_the_same_batch(
    b: &mut Bench,
) -> Verdict {
    objects(b)?;
    let mut new = chain("d");
    new.id = Some(5);
    let mut by_id = NftVerdict::goto("");
    by_id.chain = None;
    by_id.chain_id = Some(5);
    let by_id = [Immediate::verdict(by_id).into()];
    let by_name = [Immediate::verdict(NftVerdict::goto("d")).into()];
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &new)
        .new_(NftMsg::NEW_RULE, &rule("c", &by_id))
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &by_name))
        .accepted(&mut b.socket)?;
    let refused = Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &by_id))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ENOENT);
    Ok(())
}

pub(super) fn rules_are_replaced_positioned_and_deleted_by_handle(b: &mut Bench) -> Verdict {
    objects(b)?;
    let exprs = [counter()];
    let one = rule("c", &exprs);
    let append = Flags::CREATE | Flags::APPEND;
    Raw::new()
        .message(NftMsg::NEW_RULE, append, &one)
        .message(NftMsg::NEW_RULE, append, &one)
        .accepted(&mut b.socket)?;
    let [first, second] = handles(b)?;

    // The old handle may stay or a new one be given; the content and the place tell.
    let other = [daddr(REG)];
    let mut replacement = rule("c", &other);
    replacement.handle = Some(first);
    Raw::new()
        .message(NftMsg::NEW_RULE, Flags::REPLACE, &replacement)
        .accepted(&mut b.socket)?;
    let mut names = Vec::new();
    b.connection.dump_rules(IP, T, Some("c"), |rule| {
        let first = rule.exprs.iter().flatten().flatten().next();
        names.extend(first.map(|expr| expr.name().to_string()));
    })?;
    check_eq!(names, ["payload", "counter"]);
    let replaced = handles(b)?;
    check_eq!(replaced[1], second);

    let mut between = one;
    between.position = Some(replaced[0]);
    Raw::new()
        .message(NftMsg::NEW_RULE, append, &between)
        .accepted(&mut b.socket)?;
    let positioned: [u64; 3] = handles(b)?;
    check_eq!([positioned[0], positioned[2]], replaced);

    Raw::new()
        .plain(NftMsg::DEL_RULE, &Rule::at(T, "c", Some(positioned[1])))
        .accepted(&mut b.socket)?;
    check_eq!(b.rule_handles("c")?, replaced);
    // Without a handle all rules of the chain go.
    Raw::new()
        .plain(NftMsg::DEL_RULE, &Rule::at(T, "c", None))
        .accepted(&mut b.socket)?;
    check!(b.rule_handles("c")?.is_empty());
    Ok(())
}

/// Handles of the rules of chain `c`, which must be so many.
fn handles<const N: usize>(b: &mut Bench) -> Result<[u64; N], Stop> {
    let handles = b.rule_handles("c")?;
    let count = handles.len();
    handles
        .try_into()
        .map_err(|_| Stop::Fail(format!("{count} rules, not {N}")))
}

pub(super) fn rules_of_the_same_batch_have_ids(b: &mut Bench) -> Verdict {
    objects(b)?;
    let exprs = [counter()];
    let one = rule("c", &exprs);
    let append = Flags::CREATE | Flags::APPEND;
    let mut first = one;
    first.id = Some(1);
    let mut after = one;
    after.position_id = Some(1);
    let mut deleted = Rule::at(T, "c", None);
    deleted.id = Some(1);
    Raw::new()
        .message(NftMsg::NEW_RULE, append, &first)
        .message(NftMsg::NEW_RULE, append, &after)
        .plain(NftMsg::DEL_RULE, &deleted)
        .accepted(&mut b.socket)?;
    check_eq!(b.rule_handles("c")?.len(), 1);
    let refused = Raw::new()
        .plain(NftMsg::DEL_RULE, &deleted)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ENOENT);
    Ok(())
}

/// DELRULE takes no chain id: a rule's chain must be named.
pub(super) fn rules_are_not_deleted_by_chain_id(b: &mut Bench) -> Verdict {
    objects(b)?;
    let exprs = [counter()];
    let mut new = chain("d");
    new.id = Some(5);
    let mut deleted = Rule::default();
    deleted.table = Some(T.into());
    deleted.chain_id = Some(5);
    // The id is not looked at, and without a chain all rules of the table go.
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .new_(NftMsg::NEW_CHAIN, &new)
        .plain(NftMsg::DEL_RULE, &deleted)
        .accepted(&mut b.socket)?;
    check!(b.rule_handles("c")?.is_empty());
    Ok(())
}

pub(super) fn objects_are_deleted_by_name_or_handle_of_their_type(b: &mut Bench) -> Verdict {
    objects(b)?;
    let mut handle = None;
    b.connection
        .dump_objects(IP, T, |object| handle = object.handle)?;
    let mut by_handle = Obj::default();
    by_handle.table = Some(T.into());
    by_handle.kind = Some(ObjType::QUOTA);
    by_handle.handle = handle;
    let refused = Raw::new()
        .plain(NftMsg::DEL_OBJ, &by_handle)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ENOENT);
    by_handle.kind = Some(ObjType::COUNTER);
    Raw::new()
        .plain(NftMsg::DEL_OBJ, &by_handle)
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_OBJ, &Obj::new(T, "o", Counter::default()))
        .plain(NftMsg::DEL_OBJ, &Obj::named(T, "o", ObjType::COUNTER))
        .accepted(&mut b.socket)?;
    Ok(())
}

/// Both are looked up; a kernel without the flowtable module has none to delete.
pub(super) fn flowtables_are_deleted_by_name_or_handle(b: &mut Bench) -> Verdict {
    objects(b)?;
    let by_name = Flowtable::named(T, "f");
    let mut by_handle = Flowtable::default();
    by_handle.table = Some(T.into());
    by_handle.handle = Some(77);
    for body in [&by_name, &by_handle] {
        let refused = Raw::new()
            .plain(NftMsg::DEL_FLOWTABLE, body)
            .refused(&mut b.socket)?;
        check_eq!(refused, Errno::ENOENT);
    }
    let mut neither = by_handle;
    neither.handle = None;
    let refused = Raw::new()
        .plain(NftMsg::DEL_FLOWTABLE, &neither)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);

    let mut hook = FlowtableHook::default();
    hook.hook = Some(0);
    hook.priority = Some(0);
    let mut flowtable = by_name;
    flowtable.hook = Some(hook);
    let create = || Raw::new().new_(NftMsg::NEW_FLOWTABLE, &flowtable);
    match create().send(&mut b.socket)?.as_slice() {
        [None] => {}
        [Some(Errno::ENOENT)] => {
            b.note("no flowtable module: only that there is none to delete");
            return Ok(());
        }
        other => return Err(Stop::Fail(format!("{other:?}"))),
    }
    let mut handle = None;
    b.connection
        .dump_flowtables(IP, T, |flowtable| handle = flowtable.handle)?;
    check!(handle.is_some());
    by_handle.handle = handle;
    Raw::new()
        .plain(NftMsg::DEL_FLOWTABLE, &by_handle)
        .accepted(&mut b.socket)?;
    create()
        .plain(NftMsg::DEL_FLOWTABLE, &by_name)
        .accepted(&mut b.socket)?;
    Ok(())
}

/// So a handle that was seen before is the same object. A batch that is refused uses some up, too.
pub(super) fn a_handle_is_used_once_in_the_life_of_a_table(b: &mut Bench) -> Verdict {
    objects(b)?;
    let mut last = 0;
    for _ in 0..3 {
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &chain("d"))
            .new_(NftMsg::NEW_RULE, &rule("d", &[counter()]))
            .accepted(&mut b.socket)?;
        let chain_is = chain_handle(b, "d")?.unwrap_or_default();
        let rules = b.rule_handles("d")?;
        let [rule_is] = rules.as_slice() else {
            return Err(Stop::Fail(format!("rules {rules:?}")));
        };
        check!(
            last < chain_is && chain_is < *rule_is,
            "{last}, {chain_is}, {rule_is}"
        );
        last = *rule_is;
        Raw::new()
            .plain(NftMsg::DEL_RULE, &Rule::at(T, "d", Some(last)))
            .plain(NftMsg::DEL_CHAIN, &chain("d"))
            .accepted(&mut b.socket)?;
        Raw::new()
            .new_(NftMsg::NEW_CHAIN, &chain("d"))
            .plain(NftMsg::DEL_CHAIN, &chain("none"))
            .refused_with(&mut b.socket, &[Errno::ENOENT])?;
    }
    let before = table_handle(b)?;
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &table())
        .new_(NftMsg::NEW_TABLE, &table())
        .accepted(&mut b.socket)?;
    let after = table_handle(b)?;
    check!(before < after, "{before:?}, then {after:?}");
    Ok(())
}
