//! The batch's operations on the running kernel.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code outside #[test] functions"
)]

mod support;

use std::io::IoSlice;

use nft_batch::{
    Batch, BatchError, BatchOptions, By, Capabilities, Connection, Errno, Socket, Transport, Wait,
};
use nl_codec::SliceCursor;
use nl_codec::msg::{Flags, Head, NftMsg, put_message};
use nl_codec::nft::chain::{ChainHook, Hook};
use nl_codec::nft::expr::{Counter, Expr, Immediate, Lookup, ObjType, Payload, PayloadBase};
use nl_codec::nft::table::TableFlags;
use nl_codec::nft::{Exprs, Obj, Register, Rule, Set, Table, Verdict};
use support::*;

const REG: Register = Register::R1;

fn counter() -> [Expr<'static>; 1] {
    [Counter::default().into()]
}

fn rule<'a>(chain: &'a str, exprs: &'a [Expr<'a>]) -> Rule<'a> {
    Rule::new(T, chain, Exprs::new(exprs))
}

fn chains(connection: &mut Connection) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let dump = connection.dump_chains(IP, T, |chain| {
        found.push((chain.name.unwrap().to_string(), chain.handle.unwrap()));
    });
    assert!(dump.is_ok());
    found
}

/// Names of the first expression of each rule, and the rules' handles.
fn rules(connection: &mut Connection, chain: &str) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    let dump = connection.dump_rules(IP, T, Some(chain), |rule| {
        let first = rule.exprs.unwrap().iter().next().unwrap().unwrap();
        found.push((first.name().to_string(), rule.handle.unwrap()));
    });
    assert!(dump.is_ok());
    found
}

#[test]
fn everything_goes_by_handle_too() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        b.add_set(IP, &set("m", true, None)).unwrap();
        b.add_object(IP, &Obj::new(T, "o", Counter::default()))
            .unwrap();
        commit(&mut connection, b);
        let chain = chains(&mut connection)[0].1;
        let set = connection.set_info(IP, T, "m", |set| set.handle).unwrap();
        let mut object = None;
        connection
            .dump_objects(IP, T, |it| object = it.handle)
            .unwrap();

        let mut b = batch();
        b.delete_chain(IP, T, By::Handle(chain)).unwrap();
        b.delete_set(IP, T, By::Handle(set.unwrap())).unwrap();
        b.delete_object(IP, T, ObjType::COUNTER, By::Handle(object.unwrap()))
            .unwrap();
        commit(&mut connection, b);
        assert_eq!(chains(&mut connection), []);

        let mut handle = None;
        connection
            .dump_tables(IP, |_, table| handle = table.handle)
            .unwrap();
        let mut b = batch();
        b.delete_table(IP, By::Handle(handle.unwrap())).unwrap();
        commit(&mut connection, b);
        let missing = connection.dump_sets(IP, T, |_| ()).unwrap_err();
        assert_eq!(missing.errno(), Some(Errno::ENOENT));
    });
}

#[test]
fn rules_are_appended_inserted_placed_and_replaced() {
    with_connection(|mut connection| {
        let counter = counter();
        let load: [Expr<'_>; 1] = [Payload::load(PayloadBase::NETWORK, 16, 4, REG).into()];
        let verdict: [Expr<'_>; 1] =
            [Immediate::verdict(Verdict::code(nl_codec::nft::VerdictCode::RETURN)).into()];
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("c")).unwrap();
        b.add_rule(IP, &rule("c", &counter)).unwrap();
        b.insert_rule(IP, &rule("c", &load)).unwrap();
        commit(&mut connection, b);
        let before = rules(&mut connection, "c");
        let names = |rules: &[(String, u64)]| -> Vec<String> {
            rules.iter().map(|(name, _)| name.clone()).collect()
        };
        assert_eq!(names(&before), ["payload", "counter"]);

        let mut b = batch();
        let mut placed = rule("c", &verdict);
        placed.position = Some(before[0].1);
        b.add_rule(IP, &placed).unwrap();
        let mut replaced = rule("c", &load);
        replaced.handle = Some(before[1].1);
        b.replace_rule(IP, &replaced).unwrap();
        commit(&mut connection, b);
        let after = rules(&mut connection, "c");
        assert_eq!(names(&after), ["payload", "immediate", "payload"]);

        let mut b = batch();
        b.delete_rule(IP, T, "c", after[1].1).unwrap();
        commit(&mut connection, b);
        assert_eq!(names(&rules(&mut connection, "c")), ["payload", "payload"]);

        let mut b = batch();
        b.add_rule(IP, &rule("c", &counter)).unwrap();
        b.flush_chain(IP, T, "c").unwrap();
        commit(&mut connection, b);
        assert_eq!(names(&rules(&mut connection, "c")), ["counter"]);
    });
}

/// A set used by a chain's rule and the chain used by the set's row go together.
#[test]
fn sets_and_chains_that_use_each_other_go_in_one_batch() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &chain("user")).unwrap();
        b.add_chain(IP, &chain("target")).unwrap();
        let v = b.add_set(IP, &vmap("v")).unwrap();
        let goto = nl_codec::nft::Data::Verdict(Verdict::goto("target"));
        let elem = nl_codec::nft::Elem::mapping(nl_codec::nft::Value::u32_be(1), goto);
        b.add_elements(v, [elem]).unwrap();
        let mut lookup = Lookup::map(v.name_in_expr("v"), REG, Register::VERDICT);
        lookup.set_id = v.id();
        let exprs = [
            Payload::load(PayloadBase::NETWORK, 16, 4, REG).into(),
            lookup.into(),
        ];
        b.add_rule(IP, &rule("user", &exprs)).unwrap();
        commit(&mut connection, b);

        let mut b = batch();
        b.delete_chain(IP, T, By::Name("user")).unwrap();
        b.delete_chain(IP, T, By::Name("target")).unwrap();
        b.delete_set(IP, T, By::Name("v")).unwrap();
        commit(&mut connection, b);
        assert_eq!(chains(&mut connection), []);
    });
}

