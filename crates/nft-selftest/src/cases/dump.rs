//! Reading many things.

use std::time::Instant;

use nft_batch::{Connection, Errno};
use nl_codec::SliceCursor;
use nl_codec::msg::{Flags, Head, NftMsg, put_message};
use nl_codec::nft::{ElemList, Table};

use crate::Stop;
use crate::bench::{Bench, IP, T, chain, commit, row};
use crate::case::cases;
use crate::raw::{Raw, answers, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"dump":
    a_change_meanwhile_shows_in_the_generation,
    one_dump_at_a_time_on_a_socket,
    chains_of_all_tables_come_whatever_was_asked_for,
    elements_of_a_missing_set_are_enoent,
    a_row_is_read_by_its_key_whatever_else_there_is,
    rows_come_twice_or_not_at_all_while_a_map_grows,
    reading_all_rows_of_a_map_takes_longer_than_its_size_says,
}

/// Rows of several datagrams.
fn with_rows(b: &mut Bench, rows: u32) -> Verdict {
    b.basics()?;
    let mut batch = b.batch();
    let m = batch.set(IP, T, "m")?;
    batch.add_elements(m, (0..rows).map(|number| row(number, number)))?;
    b.commit(batch).map(drop)
}

/// `NLM_F_DUMP_INTR` is set by most kernels, in most cases.
fn a_change_meanwhile_shows_in_the_generation(b: &mut Bench) -> Verdict {
    with_rows(b, 5_000)?;
    let undisturbed = b.connection.dump_elements(IP, T, "m", |_| {})?;
    check!(undisturbed.consistent);
    let mut other = Connection::open()?;
    let mut meanwhile = Some(b.batch());
    let mut result = Ok(());
    let disturbed = b.connection.dump_elements(IP, T, "m", |_| {
        if let Some(mut batch) = meanwhile.take() {
            result = match batch.add_chain(IP, &chain("d")) {
                Ok(_) => commit(&mut other, batch).map(drop),
                Err(error) => Err(error.into()),
            };
        }
    })?;
    result?;
    check!(!disturbed.consistent);
    Ok(())
}

/// The second one is EBUSY until the first is read to its end.
fn one_dump_at_a_time_on_a_socket(b: &mut Bench) -> Verdict {
    with_rows(b, 5_000)?;
    let dump = |seq| -> Result<Vec<u8>, Stop> {
        let mut bytes = vec![0; 256];
        let mut cursor = SliceCursor::new(&mut bytes);
        let head = Head::nft(NftMsg::GET_SETELEM, IP)
            .with_flags(Flags::DUMP)
            .with_seq(seq);
        put_message(&mut cursor, &head, &ElemList::named(T, "m"))?;
        let len = cursor.written().len();
        bytes.truncate(len);
        Ok(bytes)
    };
    send(&mut b.socket, &dump(1)?)?;
    send(&mut b.socket, &dump(2)?)?;
    let refused: Vec<_> = answers(&mut b.socket)?
        .into_iter()
        .map(|answer| (answer.seq, answer.error))
        .collect();
    check_eq!(refused, [(2, Some(Errno::EBUSY))]);
    Ok(())
}

/// The filter by table came later, if at all.
fn chains_of_all_tables_come_whatever_was_asked_for(b: &mut Bench) -> Verdict {
    b.basics()?;
    let theirs = nl_codec::nft::Chain::named("foreign", "theirs");
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named("foreign"))
        .new_(NftMsg::NEW_CHAIN, &theirs)
        .accepted(&mut b.socket)?;
    let mut own = Vec::new();
    b.connection.dump_chains(IP, T, |chain| {
        own.extend(chain.name.map(|it| it.to_string()))
    })?;
    check_eq!(own, ["c"]);
    Ok(())
}

fn elements_of_a_missing_set_are_enoent(b: &mut Bench) -> Verdict {
    b.basics()?;
    let missing = b.connection.dump_elements(IP, T, "none", |_| {});
    check_eq!(
        missing.map_err(|error| error.errno()).err(),
        Some(Some(Errno::ENOENT))
    );
    Ok(())
}

fn a_row_is_read_by_its_key_whatever_else_there_is(b: &mut Bench) -> Verdict {
    with_rows(b, 20_000)?;
    for number in [0, 10_000, 19_999] {
        check_eq!(b.value(number)?, Some(number));
    }
    check_eq!(b.value(20_000)?, None);
    Ok(())
}

/// Whether it happens is a matter of when the kernel gets round to the resizing: told, not judged.
/// Judged is that none is missing when it is read until none comes twice.
fn rows_come_twice_or_not_at_all_while_a_map_grows(b: &mut Bench) -> Verdict {
    b.basics()?;
    let (mut rows, mut again) = (0, 0);
    for _ in 0..12 {
        let mut batch = b.batch();
        let m = batch.set(IP, T, "m")?;
        batch.add_elements(m, (rows..rows + 2_000).map(|number| row(number, number)))?;
        b.commit(batch)?;
        rows += 2_000;
        let mut found = 0;
        let dump = b.connection.dump_elements(IP, T, "m", |_| found += 1)?;
        check_eq!(found, rows);
        again += dump.passes - 1;
    }
    b.note(format!("12 dumps of a growing map, {again} read again"));
    Ok(())
}

/// The walk starts anew for each datagram. Told, not judged: it is a matter of speed.
fn reading_all_rows_of_a_map_takes_longer_than_its_size_says(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut have = 0;
    let mut times = Vec::new();
    for rows in [5_000, 20_000] {
        let mut batch = b.batch();
        let m = batch.set(IP, T, "m")?;
        batch.add_elements(m, (have..rows).map(|number| row(number, number)))?;
        b.commit(batch)?;
        have = rows;
        let started = Instant::now();
        check_eq!(b.count("m")?, usize::try_from(rows)?);
        times.push(started.elapsed());
    }
    if let [small, big] = times.as_slice() {
        let ratio = big.as_secs_f64() / small.as_secs_f64();
        b.note(format!(
            "20,000 rows take {ratio:.1} times as long as 5,000"
        ));
    }
    Ok(())
}
