//! Lengths and numbers that the kernel refuses to exceed.

use std::io::IoSlice;
use std::thread;

use nft_batch::{Errno, Outcome, Socket, Transport as _};
use nl_codec::msg::NftMsg;
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{Dynset, DynsetOp, Immediate, Lookup, Payload, PayloadBase};
use nl_codec::nft::set::{SetField, SetFlags};
use nl_codec::nft::{Data, Elem, Register, Table, Value, Verdict as NftVerdict};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};

use crate::Stop;
use crate::bench::{
    Bench, IP, REG, T, chain, daddr, desc, elements, map, output, row, rule, set, sized, table,
    vmap, with_id,
};
use crate::case::cases;
use crate::raw::{Raw, send};
use crate::verdict::{Verdict, check, check_eq};

cases! {"limits":
    names_have_255_bytes_at_most,
    userdata_has_256_bytes_at_most,
    keys_and_data_have_64_bytes_at_most,
    a_concatenation_has_16_fields_at_most,
    the_fields_of_a_concatenation_must_fill_the_key,
    a_rule_has_128_expressions_at_most,
    registers_end_at_23,
    chains_nest_16_deep,
    chains_that_loop_are_refused,
    a_map_that_leads_to_a_chain_that_looks_it_up_is_a_loop,
    a_full_set_is_enfile,
    a_set_that_grows_takes_rows_in_the_next_batch,
    a_set_that_rules_add_to_holds_65535_by_default,
    a_message_takes_2340_small_elements,
    a_datagram_must_fit_the_send_buffer,
    the_send_buffer_of_the_unprivileged_ends_at_twice_wmem_max,
}

fn names_have_255_bytes_at_most(b: &mut Bench) -> Verdict {
    let (longest, longer) = ("x".repeat(255), "x".repeat(256));
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named(&longest))
        .new_(NftMsg::NEW_TABLE, &table())
        .new_(NftMsg::NEW_CHAIN, &chain(&longest))
        .new_(NftMsg::NEW_SET, &with_id(map(&longest), 1))
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_TABLE, &Table::named(&longer))
        .refused_with(&mut b.socket, &[Errno::ERANGE])?;
    Raw::new()
        .new_(NftMsg::NEW_CHAIN, &chain(&longer))
        .refused_with(&mut b.socket, &[Errno::ERANGE])?;
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(map(&longer), 1))
        .refused_with(&mut b.socket, &[Errno::ERANGE])
}

fn userdata_has_256_bytes_at_most(b: &mut Bench) -> Verdict {
    b.basics()?;
    let bytes = [0; 257];
    let with = |len: usize| {
        let mut set = with_id(map("u"), 7);
        set.userdata = bytes.get(..len);
        Raw::new().new_(NftMsg::NEW_SET, &set)
    };
    with(256).accepted(&mut b.socket)?;
    with(257).refused_with(&mut b.socket, &[Errno::ERANGE])
}

fn keys_and_data_have_64_bytes_at_most(b: &mut Bench) -> Verdict {
    b.basics()?;
    let with = |name: &'static str, key: u32, data: u32| {
        let mut map = with_id(map(name), 7);
        map.key_len = Some(key);
        map.data_len = Some(data);
        Raw::new().new_(NftMsg::NEW_SET, &map)
    };
    with("a", 64, 64).accepted(&mut b.socket)?;
    with("b", 65, 4).refused_with(&mut b.socket, &[Errno::EINVAL])?;
    with("b", 4, 65).refused_with(&mut b.socket, &[Errno::EINVAL])
}

fn concatenated(fields: &[SetField], key_len: u32) -> Raw {
    let mut set = with_id(set("concat"), 7);
    set.flags = Some(SetFlags::INTERVAL | SetFlags::CONCAT);
    set.key_len = Some(key_len);
    set.desc = Some(desc(fields));
    Raw::new().new_(NftMsg::NEW_SET, &set)
}

