//! Which message takes which kind of reference: sets, their elements, and the expressions that use
//! them.

use nft_batch::Errno;
use nl_codec::msg::NftMsg;
use nl_codec::nft::Set;
use nl_codec::nft::expr::{Dynset, DynsetOp, Lookup, ObjType, Objref};
use nl_codec::nft::set::SetFlags;

use super::{objects, set_handle};
use crate::bench::{Bench, REG, T, daddr, elements, key, map, row, rule, set, with_id};
use crate::raw::Raw;
use crate::verdict::{Verdict, check, check_eq};

pub(super) fn sets_are_deleted_by_name_or_handle_and_not_by_id(b: &mut Bench) -> Verdict {
    objects(b)?;
    let handle = set_handle(b, "s");
    let mut by_id = Set::default();
    by_id.table = Some(T.into());
    by_id.id = Some(9);
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 9))
        .plain(NftMsg::DEL_SET, &by_id)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);

    let mut by_handle = Set::default();
    by_handle.table = Some(T.into());
    by_handle.handle = handle;
    Raw::new()
        .plain(NftMsg::DEL_SET, &by_handle)
        .accepted(&mut b.socket)?;
    check_eq!(set_handle(b, "s"), None);
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("s"), 1))
        .plain(NftMsg::DEL_SET, &Set::named(T, "s"))
        .accepted(&mut b.socket)?;
    Ok(())
}

/// The handle wins over the name.
pub(super) fn a_handle_beside_a_name_decides(b: &mut Bench) -> Verdict {
    objects(b)?;
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 1))
        .accepted(&mut b.socket)?;
    let mut both = Set::named(T, "x");
    both.handle = set_handle(b, "s");
    Raw::new()
        .plain(NftMsg::DEL_SET, &both)
        .accepted(&mut b.socket)?;
    check_eq!(set_handle(b, "s"), None);
    check!(set_handle(b, "x").is_some());
    Ok(())
}

pub(super) fn sets_need_an_id_and_a_name(b: &mut Bench) -> Verdict {
    objects(b)?;
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &map("x"))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    let mut nameless = with_id(map("x"), 1);
    nameless.name = None;
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &nameless)
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    Ok(())
}

pub(super) fn elements_are_added_by_name_or_by_id_in_the_same_batch(b: &mut Bench) -> Verdict {
    objects(b)?;
    let rows = [row(1, 1)];
    let more = [row(2, 2)];
    Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &rows))
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 9))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &rows))
        // A name that is not found and an id that is.
        .new_(NftMsg::NEW_SETELEM, &elements(Some("none"), Some(9), &more))
        .accepted(&mut b.socket)?;
    check_eq!((b.count("s")?, b.count("x")?), (1, 2));

    // The id is unknown to later batches; neither is no reference.
    for (list, errno) in [
        (elements(None, Some(9), &rows), Errno::ENOENT),
        (elements(None, None, &rows), Errno::EINVAL),
    ] {
        let refused = Raw::new()
            .new_(NftMsg::NEW_SETELEM, &list)
            .refused(&mut b.socket)?;
        check_eq!(refused, errno);
    }
    Ok(())
}

/// With both, the name decides, at the cost of walking the list of sets.
pub(super) fn a_name_beside_an_id_decides_for_elements(b: &mut Bench) -> Verdict {
    objects(b)?;
    let rows = [row(1, 1)];
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 9))
        .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), Some(9), &rows))
        .accepted(&mut b.socket)?;
    check_eq!((b.count("s")?, b.count("x")?), (1, 0));
    Ok(())
}

/// The kernel accepts one id for two sets, and elements then go to one of them.
pub(super) fn an_id_used_twice_is_accepted_and_leads_to_one_set(b: &mut Bench) -> Verdict {
    objects(b)?;
    let (first, second) = ([row(1, 1)], [row(2, 2)]);
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 9))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &first))
        .new_(NftMsg::NEW_SET, &with_id(map("y"), 9))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &second))
        .accepted(&mut b.socket)?;
    let counts = (b.count("x")?, b.count("y")?);
    // The newest (since 6.10 or so), or the oldest.
    check!([(1, 1), (2, 0)].contains(&counts), "{counts:?}");
    Ok(())
}

pub(super) fn elements_are_deleted_by_name_only(b: &mut Bench) -> Verdict {
    objects(b)?;
    let rows = [row(1, 1)];
    let keys = [key(1)];
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 9))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(9), &rows))
        .plain(NftMsg::DEL_SETELEM, &elements(None, Some(9), &keys))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("s"), None, &rows))
        .accepted(&mut b.socket)?;
    Raw::new()
        .plain(NftMsg::DEL_SETELEM, &elements(Some("s"), None, &keys))
        .accepted(&mut b.socket)?;
    check_eq!(b.count("s")?, 0);
    Ok(())
}

/// A lookup needs the name attribute; with an id the name may be empty.
pub(super) fn lookups_need_a_name_and_take_an_id(b: &mut Bench) -> Verdict {
    objects(b)?;
    let plain_set = with_id(set("x"), 9);
    let lookup = |name: Option<&'static str>, id| {
        let mut lookup = Lookup::set("", REG);
        lookup.set = name.map(Into::into);
        lookup.set_id = id;
        [daddr(REG), lookup.into()]
    };
    let exprs = lookup(Some(""), Some(9));
    Raw::new()
        .new_(NftMsg::NEW_SET, &plain_set)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .accepted(&mut b.socket)?;
    let exprs = lookup(Some("x"), None);
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .accepted(&mut b.socket)?;
    let exprs = lookup(None, Some(9));
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(set("y"), 9))
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    Ok(())
}

/// As lookups.
pub(super) fn dynsets_need_a_name_and_take_an_id(b: &mut Bench) -> Verdict {
    objects(b)?;
    let mut dynamic = with_id(set("x"), 9);
    dynamic.flags = Some(SetFlags::EVAL);
    let dynset = |name: Option<&'static str>, id| {
        let mut dynset = Dynset::new(DynsetOp::UPDATE, "", REG);
        dynset.set = name.map(Into::into);
        dynset.set_id = id;
        [daddr(REG), dynset.into()]
    };
    let by_id = dynset(Some(""), Some(9));
    Raw::new()
        .new_(NftMsg::NEW_SET, &dynamic)
        .new_(NftMsg::NEW_RULE, &rule("c", &by_id))
        .accepted(&mut b.socket)?;
    let by_name = dynset(Some("x"), None);
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &by_name))
        .accepted(&mut b.socket)?;
    let nameless = dynset(None, Some(9));
    dynamic.name = Some("y".into());
    let refused = Raw::new()
        .new_(NftMsg::NEW_SET, &dynamic)
        .new_(NftMsg::NEW_RULE, &rule("c", &nameless))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::EINVAL);
    Ok(())
}

/// Unlike lookups, maps of objects are found by id alone.
pub(super) fn object_maps_take_an_id_alone(b: &mut Bench) -> Verdict {
    objects(b)?;
    let mut objects = with_id(set("x"), 9);
    objects.flags = Some(SetFlags::OBJECT);
    objects.obj_type = Some(ObjType::COUNTER);
    let mut objref = Objref::map("", REG);
    objref.set = None;
    objref.set_id = Some(9);
    let exprs = [daddr(REG), objref.into()];
    Raw::new()
        .new_(NftMsg::NEW_SET, &objects)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .accepted(&mut b.socket)?;
    Ok(())
}
