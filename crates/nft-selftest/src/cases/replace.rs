//! Exchanging what is there for something else in one batch.

use nft_batch::{By, Errno};
use nl_codec::msg::NftMsg;
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::{Elem, ElemList};

use crate::bench::{Bench, IP, T, chain, elements, key, map, row, sized, table, with_id};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::{Verdict, check_eq};

cases! {"replace":
    a_row_is_replaced_by_deleting_and_adding_its_key_in_one_batch,
    adding_before_deleting_is_eexist,
    a_full_map_takes_a_row_after_a_deletion_and_not_before,
    a_map_is_flushed_and_filled_in_one_batch,
    a_table_is_deleted_and_made_again_in_one_batch,
    a_base_chain_is_moved_to_another_priority_in_one_batch,
    a_deleted_row_can_be_read_no_more_and_added_again,
}

fn add<'a>(raw: Raw, rows: &'a [Elem<'a>]) -> Raw {
    raw.new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, rows))
}

fn delete<'a>(raw: Raw, keys: &'a [Elem<'a>]) -> Raw {
    raw.plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, keys))
}

fn a_row_is_replaced_by_deleting_and_adding_its_key_in_one_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    add(Raw::new(), &[row(1, 1)]).accepted(&mut b.socket)?;
    add(delete(Raw::new(), &[key(1)]), &[row(1, 2)]).accepted(&mut b.socket)?;
    check_eq!(b.value(1)?, Some(2));
    check_eq!(b.count("m")?, 1);
    Ok(())
}

fn adding_before_deleting_is_eexist(b: &mut Bench) -> Verdict {
    b.basics()?;
    add(Raw::new(), &[row(1, 1)]).accepted(&mut b.socket)?;
    delete(add(Raw::new(), &[row(1, 2)]), &[key(1)])
        .refused_with(&mut b.socket, &[Errno::EEXIST])?;
    check_eq!(b.value(1)?, Some(1));
    Ok(())
}

fn a_full_map_takes_a_row_after_a_deletion_and_not_before(b: &mut Bench) -> Verdict {
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_SET, &with_id(sized(map("m"), 2), 1))
        .accepted(&mut b.socket)?;
    add(Raw::new(), &[row(1, 1), row(2, 2)]).accepted(&mut b.socket)?;
    delete(add(Raw::new(), &[row(3, 3)]), &[key(1)])
        .refused_with(&mut b.socket, &[Errno::ENFILE])?;
    add(delete(Raw::new(), &[key(1)]), &[row(3, 3)]).accepted(&mut b.socket)?;
    check_eq!((b.value(1)?, b.value(3)?), (None, Some(3)));
    Ok(())
}

fn a_map_is_flushed_and_filled_in_one_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    let old: Vec<_> = (0..1_000).map(|number| row(number, 1)).collect();
    let new: Vec<_> = (500..1_500).map(|number| row(number, 2)).collect();
    add(Raw::new(), &old).accepted(&mut b.socket)?;
    add(
        Raw::new().plain(NftMsg::DEL_SETELEM, &ElemList::named(T, "m")),
        &new,
    )
    .accepted(&mut b.socket)?;
    check_eq!(b.count("m")?, 1_000);
    check_eq!((b.value(499)?, b.value(500)?), (None, Some(2)));
    Ok(())
}

fn a_table_is_deleted_and_made_again_in_one_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    add(Raw::new(), &[row(1, 1)]).accepted(&mut b.socket)?;
    let raw = Raw::new()
        .plain(NftMsg::DEL_TABLE, &table())
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_SET, &with_id(map("m"), 1));
    add(raw, &[row(2, 2)]).accepted(&mut b.socket)?;
    check_eq!((b.value(1)?, b.value(2)?), (None, Some(2)));
    Ok(())
}

fn a_base_chain_is_moved_to_another_priority_in_one_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut batch = b.batch();
    let base = |priority| chain("base").hooked("filter", ChainHook::new(Hook::INPUT, priority));
    batch.add_chain(IP, &base(0))?;
    b.commit(batch)?;
    let mut batch = b.batch();
    batch.delete_chain(IP, T, By::Name("base"))?;
    batch.barrier();
    batch.add_chain(IP, &base(10))?;
    b.commit(batch)?;
    let priority = b.connection.chain_info(IP, T, "base", |chain| {
        chain.hook.and_then(|hook| hook.priority)
    })?;
    check_eq!(priority, Some(10));
    Ok(())
}

fn a_deleted_row_can_be_read_no_more_and_added_again(b: &mut Bench) -> Verdict {
    b.basics()?;
    for round in 0..3 {
        add(Raw::new(), &[row(1, round)]).accepted(&mut b.socket)?;
        check_eq!(b.value(1)?, Some(round));
        delete(Raw::new(), &[key(1)]).accepted(&mut b.socket)?;
        check_eq!(b.value(1)?, None);
    }
    Ok(())
}
