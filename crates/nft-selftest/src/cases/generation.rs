//! The number of the ruleset.

use nft_batch::Errno;
use nl_codec::msg::{Family, NftMsg};
use nl_codec::nft::Table;

use crate::bench::{Bench, IP, chain};
use crate::case::cases;
use crate::raw::Raw;
use crate::verdict::{Verdict, check_eq};

cases! {"generation":
    each_commit_advances_it_by_one,
    an_empty_batch_leaves_it,
    a_refused_batch_leaves_it,
    it_is_that_of_the_whole_namespace,
    a_stale_one_is_erestart_for_the_batch,
}

fn each_commit_advances_it_by_one(b: &mut Bench) -> Verdict {
    let before = b.connection.generation()?;
    b.basics()?;
    check_eq!(b.connection.generation()?, before + 1);
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .accepted(&mut b.socket)?;
    check_eq!(b.connection.generation()?, before + 2);
    Ok(())
}

fn an_empty_batch_leaves_it(b: &mut Bench) -> Verdict {
    b.basics()?;
    let before = b.connection.generation()?;
    Raw::new().accepted(&mut b.socket)?;
    check_eq!(b.connection.generation()?, before);
    Ok(())
}

fn a_refused_batch_leaves_it(b: &mut Bench) -> Verdict {
    b.basics()?;
    let before = b.connection.generation()?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .plain(NftMsg::DEL_CHAIN, &chain("none"))
        .refused_with(&mut b.socket, &[Errno::ENOENT])?;
    check_eq!(b.connection.generation()?, before);
    Ok(())
}

fn it_is_that_of_the_whole_namespace(b: &mut Bench) -> Verdict {
    b.basics()?;
    let before = b.connection.generation()?;
    Raw::of(Family::IPV6, None)
        .new_(NftMsg::NEW_TABLE, &Table::named("of another family"))
        .accepted(&mut b.socket)?;
    check_eq!(b.connection.generation()?, before + 1);
    Ok(())
}

/// Answered with the number of the begin message; nothing is applied.
fn a_stale_one_is_erestart_for_the_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    let stale = b.connection.generation()?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .accepted(&mut b.socket)?;
    let add = |generation| Raw::of(IP, generation).new_(NftMsg::NEW_CHAIN, &chain("e"));
    let refused = add(Some(stale)).answers(&mut b.socket)?;
    let seen: Vec<_> = refused.iter().map(|it| (it.seq, it.error)).collect();
    check_eq!(seen, [(0, Some(Errno::ERESTART))]);
    check_eq!(b.connection.generation()?, stale + 1);
    add(Some(stale + 1)).accepted(&mut b.socket)
}