fn a_concatenation_has_16_fields_at_most(b: &mut Bench) -> Verdict {
    b.basics()?;
    let fields = [SetField::new(4); 17];
    let of = |count: usize| fields.get(..count).unwrap_or_default();
    concatenated(of(16), 64).accepted(&mut b.socket)?;
    let refused = concatenated(of(17), 64).refused(&mut b.socket)?;
    check!(
        [Errno::E2BIG, Errno::EINVAL].contains(&refused),
        "{refused}"
    );
    Ok(())
}

/// Each field is padded to 4 bytes. Not checked before 6.1 or so, where the set came out wrong.
fn the_fields_of_a_concatenation_must_fill_the_key(b: &mut Bench) -> Verdict {
    b.basics()?;
    let fields = [SetField::new(4), SetField::new(1), SetField::new(2)];
    let refused = concatenated(&fields, 16).send(&mut b.socket)?;
    if refused == [None] && !b.can.kernel.at_least(6, 4) {
        return Err(Stop::skip("before Linux 6.4: not checked"));
    }
    check_eq!(refused, [Some(Errno::EINVAL)]);
    concatenated(&fields, 12).accepted(&mut b.socket)
}

fn a_rule_has_128_expressions_at_most(b: &mut Bench) -> Verdict {
    b.basics()?;
    // Each takes 24 bytes or so of the 4,096 of a rule.
    let exprs = vec![daddr(REG); 129];
    let of = |count: usize| exprs.get(..count).unwrap_or_default();
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", of(128)))
        .accepted(&mut b.socket)?;
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", of(129)))
        .refused_with(&mut b.socket, &[Errno::EINVAL])
}

fn registers_end_at_23(b: &mut Bench) -> Verdict {
    b.basics()?;
    let load = |register| [Payload::load(PayloadBase::NETWORK, 16, 4, Register(register)).into()];
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &load(23)))
        .accepted(&mut b.socket)?;
    let refused = Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &load(24)))
        .refused(&mut b.socket)?;
    check_eq!(refused, Errno::ERANGE);
    // Four registers are left, the value takes five.
    let long = [Payload::load(PayloadBase::NETWORK, 0, 20, Register(20)).into()];
    Raw::new()
        .new_(NftMsg::NEW_RULE, &rule("c", &long))
        .refused_with(&mut b.socket, &[Errno::ERANGE])
}

/// A base chain and a row of chains, each of which jumps to the next.
fn nested(b: &mut Bench, jumps: u32) -> Result<Outcome, Stop> {
    let mut batch = b.batch();
    batch.destroy_table(IP, T)?;
    batch.barrier();
    batch.add_table(IP, &table())?;
    batch.add_chain(
        IP,
        &chain("n0").hooked("filter", ChainHook::new(Hook::OUTPUT, 0)),
    )?;
    for number in 1..=jumps {
        batch.add_chain(IP, &chain(&format!("n{number}")))?;
    }
    for number in 0..jumps {
        let (from, to) = (format!("n{number}"), format!("n{}", number + 1));
        let exprs = [Immediate::verdict(NftVerdict::jump(&to)).into()];
        batch.add_rule(IP, &rule(&from, &exprs))?;
    }
    Ok(b.connection.commit(&mut batch.seal()))
}

fn chains_nest_16_deep(b: &mut Bench) -> Verdict {
    let outcome = nested(b, 15)?;
    check!(outcome.is_committed(), "15 jumps: {outcome}");
    match nested(b, 16)? {
        Outcome::Rejected(rejected) => {
            let errors: Vec<_> = rejected.errors.iter().map(|error| error.errno).collect();
            check!(errors.contains(&Errno::EMLINK), "16 jumps: {errors:?}");
        }
        other => return Err(Stop::Fail(format!("16 jumps: {other}"))),
    }
    Ok(())
}

