//! Sets, their elements, and the expressions that use them.

use super::*;

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
