//! How a batch is answered.

use nft_batch::{Errno, Transport as _};
use nl_codec::msg::{Flags, NftMsg};
use nl_codec::nft::expr::{Hash, Nat, NfProto, Numgen};
use nl_codec::nft::{Chain, Exprs, Register, Rule};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, chain, commit, daddr, elements, key, map, row, rule, table, with_id,
};
use crate::case::cases;
use crate::raw::{Raw, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"errors":
    every_message_is_judged,
    an_ack_does_not_mean_a_commit,
    replies_are_queued_when_the_send_is_over,
    the_first_bad_element_of_a_message_is_pointed_at,
    other_data_for_a_key_is_eexist_and_the_same_is_no_change,
    deleting_a_missing_element_is_enoent,
    destroying_a_missing_element_is_no_error,
    registers_that_nothing_wrote_are_refused,
    a_modulus_is_at_least_one_and_must_not_overflow,
    a_chain_that_a_row_leads_to_is_ebusy,
    an_unknown_table_is_enoent_at_each_message,
    the_end_is_acknowledged_after_the_commit,
}

/// Processing does not stop at the first error.
fn every_message_is_judged(b: &mut Bench) -> Verdict {
    b.basics()?;
    let answers = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .plain(NftMsg::DEL_CHAIN, &chain("none"))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 1)]),
        )
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 2)]),
        )
        .plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, &[key(9)]))
        .new_(NftMsg::NEW_CHAIN, &chain("e"))
        .send(&mut b.socket)?;
    check_eq!(
        answers,
        [
            None,
            Some(Errno::ENOENT),
            None,
            Some(Errno::EEXIST),
            Some(Errno::ENOENT),
            None
        ]
    );
    Ok(())
}

fn an_ack_does_not_mean_a_commit(b: &mut Bench) -> Verdict {
    let answers = Raw::new()
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &Chain::named("missing", "c"))
        .send(&mut b.socket)?;
    check_eq!(answers, [None, Some(Errno::ENOENT)]);
    Raw::new()
        .plain(NftMsg::DEL_TABLE, &table())
        .refused_with(&mut b.socket, &[Errno::ENOENT])
}

/// Everything is handled inside `sendmsg`.
fn replies_are_queued_when_the_send_is_over(b: &mut Bench) -> Verdict {
    let (bytes, _) = Raw::new().new_(NftMsg::NEW_TABLE, &table()).bytes(true)?;
    send(&mut b.socket, &bytes)?;
    let mut buf = [0; 256];
    let queued = b.socket.recv(&mut buf, nft_batch::Wait::No);
    check!(queued.is_ok(), "{queued:?}");
    Ok(())
}

/// By the offset of that element in the message, if extended acks are on; later ones are not
/// mentioned.
fn the_first_bad_element_of_a_message_is_pointed_at(b: &mut Bench) -> Verdict {
    b.basics()?;
    let rows = [
        row(1, 1),
        row(2, 2),
        row(3, 3),
        row(4, 4),
        row(2, 0),
        row(3, 0),
    ];
    let answers = Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, &rows))
        .answers(&mut b.socket)?;
    let errors: Vec<_> = answers.iter().filter(|it| it.error.is_some()).collect();
    check_eq!(errors.len(), 1);
    check_eq!(
        answers.first().map(|it| it.error),
        Some(Some(Errno::EEXIST))
    );
    // Headers of 20 bytes, names of 8 each, a header of 4, elements of 28.
    let offset = answers.first().and_then(|it| it.offset);
    check_eq!(offset, Some(20 + 8 + 8 + 4 + 4 * 28));
    Ok(())
}

fn other_data_for_a_key_is_eexist_and_the_same_is_no_change(b: &mut Bench) -> Verdict {
    b.basics()?;
    let put = |data, flags| {
        Raw::new().message(
            NftMsg::NEW_SETELEM,
            flags,
            &elements(Some("m"), None, &[row(1, data)]),
        )
    };
    put(1, Flags::CREATE).accepted(&mut b.socket)?;
    put(1, Flags::CREATE).accepted(&mut b.socket)?;
    put(1, Flags::CREATE | Flags::EXCL).refused_with(&mut b.socket, &[Errno::EEXIST])?;
    put(2, Flags::CREATE).refused_with(&mut b.socket, &[Errno::EEXIST])?;
    check_eq!(b.value(1)?, Some(1));
    Ok(())
}