/// kubernetes/kubernetes#123162:
/// a base chain gets another priority in one transaction, with a barrier in between.
#[test]
fn a_base_chain_is_replaced_across_a_barrier() {
    with_connection(|mut connection| {
        let counter = counter();
        let base = |priority| {
            let hook = ChainHook::new(Hook::PREROUTING, priority);
            chain("b").hooked("nat", hook)
        };
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        b.add_chain(IP, &base(-110)).unwrap();
        b.add_rule(IP, &rule("b", &counter)).unwrap();
        commit(&mut connection, b);
        let generation = connection.generation().unwrap();

        let mut b = batch();
        b.delete_chain(IP, T, By::Name("b")).unwrap();
        b.barrier();
        b.add_chain(IP, &base(0)).unwrap();
        b.add_rule(IP, &rule("b", &counter)).unwrap();
        commit(&mut connection, b);
        assert_eq!(connection.generation().unwrap(), generation + 1);
        let mut priority = None;
        connection
            .dump_chains(IP, T, |chain| {
                priority = chain.hook.and_then(|it| it.priority)
            })
            .unwrap();
        assert_eq!(priority, Some(0));
        assert_eq!(rules(&mut connection, "b").len(), 1);
    });
}

/// ovn-kubernetes/ovn-kubernetes#4892: with the DESTROY messages and without.
#[test]
fn destroying_what_is_there_and_what_is_not() {
    with_connection(|mut connection| {
        let capabilities = Capabilities::probe(&mut connection).unwrap();
        let ways: &[bool] = if capabilities.destroy {
            &[true, false]
        } else {
            test_support::skip("this kernel has no DESTROY messages");
            &[false]
        };
        for destroy in ways.iter().copied() {
            for exists in [false, true] {
                if exists {
                    let mut b = batch();
                    b.add_table(IP, &table()).unwrap();
                    b.add_chain(IP, &chain("c")).unwrap();
                    b.add_rule(IP, &rule("c", &counter())).unwrap();
                    let m = b.add_set(IP, &set("m", true, None)).unwrap();
                    b.add_elements(m, [row(1, 1)]).unwrap();
                    commit(&mut connection, b);
                }
                let mut b = Batch::new(BatchOptions::default().destroy(destroy));
                b.add_table(IP, &table()).unwrap();
                b.destroy_chain(IP, T, "c").unwrap();
                b.destroy_set(IP, &set("m", true, None)).unwrap();
                commit(&mut connection, b);
                assert_eq!(chains(&mut connection), []);
                let mut sets = 0;
                connection.dump_sets(IP, T, |_| sets += 1).unwrap();
                assert_eq!(sets, 0);
                for _ in 0..2 {
                    let mut b = Batch::new(BatchOptions::default().destroy(destroy));
                    b.destroy_table(IP, T).unwrap();
                    commit(&mut connection, b);
                }
            }
        }
        with_map(&mut connection);
        let mut b = Batch::new(capabilities.batch_options());
        let m = map(&mut b);
        if !capabilities.destroy {
            let error = b.destroy_elements(m, [key(1)]).unwrap_err();
            assert_eq!(error, BatchError::Unsupported("destroy elements"));
            return;
        }
        b.destroy_elements(m, [key(1), key(2)]).unwrap();
        b.add_elements(m, [row(2, 2)]).unwrap();
        b.destroy_object(IP, T, ObjType::COUNTER, "none").unwrap();
        b.destroy_flowtable(IP, T, "none").unwrap();
        commit(&mut connection, b);
        assert_eq!(lookup(&mut connection, 2), Some(vec![0, 0, 0, 2]));
    });
}

/// A table with another owner is EPERM, and the error says so.
#[test]
fn a_table_with_another_owner_is_refused() {
    with_connection(|mut connection| {
        if !Capabilities::probe(&mut connection).unwrap().table_owner {
            return test_support::skip("this kernel has no tables with an owner");
        }
        let mut owned = table();
        owned.flags = Some(TableFlags::OWNER);
        let mut b = batch();
        b.add_table(IP, &owned).unwrap();
        commit(&mut connection, b);

        let mut other = Connection::open().unwrap();
        let mut b = batch();
        let op = b.add_chain(IP, &chain("c")).unwrap();
        let rejected = rejected(&mut other, b);
        let error = &rejected.errors[0];
        assert_eq!((error.errno, error.op), (Errno::EPERM, Some(op)));
        assert_eq!(
            error.to_string(),
            "newchain ip t c: EPERM (the table has another owner) at NFTA_CHAIN_TABLE"
        );
    });
}

