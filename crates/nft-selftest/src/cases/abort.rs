//! A batch is all or nothing.

use nft_batch::Errno;
use nl_codec::msg::{Family, NftMsg};
use nl_codec::nft::expr::{Nat, NfProto};
use nl_codec::nft::{Chain, Table};

use crate::bench::{
    Bench, IP, REG, T, chain, daddr, elements, key, map, output, row, rule, with_id,
};
use crate::case::cases;
use crate::raw::{Raw, answers, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"abort":
    a_failed_batch_leaves_nothing,
    a_failed_validation_leaves_nothing,
    a_batch_without_an_end_is_judged_and_dropped,
    a_failed_batch_drops_what_it_would_have_done_to_other_tables,
}

fn nothing_but_the_basics(b: &mut Bench) -> Verdict {
    let (mut tables, mut chains, mut sets) = (0, 0, 0);
    b.connection
        .dump_tables(Family::UNSPEC, |_, _| tables += 1)?;
    b.connection.dump_chains(IP, T, |_| chains += 1)?;
    b.connection.dump_sets(IP, T, |_| sets += 1)?;
    check_eq!((tables, chains, sets), (1, 1, 1));
    check!(b.rule_handles("c")?.is_empty());
    check_eq!(b.count("m")?, 1);
    check_eq!(b.value(1)?, Some(1));
    // What the batch referred to is in use no more.
    let uses = b.connection.table_info(IP, T, |table| table.in_use)?;
    check_eq!(uses, Some(2));
    Raw::new()
        .plain(NftMsg::DEL_CHAIN, &chain("c"))
        .plain(NftMsg::DEL_SET, &nl_codec::nft::Set::named(T, "m"))
        .accepted(&mut b.socket)
}

fn with_a_row(b: &mut Bench) -> Verdict {
    b.basics()?;
    Raw::new()
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 1)]),
        )
        .accepted(&mut b.socket)
}

fn changes(raw: Raw) -> Raw {
    let exprs = [daddr(REG)];
    raw.new_(NftMsg::NEW_TABLE, &Table::named("another"))
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .new_(NftMsg::NEW_SET, &with_id(map("x"), 7))
        .plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, &[key(1)]))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 2), row(2, 2)]),
        )
}

fn a_failed_batch_leaves_nothing(b: &mut Bench) -> Verdict {
    with_a_row(b)?;
    changes(Raw::new())
        .plain(NftMsg::DEL_CHAIN, &chain("none"))
        .refused_with(&mut b.socket, &[Errno::ENOENT])?;
    nothing_but_the_basics(b)
}

/// A nat statement in a chain that is no nat chain is found when everything is done.
fn a_failed_validation_leaves_nothing(b: &mut Bench) -> Verdict {
    with_a_row(b)?;
    let exprs = [daddr(REG), Nat::dnat(NfProto::IPV4, REG, None).into()];
    let answers = changes(Raw::new())
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_RULE, &rule("base", &exprs))
        .send(&mut b.socket)?;
    let errors: Vec<_> = answers.into_iter().flatten().collect();
    check_eq!(errors, [Errno::EOPNOTSUPP]);
    nothing_but_the_basics(b)
}

fn a_batch_without_an_end_is_judged_and_dropped(b: &mut Bench) -> Verdict {
    with_a_row(b)?;
    let (bytes, count) = changes(Raw::new()).bytes(false)?;
    send(&mut b.socket, &bytes)?;
    let good = answers(&mut b.socket)?;
    check!(good.iter().all(|it| it.error.is_none()), "{good:?}");
    let (bytes, bad) = changes(Raw::new())
        .plain(NftMsg::DEL_CHAIN, &chain("none"))
        .bytes(false)?;
    send(&mut b.socket, &bytes)?;
    let judged = answers(&mut b.socket)?;
    let errors: Vec<_> = judged
        .iter()
        .filter_map(|it| Some((it.seq, it.error?)))
        .collect();
    check_eq!(errors, [(bad, Errno::ENOENT)]);
    check_eq!(bad, count + 1);
    nothing_but_the_basics(b)
}

fn a_failed_batch_drops_what_it_would_have_done_to_other_tables(b: &mut Bench) -> Verdict {
    with_a_row(b)?;
    let foreign = Chain::named("foreign", "c");
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named("foreign"))
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &foreign)
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 2)]),
        )
        .refused_with(&mut b.socket, &[Errno::EEXIST])?;
    let mut chains = 0;
    b.connection.dump_chains(IP, "foreign", |_| chains += 1)?;
    check_eq!(chains, 0);
    Ok(())
}
