//! How messages refer to objects.

mod objects;
mod sets;

use nl_codec::msg::NftMsg;
use nl_codec::nft::Obj;
use nl_codec::nft::expr::Counter;

use crate::Stop;
use crate::bench::{Bench, IP, T, chain, map, table, with_id};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::Verdict;

cases! {"reference":
    objects::tables_are_deleted_by_name_or_handle,
    objects::deleting_a_table_without_a_reference_deletes_all,
    objects::chains_are_changed_by_name_or_handle,
    objects::a_base_chain_does_not_change_its_priority,
    objects::chains_are_deleted_by_name_or_handle_and_not_by_id,
    objects::rules_find_their_chain_by_name_or_by_id_in_the_same_batch,
    objects::rules_are_replaced_positioned_and_deleted_by_handle,
    objects::rules_of_the_same_batch_have_ids,
    objects::rules_are_not_deleted_by_chain_id,
    objects::verdicts_find_their_chain_by_name_or_by_id_in_the_same_batch,
    objects::objects_are_deleted_by_name_or_handle_of_their_type,
    objects::flowtables_are_deleted_by_name_or_handle,
    objects::a_handle_is_used_once_in_the_life_of_a_table,
    sets::sets_need_an_id_and_a_name,
    sets::sets_are_deleted_by_name_or_handle_and_not_by_id,
    sets::a_handle_beside_a_name_decides,
    sets::elements_are_added_by_name_or_by_id_in_the_same_batch,
    sets::a_name_beside_an_id_decides_for_elements,
    sets::an_id_used_twice_is_accepted_and_leads_to_one_set,
    sets::elements_are_deleted_by_name_only,
    sets::lookups_need_a_name_and_take_an_id,
    sets::dynsets_need_a_name_and_take_an_id,
    sets::object_maps_take_an_id_alone,
}

/// Table `t` with chain `c`, map `s` and counter `o`.
fn objects(b: &mut Bench) -> Verdict {
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .new_(NftMsg::NEW_SET, &with_id(map("s"), 1))
        .new_(NftMsg::NEW_OBJ, &Obj::new(T, "o", Counter::default()))
        .accepted(&mut b.socket)
}

fn table_handle(b: &mut Bench) -> Result<Option<u64>, Stop> {
    let mut handle = None;
    b.connection
        .dump_tables(IP, |_, table| handle = table.handle)?;
    Ok(handle)
}

fn chain_handle(b: &mut Bench, name: &str) -> Result<Option<u64>, Stop> {
    let mut handle = None;
    b.connection.dump_chains(IP, T, |chain| {
        if chain
            .name
            .is_some_and(|own| own.as_bytes() == name.as_bytes())
        {
            handle = chain.handle;
        }
    })?;
    Ok(handle)
}

fn set_handle(b: &mut Bench, name: &str) -> Option<u64> {
    let handle = b.connection.set_info(IP, T, name, |set| set.handle);
    handle.ok().flatten()
}