fn chains_that_loop_are_refused(b: &mut Bench) -> Verdict {
    b.basics()?;
    let go = |to| [Immediate::verdict(NftVerdict::goto(to)).into()];
    let refused = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_CHAIN, &chain("d"))
        .new_(NftMsg::NEW_RULE, &rule("base", &go("c")))
        .new_(NftMsg::NEW_RULE, &rule("c", &go("d")))
        .new_(NftMsg::NEW_RULE, &rule("d", &go("c")))
        .send(&mut b.socket)?;
    let errors: Vec<_> = refused.into_iter().flatten().collect();
    check!(!errors.is_empty(), "accepted");
    check!(
        errors
            .iter()
            .all(|it| [Errno::EMLINK, Errno::ELOOP].contains(it)),
        "{errors:?}"
    );
    Ok(())
}

/// Whatever the keys: that no packet takes the way a second time is not seen.
fn a_map_that_leads_to_a_chain_that_looks_it_up_is_a_loop(b: &mut Bench) -> Verdict {
    b.basics()?;
    let look = [daddr(REG), Lookup::map("v", REG, Register::VERDICT).into()];
    let lead = |key| {
        [Elem::mapping(
            Value::u32_be(key),
            Data::Verdict(NftVerdict::goto("c")),
        )]
    };
    let loops = Raw::new()
        .new_(NftMsg::NEW_CHAIN, &output("base"))
        .new_(NftMsg::NEW_SET, &with_id(vmap("v"), 2))
        .new_(NftMsg::NEW_RULE, &rule("base", &look))
        .new_(NftMsg::NEW_RULE, &rule("c", &look))
        .new_(
            NftMsg::NEW_SETELEM,
            &elements(None, Some(2), &lead(0x7f00_0001)),
        )
        .send(&mut b.socket)?;
    let errors: Vec<_> = loops.into_iter().flatten().collect();
    check!(!errors.is_empty(), "accepted");
    check!(
        errors
            .iter()
            .all(|it| [Errno::EMLINK, Errno::ELOOP].contains(it)),
        "{errors:?}"
    );
    Ok(())
}

fn a_full_set_is_enfile(b: &mut Bench) -> Verdict {
    b.basics()?;
    let rows = [row(1, 1), row(2, 2), row(3, 3)];
    let fill = |count: usize| {
        Raw::new()
            .new_(NftMsg::NEW_SET, &with_id(sized(map("two"), 2), 7))
            .new_(
                NftMsg::NEW_SETELEM,
                &elements(Some("two"), None, rows.get(..count).unwrap_or_default()),
            )
    };
    fill(3).refused_with(&mut b.socket, &[Errno::ENFILE])?;
    fill(2).accepted(&mut b.socket)
}

/// The new size counts from the commit on.
fn a_set_that_grows_takes_rows_in_the_next_batch(b: &mut Bench) -> Verdict {
    b.basics()?;
    let grow = with_id(sized(map("two"), 4), 8);
    let rows = [row(1, 1), row(2, 2), row(3, 3)];
    let fill = elements(Some("two"), None, &rows);
    Raw::new()
        .new_(NftMsg::NEW_SET, &with_id(sized(map("two"), 2), 7))
        .accepted(&mut b.socket)?;
    let both = Raw::new()
        .new_(NftMsg::NEW_SET, &grow)
        .new_(NftMsg::NEW_SETELEM, &fill)
        .send(&mut b.socket)?;
    if both.first() == Some(&Some(Errno::EEXIST)) {
        return Err(Stop::skip(
            "the size of a set cannot change (before Linux 6.5)",
        ));
    }
    check_eq!(both, [None, Some(Errno::ENFILE)]);
    Raw::new()
        .new_(NftMsg::NEW_SET, &grow)
        .accepted(&mut b.socket)?;
    let later = Raw::new()
        .new_(NftMsg::NEW_SETELEM, &fill)
        .send(&mut b.socket)?;
    if later == [Some(Errno::ENFILE)] && !b.can.kernel.at_least(6, 5) {
        return Err(Stop::skip(
            "before Linux 6.5: a set keeps the size it was made with",
        ));
    }
    check_eq!(later, [None]);
    Ok(())
}