fn deleting_a_missing_element_is_enoent(b: &mut Bench) -> Verdict {
    b.basics()?;
    Raw::new()
        .plain(NftMsg::DEL_SETELEM, &elements(Some("m"), None, &[key(1)]))
        .refused_with(&mut b.socket, &[Errno::ENOENT])
}

fn destroying_a_missing_element_is_no_error(b: &mut Bench) -> Verdict {
    Bench::need(b.can.destroy, "DESTROY messages (Linux 6.3)")?;
    b.basics()?;
    Raw::new()
        .plain(
            NftMsg::DESTROY_SETELEM,
            &elements(Some("m"), None, &[key(1)]),
        )
        .plain(NftMsg::DESTROY_CHAIN, &chain("none"))
        .accepted(&mut b.socket)
}

/// Since Linux 6.12 or so when the rule is added; before, what was there by chance was read.
fn registers_that_nothing_wrote_are_refused(b: &mut Bench) -> Verdict {
    b.basics()?;
    let hole = [
        daddr(REG),
        Nat::dnat(NfProto::IPV4, Register::R3, None).into(),
    ];
    let answers = Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &hole))
        .send(&mut b.socket)?;
    if answers == [None] && !b.can.kernel.at_least(6, 13) {
        return Err(Stop::skip("this kernel zeroes registers and does not look"));
    }
    check_eq!(answers, [Some(Errno::ENODATA)]);
    Ok(())
}

fn a_modulus_is_at_least_one_and_must_not_overflow(b: &mut Bench) -> Verdict {
    b.basics()?;
    let numgen = |modulus, offset| {
        let exprs = [Numgen::random(modulus, REG).with_offset(offset).into()];
        Raw::new().new_(NftMsg::NEW_RULE, &Rule::new(T, "c", Exprs::new(&exprs)))
    };
    numgen(1, 0).accepted(&mut b.socket)?;
    numgen(u32::MAX, 0).accepted(&mut b.socket)?;
    numgen(0, 0).refused_with(&mut b.socket, &[Errno::ERANGE])?;
    numgen(2, u32::MAX).refused_with(&mut b.socket, &[Errno::EOVERFLOW])?;
    let hash = [daddr(REG), Hash::jenkins(REG, 4, 0, 1, Register::R2).into()];
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &hash))
        .refused_with(&mut b.socket, &[Errno::ERANGE])
}

/// Row and chain can go in one batch.
fn a_chain_that_a_row_leads_to_is_ebusy(b: &mut Bench) -> Verdict {
    b.basics()?;
    let goto = nl_codec::nft::Verdict::goto("d");
    let rows = [nl_codec::nft::Elem::mapping(
        nl_codec::nft::Value::u32_be(1),
        nl_codec::nft::Data::Verdict(goto),
    )];
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .new_(NftMsg::NEW_SET, &with_id(crate::bench::vmap("v"), 7))
        .new_(NftMsg::NEW_SETELEM, &elements(None, Some(7), &rows))
        .accepted(&mut b.socket)?;
    Raw::new()
        .plain(NftMsg::DEL_CHAIN, &chain("d"))
        .refused_with(&mut b.socket, &[Errno::EBUSY])?;
    Raw::new()
        .plain(NftMsg::DEL_SETELEM, &elements(Some("v"), None, &[key(1)]))
        .plain(NftMsg::DEL_CHAIN, &chain("d"))
        .accepted(&mut b.socket)
}

fn an_unknown_table_is_enoent_at_each_message(b: &mut Bench) -> Verdict {
    let answers = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain("c"))
        .new_(NftMsg::NEW_SET, &with_id(map("m"), 1))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(Some("m"), None, &[row(1, 1)]),
        )
        .send(&mut b.socket)?;
    check_eq!(answers, [Some(Errno::ENOENT); 3]);
    Ok(())
}

/// Since Linux 6.10; it is the only answer that proves a commit.
fn the_end_is_acknowledged_after_the_commit(b: &mut Bench) -> Verdict {
    Bench::need(
        b.can.batch_end_ack,
        "acks for the end of a batch (Linux 6.10)",
    )?;
    let mut batch = b.batch();
    batch.add_table(IP, &table())?;
    commit(&mut b.connection, batch)?;
    check!(b.connection.acknowledges_end());
    Ok(())
}