/// Every bad message is reported, each with its own operation.
#[test]
fn all_errors_of_a_batch_are_reported() {
    with_connection(|mut connection| {
        with_map(&mut connection);
        let mut b = batch();
        let mut bad = Vec::new();
        for n in 0..10 {
            b.add_chain(IP, &chain(&format!("c{n}"))).unwrap();
            let missing = format!("missing{n}");
            let exprs = counter();
            bad.push(b.add_rule(IP, &rule(&missing, &exprs)).unwrap());
        }
        let rejected = rejected(&mut connection, b);
        assert!(rejected.complete);
        let ops: Vec<_> = rejected
            .errors
            .iter()
            .map(|error| error.op.unwrap())
            .collect();
        assert_eq!(ops, bad);
        for (n, error) in rejected.errors.iter().enumerate() {
            assert_eq!(error.errno, Errno::ENOENT);
            assert_eq!(error.object, Some(format!("missing{n}")));
            let attribute = error.attribute.as_ref().unwrap();
            assert_eq!(attribute.name(), Some("NFTA_RULE_CHAIN"));
        }
        assert_eq!(chains(&mut connection), []);
    });
}

/// An error in a set of the same batch, which its messages name by id, names the set.
#[test]
fn errors_about_new_sets_name_them() {
    with_connection(|mut connection| {
        let mut b = batch();
        b.add_table(IP, &table()).unwrap();
        let m = b.add_set(IP, &set("brand-new", true, None)).unwrap();
        b.add_elements(m, [row(1, 1), row(1, 2)]).unwrap();
        let rejected = rejected(&mut connection, b);
        assert_eq!(rejected.errors[0].object.as_deref(), Some("brand-new"));
        // A table that does not exist.
        let mut b = batch();
        let m = b.set(IP, "nowhere", "m").unwrap();
        b.add_elements(m, [row(1, 1)]).unwrap();
        let rejected = support::rejected(&mut connection, b);
        assert_eq!(rejected.errors[0].errno, Errno::ENOENT);
        assert_eq!(rejected.errors[0].table.as_deref(), Some("nowhere"));
    });
}

/// Sets with the same name in two tables and families are different sets.
#[test]
fn sets_are_told_apart_by_table_and_family() {
    with_connection(|mut connection| {
        let ip6 = nl_codec::msg::Family::IPV6;
        let mut b = batch();
        for (family, name) in [(IP, "t"), (IP, "u"), (ip6, "t")] {
            b.add_table(family, &Table::named(name)).unwrap();
            let mut set = set("m", true, None);
            set.table = Some(name.into());
            let set = b.add_set(family, &set).unwrap();
            let data = if family == ip6 { 6 } else { 4 };
            b.add_elements(set, [row(1, data)]).unwrap();
        }
        commit(&mut connection, b);
        let mut read = |family, table| {
            let read = connection.element(family, table, "m", &key(1), |elem| {
                format!("{:?}", elem.data.unwrap())
            });
            read.unwrap().unwrap()
        };
        assert_eq!(read(IP, "t"), "Value(0x00000004)");
        assert_eq!(read(IP, "u"), "Value(0x00000004)");
        assert_eq!(read(ip6, "t"), "Value(0x00000006)");
    });
}

/// MSG_TRUNC is seen, and nobody but the kernel is taken for the kernel.
#[test]
fn the_socket_tells_truncated_datagrams_and_their_senders() {
    in_new_netns(|| {
        let mut socket = Socket::open().unwrap();
        let mut request = [0; 64];
        let mut cursor = SliceCursor::new(&mut request);
        let head = Head::nft(NftMsg::GET_GEN, nl_codec::msg::Family::UNSPEC);
        put_message(&mut cursor, &head, &Set::default()).unwrap();
        let request = cursor.written();
        let mut buf = [0; 1024];
        assert_eq!(socket.recv(&mut buf, Wait::No), Err(Errno::EAGAIN));

        socket
            .send(&[IoSlice::new(&request[..7]), IoSlice::new(&request[7..])])
            .unwrap();
        let short = socket.recv(&mut buf[..16], Wait::No).unwrap();
        assert!(short.truncated);
        assert_eq!((short.len, short.sender), (16, 0));
        assert_eq!(socket.recv(&mut buf, Wait::No), Err(Errno::EAGAIN));

        socket.send(&[IoSlice::new(request)]).unwrap();
        let whole = socket.recv(&mut buf, Wait::No).unwrap();
        assert!(!whole.truncated);
        let flags = Flags::from_bits_retain(u16::from_ne_bytes([buf[6], buf[7]]));
        assert!(!flags.contains(Flags::ACK));

        let small = socket.reserve(1).unwrap();
        let large = socket.reserve(100 << 20).unwrap();
        assert!(large >= 100 << 20 && large > small);
    });
}