fn a_set_that_rules_add_to_holds_65535_by_default(b: &mut Bench) -> Verdict {
    b.basics()?;
    let mut dynamic = with_id(set("dynamic"), 7);
    dynamic.flags = Some(SetFlags::EVAL | SetFlags::TIMEOUT);
    let exprs = [
        daddr(REG),
        Dynset::new(DynsetOp::UPDATE, "dynamic", REG).into(),
    ];
    Raw::new()
        .new_(NftMsg::NEW_SET, &dynamic)
        .new_(NftMsg::NEW_RULE, &rule("c", &exprs))
        .accepted(&mut b.socket)?;
    let size = b
        .connection
        .set_info(IP, T, "dynamic", |set| set.desc.and_then(|desc| desc.size))?;
    check_eq!(size, Some(65_535));
    Ok(())
}

/// An attribute has 65,535 bytes at most; an element of a 4-byte key and 4 bytes of data takes 28.
fn a_message_takes_2340_small_elements(b: &mut Bench) -> Verdict {
    b.basics()?;
    let rows: Vec<_> = (0..2_340).map(|number| row(number, number)).collect();
    Raw::new()
        .new_(NftMsg::NEW_SETELEM, &elements(Some("m"), None, &rows))
        .accepted(&mut b.socket)?;
    check_eq!(b.count("m")?, 2_340);
    Ok(())
}

/// `sk_sndbuf` less 32 bytes; a privileged process can ask for more.
fn a_datagram_must_fit_the_send_buffer(b: &mut Bench) -> Verdict {
    b.basics()?;
    let limit = b
        .socket
        .reserve(0)
        .map_err(|errno| Stop::Fail(format!("the size of the send buffer: {errno}")))?;
    let rows: Vec<_> = (0..2_340).map(|number| row(number, number)).collect();
    let list = elements(Some("m"), None, &rows);
    let mut raw = Raw::new();
    for _ in 0..=limit / 65_000 {
        raw = raw.new_(NftMsg::NEW_SETELEM, &list);
    }
    let (bytes, _) = raw.bytes(true)?;
    check!(bytes.len() > limit, "{} bytes", bytes.len());
    let sent = b.socket.send(&[IoSlice::new(&bytes)]);
    check_eq!(sent, Err(Errno::EMSGSIZE));
    check_eq!(b.count("m")?, 0);
    let limit = b
        .socket
        .reserve(bytes.len())
        .map_err(|errno| Stop::Fail(format!("a larger send buffer: {errno}")))?;
    if limit < bytes.len() {
        b.note(format!("not privileged: {limit} bytes at most"));
        return Ok(());
    }
    send(&mut b.socket, &bytes)?;
    crate::raw::answers(&mut b.socket)?;
    check_eq!(b.count("m")?, 2_340);
    Ok(())
}

/// Whoever lacks `CAP_NET_ADMIN` in the first user namespace, root of another one among them, cannot
/// have more. 32 bytes of it are the kernel's.
fn the_send_buffer_of_the_unprivileged_ends_at_twice_wmem_max(b: &mut Bench) -> Verdict {
    const MUCH: usize = 64 << 20;
    let unprivileged = thread::spawn(|| {
        set_capabilities(
            None,
            CapabilitySets {
                effective: CapabilitySet::empty(),
                permitted: CapabilitySet::empty(),
                inheritable: CapabilitySet::empty(),
            },
        )?;
        let mut socket = Socket::open()?;
        let limit = socket.reserve(MUCH);
        limit.map_err(|errno| Stop::Fail(format!("the size of the send buffer: {errno}")))
    });
    let limit = match unprivileged.join() {
        Ok(limit) => limit?,
        Err(panic) => std::panic::resume_unwind(panic),
    };
    b.note(format!("batches of {limit} bytes at most"));
    check!(limit < MUCH, "{limit} bytes");
    match b.wmem_max {
        Some(wmem_max) => check_eq!(limit, 2 * wmem_max - 32),
        None => b.note("net.core.wmem_max cannot be read"),
    }
    Ok(())
}
