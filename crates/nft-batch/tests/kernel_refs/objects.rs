//! Tables, chains, rules, stateful objects and flowtables.

use super::*;

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

/// kubernetes/kubernetes#123162: hook and priority cannot change in place.
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
