//! What is told to those who listen.

use core::time::Duration;
use std::time::Instant;

use nft_batch::{Errno, EventError, Events, Socket, Transport as _};
use nl_codec::msg::NftMsg;
use rustix::time::{ClockId, clock_gettime};

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
    a_transaction_is_told_with_the_port_of_who_sent_it,
    a_listener_makes_a_load_slower,
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

fn a_transaction_is_told_with_the_port_of_who_sent_it(b: &mut Bench) -> Verdict {
    let mut events = Events::open()?;
    b.basics()?;
    let ours = events.next_group(soon())?.port;
    check_eq!(ours, b.socket.port());
    let mut other = Socket::open()?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .accepted(&mut other)?;
    let theirs = events.next_group(soon())?.port;
    check_eq!(theirs, other.port());
    check!(ours != theirs);
    Ok(())
}

/// The CPU time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

/// A message is made for each row, whether the listener reads it or not, and whatever network namespace
/// it is in: the kernel looks whether anybody listens to the group (`netlink_has_listeners`).
fn a_listener_makes_a_load_slower(b: &mut Bench) -> Verdict {
    const ROWS: u32 = 20_000;
    /// Twice or more, where it was measured.
    const CLEAR: f64 = 1.3;
    const PATIENCE: Duration = Duration::from_secs(20);
    let started = Instant::now();
    b.basics()?;
    let load = |b: &mut Bench| {
        let mut batch = b.batch();
        let m = batch.set(IP, T, "m")?;
        batch.add_elements(m, (0..ROWS).map(|number| row(number, number)))?;
        let mut sealed = batch.seal();
        // All of it is done inside the call, and others do not count.
        let before = thread_time();
        let outcome = b.connection.commit(&mut sealed);
        let time = thread_time().saturating_sub(before);
        check!(outcome.is_committed(), "{outcome}");
        let mut batch = b.batch();
        let m = batch.set(IP, T, "m")?;
        batch.flush_set(m)?;
        b.commit(batch)?;
        Ok::<_, Stop>(time)
    };
    let (mut alone, mut heard) = (Duration::MAX, Duration::MAX);
    // What disturbs makes them longer, never shorter.
    for round in 0..30 {
        alone = alone.min(load(b)?);
        let events = Events::open()?;
        heard = heard.min(load(b)?);
        drop(events);
        let is_clear = heard > alone.mul_f64(CLEAR);
        if round > 3 && (is_clear || started.elapsed() > PATIENCE) {
            break;
        }
    }
    b.note(format!(
        "{ROWS} rows: {alone:.1?}, with a listener {heard:.1?}"
    ));
    if heard < alone.mul_f64(CLEAR) {
        return Err(Stop::skip(
            "no clear difference: somebody may listen already, in this network namespace or another",
        ));
    }
    Ok(())
}
