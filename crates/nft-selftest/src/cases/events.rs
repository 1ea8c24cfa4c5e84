//! What is told to those who listen.

use core::time::Duration;
use std::time::Instant;

use nft_batch::{Errno, EventError, Events};
use nl_codec::msg::NftMsg;

use crate::Stop;
use crate::bench::{Bench, IP, T, chain, elements, key, map, row, table, with_id};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::{Verdict, check, check_eq};

cases! {"events":
    a_transaction_is_told_as_one_group_with_its_generation_at_the_end,
    a_refused_batch_tells_nothing,
    a_listener_that_is_too_slow_is_told_so,
    other_namespaces_hear_nothing,
}

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

fn kinds(events: &mut Events) -> Result<(u32, Vec<NftMsg>), Stop> {
    let group = events.next_group(soon())?;
    let kinds = group.iter().filter_map(|msg| msg.header.kind.as_nft());
    Ok((group.generation, kinds.collect()))
}

fn a_transaction_is_told_as_one_group_with_its_generation_at_the_end(b: &mut Bench) -> Verdict {
    let mut events = Events::open()?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .new_(NftMsg::NEW_SET, &with_id(map("m"), 1))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(None, Some(1), &[row(1, 1), row(2, 2)]),
        )
        .accepted(&mut b.socket)?;
    Raw::new()
        .plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, &[key(1)]))
        .accepted(&mut b.socket)?;
    let now = b.connection.generation()?;
    let (generation, kinds_seen) = kinds(&mut events)?;
    check_eq!(generation, now - 1);
    // One message an element.
    check_eq!(
        kinds_seen,
        [
            NftMsg::NEW_TABLE,
            NftMsg::NEW_CHAIN,
            NftMsg::NEW_SET,
            NftMsg::NEW_SETELEM,
            NftMsg::NEW_SETELEM
        ]
    );
    check_eq!(kinds(&mut events)?, (now, vec![NftMsg::DEL_SETELEM]));
    Ok(())
}

fn nothing(events: &mut Events) -> Verdict {
    let next = events.try_next_group().map(|group| group.generation);
    check_eq!(next, Err(EventError::TimedOut));
    Ok(())
}

fn a_refused_batch_tells_nothing(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut events = Events::open()?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .plain(NftMsg::DEL_CHAIN, &chain("none"))
        .refused_with(&mut b.socket, &[Errno::ENOENT])?;
    nothing(&mut events)
}

fn a_listener_that_is_too_slow_is_told_so(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut events = Events::open()?;
    let mut batch = b.batch();
    for round in 0..4 {
        let m = batch.set(IP, T, "m")?;
        let numbers = round * 40_000..(round + 1) * 40_000;
        batch.add_elements(m, numbers.map(|number| row(number, number)))?;
        batch = b.commit(batch)?.reuse();
    }
    let mut overrun = false;
    loop {
        match events.try_next_group() {
            Ok(_) => {}
            Err(EventError::Overrun) => overrun = true,
            Err(EventError::TimedOut) => break,
            Err(error) => return Err(error.into()),
        }
    }
    check!(overrun);
    Ok(())
}

fn other_namespaces_hear_nothing(b: &mut Bench) -> Verdict {
    let elsewhere = netns_lab::Namespace::new("elsewhere")?;
    let mut events = elsewhere.run(Events::open)??;
    b.basics()?;
    nothing(&mut events)
}
