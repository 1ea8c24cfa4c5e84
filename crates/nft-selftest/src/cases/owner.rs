//! Tables that belong to a socket.

use nft_batch::{Errno, Socket, Transport as _};
use nl_codec::msg::NftMsg;
use nl_codec::nft::Table;

use crate::Stop;
use crate::bench::{Bench, IP, T, chain, table};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::{Verdict, check, check_eq};

use nl_codec::nft::table::TableFlags;

cases! {"owner":
    others_cannot_change_an_owned_table,
    an_owned_table_goes_with_its_socket,
    a_persistent_one_stays_and_can_be_adopted,
    deleting_all_tables_spares_those_of_others,
    a_persistent_one_is_not_added_as_a_plain_one,
}

fn owned(flags: TableFlags) -> Table<'static> {
    let mut table = table();
    table.flags = Some(flags);
    table
}

fn is_there(b: &mut Bench) -> Result<bool, Stop> {
    let mut there = false;
    b.connection.dump_tables(IP, |_, table| {
        there |= table
            .name
            .is_some_and(|name| name.as_bytes() == T.as_bytes());
    })?;
    Ok(there)
}

fn others_cannot_change_an_owned_table(b: &mut Bench) -> Verdict {
    Bench::need(b.can.table_owner, "tables with an owner (Linux 5.12)")?;
    let mut owner = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(TableFlags::OWNER))
        .accepted(&mut owner)?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .refused_with(&mut b.socket, &[Errno::EPERM])?;
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &table())
        .refused_with(&mut b.socket, &[Errno::EPERM])?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .accepted(&mut owner)?;
    let port = b.connection.table_info(IP, T, |table| table.owner)?;
    check_eq!(port, Some(owner.port()));
    Ok(())
}

fn an_owned_table_goes_with_its_socket(b: &mut Bench) -> Verdict {
    Bench::need(b.can.table_owner, "tables with an owner (Linux 5.12)")?;
    let mut owner = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(TableFlags::OWNER))
        .accepted(&mut owner)?;
    check!(is_there(b)?);
    drop(owner);
    check!(!is_there(b)?);
    Ok(())
}

fn a_persistent_one_stays_and_can_be_adopted(b: &mut Bench) -> Verdict {
    Bench::need(
        b.can.table_persist,
        "tables that outlive their owner (Linux 6.9)",
    )?;
    let flags = TableFlags::OWNER | TableFlags::PERSIST;
    let mut owner = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(flags))
        .accepted(&mut owner)?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(flags))
        .refused_with(&mut b.socket, &[Errno::EPERM])?;
    drop(owner);
    check!(is_there(b)?);
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(flags))
        .accepted(&mut b.socket)?;
    let mut other = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .refused_with(&mut other, &[Errno::EPERM])
}

/// As `nft flush ruleset` does.
fn deleting_all_tables_spares_those_of_others(b: &mut Bench) -> Verdict {
    Bench::need(b.can.table_owner, "tables with an owner (Linux 5.12)")?;
    let mut owner = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(TableFlags::OWNER))
        .accepted(&mut owner)?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named("another"))
        .accepted(&mut b.socket)?;
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &Table::default())
        .accepted(&mut b.socket)?;
    check!(is_there(b)?);
    let mut tables = 0;
    b.connection.dump_tables(IP, |_, _| tables += 1)?;
    check_eq!(tables, 1);
    Ok(())
}

/// As `add table` of nft does, which sends no flags as the number 0.
fn a_persistent_one_is_not_added_as_a_plain_one(b: &mut Bench) -> Verdict {
    Bench::need(
        b.can.table_persist,
        "tables that outlive their owner (Linux 6.9)",
    )?;
    let mut owner = Socket::open()?;
    Raw::new()
        .new_(
            NftMsg::NEW_TABLE,
            &owned(TableFlags::OWNER | TableFlags::PERSIST),
        )
        .accepted(&mut owner)?;
    drop(owner);
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &owned(TableFlags::empty()))
        .refused_with(&mut b.socket, &[Errno::EOPNOTSUPP])?;
    // Anybody may change and delete it.
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .plain(NftMsg::DEL_TABLE, &table())
        .new_(NftMsg::NEW_TABLE, &owned(TableFlags::empty()))
        .accepted(&mut b.socket)
}
