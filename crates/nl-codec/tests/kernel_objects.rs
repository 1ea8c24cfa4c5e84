//! What the kernel makes of our messages: every object is created, read back and deleted.
#![allow(clippy::unwrap_used, reason = "a test")]

mod kernel;

use nl_codec::ack::Errno;
use nl_codec::msg::{Body, Family, Flags, Head, NftMsg, put_message};
use nl_codec::nft::chain::{Chain, ChainHook, Device, Devices, Hook, Policy};
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::elem::{ElemFlags, Elems};
use nl_codec::nft::expr::{Connlimit, Counter, Expr, Exprs, Limit, ObjType, Quota, Synproxy};
use nl_codec::nft::flowtable::FlowtableHook;
use nl_codec::nft::obj::{CtExpect, CtHelper, CtTimeout, Obj, ObjData, Timeout};
use nl_codec::nft::set::{SetDesc, SetField, SetFlags};
use nl_codec::nft::table::TableFlags;
use nl_codec::nft::udata::SetInfo;
use nl_codec::nft::{
    Data, DataType, Elem, ElemList, Flowtable, Generation, List, Rule, Set, Table, Udata, Value,
    Verdict, VerdictCode,
};
use nl_codec::{EncodeError, HostU32, SliceCursor};
use test_support::{in_new_netns, skip};

use crate::kernel::{Failure, Kernel};

const T: &str = "t";

/// Puts a message that wants an ack.
fn put<'a>(
    cursor: &mut SliceCursor<'_>,
    msg: NftMsg,
    flags: Flags,
    body: &impl Body<'a>,
) -> Result<(), EncodeError> {
    let head = Head::nft(msg, Family::INET).with_flags(Flags::ACK | flags);
    put_message(cursor, &head, body)
}

fn create<'a>(
    cursor: &mut SliceCursor<'_>,
    msg: NftMsg,
    body: &impl Body<'a>,
) -> Result<(), EncodeError> {
    put(cursor, msg, Flags::CREATE | Flags::EXCL, body)
}

/// A namespace with an empty table.
fn with_table() -> Kernel {
    let kernel = Kernel::new();
    let made = kernel.commit(|batch| create(batch, NftMsg::NEW_TABLE, &Table::named(T)));
    assert_eq!(made, Ok(()));
    kernel
}

/// Reads the one object that `key` names.
fn get<'a>(
    kernel: &Kernel,
    msg: NftMsg,
    key: &impl Body<'a>,
    mut read: impl FnMut(&nl_codec::msg::NfMsg<'_>),
) {
    let mut count = 0;
    let head = Head::nft(msg, Family::INET).with_flags(Flags::ACK);
    let failure = kernel.request(&head, key, |message| {
        count += 1;
        read(message);
    });
    assert_eq!((count, failure), (1, None));
}

#[test]
fn tables() {
    in_new_netns(|| {
        let kernel = Kernel::new();
        let userdata = Udata::with_comment("ours").unwrap();
        let mut table = Table::named(T);
        table.flags = Some(TableFlags::OWNER | TableFlags::PERSIST);
        table.userdata = Some(userdata.as_bytes());
        match kernel.commit(|batch| create(batch, NftMsg::NEW_TABLE, &table)) {
            Ok(()) => {}
            Err((_, failure)) => return skip(&format!("no owned tables: {}", failure.errno)),
        }
        get(&kernel, NftMsg::GET_TABLE, &Table::named(T), |message| {
            let back: Table<'_> = message.body().unwrap();
            assert_eq!(
                (back.name, back.flags, back.userdata),
                (table.name, table.flags, table.userdata)
            );
            assert!(back.owner.is_some() && back.handle.is_some());
        });
        // A second socket may not touch it.
        let other = Kernel::new();
        let denied =
            other.commit(|batch| put(batch, NftMsg::DEL_TABLE, Flags::empty(), &Table::named(T)));
        assert_eq!(denied.unwrap_err().1.errno, Errno::EPERM);
    });
}

#[test]
fn chains_and_rules() {
    in_new_netns(|| {
        let kernel = with_table();
        let userdata = Udata::with_comment("first").unwrap();
        let hook = ChainHook::new(Hook::INPUT, -5);
        let mut base = Chain::named(T, "base").hooked("filter", hook);
        base.policy = Some(Policy::ACCEPT);
        base.userdata = Some(userdata.as_bytes());
        let mut regular = Chain::named(T, "regular");
        regular.id = Some(7);
        let exprs = [Expr::from(Counter::default())];
        let mut first = Rule::new(T, "base", Exprs::new(&exprs));
        first.userdata = Some(userdata.as_bytes());
        let mut by_id = Rule::new(T, "base", Exprs::new(&exprs));
        by_id.chain = None;
        by_id.chain_id = Some(7);
        let made = kernel.commit(|batch| {
            create(batch, NftMsg::NEW_CHAIN, &base)?;
            create(batch, NftMsg::NEW_CHAIN, &regular)?;
            put(
                batch,
                NftMsg::NEW_RULE,
                Flags::CREATE | Flags::APPEND,
                &first,
            )?;
            put(
                batch,
                NftMsg::NEW_RULE,
                Flags::CREATE | Flags::APPEND,
                &by_id,
            )
        });
        assert_eq!(made, Ok(()));

        get(
            &kernel,
            NftMsg::GET_CHAIN,
            &Chain::named(T, "base"),
            |message| {
                let back: Chain<'_> = message.body().unwrap();
                assert_eq!(
                    (back.name, back.kind, back.policy, back.userdata),
                    (base.name, base.kind, base.policy, base.userdata)
                );
                let back = back.hook.unwrap();
                assert_eq!((back.hook, back.priority), (hook.hook, hook.priority));
            },
        );
        let mut rules = Vec::new();
        let head = Head::nft(NftMsg::GET_RULE, Family::INET).with_flags(Flags::DUMP);
        let failure = kernel.request(&head, &Rule::default(), |message| {
            let rule: Rule<'_> = message.body().unwrap();
            let names: Vec<_> = rule
                .exprs
                .unwrap()
                .iter()
                .map(|e| e.unwrap().name().to_string())
                .collect();
            assert_eq!(names, ["counter"]);
            assert!(rule.handle.is_some());
            rules.push((rule.chain.unwrap().to_string(), rule.userdata.is_some()));
        });
        assert_eq!(failure, None);
        assert_eq!(
            rules,
            [("base".to_owned(), true), ("regular".to_owned(), false)]
        );
    });
}

#[test]
fn chains_on_devices_by_prefix() {
    in_new_netns(|| {
        let kernel = Kernel::new();
        let head = |msg| Head::nft(msg, Family::NETDEV).with_flags(Flags::ACK);
        let devices = [Device {
            name: "veth".into(),
            prefix: true,
        }];
        let mut hook = ChainHook::new(Hook::NETDEV_INGRESS, 0);
        hook.devices = Some(Devices::new(&devices));
        let chain = Chain::named(T, "c").hooked("filter", hook);
        let made = kernel.commit(|batch| {
            let head = |msg| head(msg).with_flags(Flags::CREATE);
            put_message(batch, &head(NftMsg::NEW_TABLE), &Table::named(T))?;
            put_message(batch, &head(NftMsg::NEW_CHAIN), &chain)
        });
        if let Err((_, failure)) = made {
            return skip(&format!("no device prefixes: {}", failure.errno));
        }
        let failure = kernel.request(&head(NftMsg::GET_CHAIN), &Chain::named(T, "c"), |message| {
            let back: Chain<'_> = message.body().unwrap();
            assert_eq!(back.hook.unwrap().devices, hook.devices);
        });
        assert_eq!(failure, None);
    });
}

#[test]
fn sets_and_elements() {
    in_new_netns(|| {
        let kernel = with_table();
        let fields = [SetField::new(4), SetField::new(2)];
        let info = {
            let mut info = SetInfo::default();
            info.key_byte_order = Some(ByteOrder::NETWORK);
            info.comment = Some("nets".into());
            info.encode().unwrap()
        };
        let mut desc = SetDesc::default();
        desc.size = Some(50);
        desc.concat = Some(List::new(&fields));
        let mut set = Set::named(T, "s");
        set.id = Some(1);
        set.flags = Some(SetFlags::INTERVAL | SetFlags::CONCAT | SetFlags::MAP | SetFlags::TIMEOUT);
        set.key_type = DataType::concat(&[DataType::IPV4_ADDR, DataType::INET_SERVICE]);
        set.key_len = Some(8);
        set.data_type = Some(DataType::VERDICT_MAP);
        set.desc = Some(desc);
        set.timeout = Some(60_000);
        set.gc_interval = Some(500);
        set.userdata = Some(info.as_bytes());

        let userdata = Udata::with_comment("a range").unwrap();
        let drop = Data::Verdict(Verdict::code(VerdictCode::DROP));
        let (from, to) = ([10, 0, 0, 0, 0, 80, 0, 0], [10, 0, 0, 255, 0, 90, 0, 0]);
        let mut range = Elem::mapping(Value::new(&from), drop);
        range.key_end = Some(Data::Value(Value::new(&to)));
        range.timeout = Some(30_000);
        range.userdata = Some(userdata.as_bytes());
        let mut rest = Elem::default();
        rest.flags = Some(ElemFlags::CATCHALL);
        rest.data = Some(Data::Verdict(Verdict::code(VerdictCode::ACCEPT)));
        let elems = [range, rest];
        let mut list = ElemList::with_id(T, 1);
        list.set = Some("s".into());
        list.elems = Some(Elems::new(&elems));
        let made = kernel.commit(|batch| {
            create(batch, NftMsg::NEW_SET, &set)?;
            create(batch, NftMsg::NEW_SETELEM, &list)
        });
        assert_eq!(made, Ok(()));

        get(&kernel, NftMsg::GET_SET, &Set::named(T, "s"), |message| {
            let back: Set<'_> = message.body().unwrap();
            assert_eq!(
                (
                    back.name,
                    back.flags,
                    back.key_type,
                    back.key_len,
                    back.data_type
                ),
                (
                    set.name,
                    set.flags,
                    set.key_type,
                    set.key_len,
                    set.data_type
                )
            );
            assert_eq!(
                (back.desc, back.timeout, back.gc_interval, back.userdata),
                (set.desc, set.timeout, set.gc_interval, set.userdata)
            );
            assert!(back.handle.is_some());
        });

        let mut seen = Vec::new();
        let head = Head::nft(NftMsg::GET_SETELEM, Family::INET).with_flags(Flags::DUMP);
        let failure = kernel.request(&head, &ElemList::named(T, "s"), |message| {
            let back: ElemList<'_> = message.body().unwrap();
            for elem in &back.elems.unwrap() {
                let elem = elem.unwrap();
                let catchall = elem.flags.is_some_and(|f| f.contains(ElemFlags::CATCHALL));
                let sent = if catchall { &rest } else { &range };
                assert_eq!(
                    (elem.key, elem.key_end, elem.userdata),
                    (sent.key, sent.key_end, sent.userdata)
                );
                assert_eq!(elem.data, sent.data);
                assert!(elem.expiration.is_some_and(|left| left <= 60_000));
                seen.push(catchall);
            }
        });
        assert_eq!(failure, None);
        seen.sort_unstable();
        assert_eq!(seen, [false, true]);
    });
}

#[test]
fn an_error_names_the_element_or_the_missing_attribute() {
    in_new_netns(|| {
        let kernel = with_table();
        let mut set = Set::named(T, "s");
        set.id = Some(1);
        set.key_type = Some(DataType::IPV4_ADDR);
        set.key_len = Some(4);
        // The second key has the wrong length.
        let elems = [Elem::new(Value::u32_be(1)), Elem::new(Value::u16_be(2))];
        let mut list = ElemList::named(T, "s");
        list.elems = Some(Elems::new(&elems));
        let failed = kernel.commit(|batch| {
            create(batch, NftMsg::NEW_SET, &set)?;
            create(batch, NftMsg::NEW_SETELEM, &list)
        });
        let (place, failure) = failed.unwrap_err();
        assert_eq!((place, failure.errno), (1, Errno::EINVAL));
        // Headers 20, table 8, set 8, list header 4, first element 16.
        assert_eq!(failure.offset, Some(56));

        let failed = kernel.commit(|batch| create(batch, NftMsg::NEW_SET, &Set::default()));
        assert_eq!(failed.unwrap_err().1.errno, Errno::EINVAL);

        let unknown = kernel.commit(|batch| {
            put(
                batch,
                NftMsg::DEL_CHAIN,
                Flags::empty(),
                &Chain::named(T, "none"),
            )
        });
        let failure = unknown.unwrap_err().1;
        // The name, after headers and table.
        assert_eq!((failure.errno, failure.offset), (Errno::ENOENT, Some(28)));
    });
}

#[test]
fn stateful_objects() {
    in_new_netns(|| {
        let kernel = with_table();
        let timeouts = [Timeout {
            state: 1,
            seconds: 77,
        }];
        let mut ct_timeout = CtTimeout::default();
        ct_timeout.l3proto = Some(2);
        ct_timeout.l4proto = Some(17);
        ct_timeout.timeouts = Some(List::new(&timeouts));
        let mut helper = CtHelper::default();
        helper.name = Some("ftp".into());
        helper.l4proto = Some(6);
        let mut expect = CtExpect::default();
        expect.l3proto = Some(2);
        expect.l4proto = Some(6);
        expect.dport = Some(5432);
        expect.timeout = Some(HostU32(1000));
        expect.size = Some(3);
        let mut connlimit = Connlimit::default();
        connlimit.count = Some(9);
        let mut synproxy = Synproxy::default();
        synproxy.mss = Some(1460);
        synproxy.wscale = Some(7);
        let mut counter = Counter::default();
        counter.bytes = Some(10);
        counter.packets = Some(1);
        let userdata = Udata::with_comment("o").unwrap();

        let objects: [ObjData<'_>; 8] = [
            counter.into(),
            Quota::over(1000).into(),
            Limit::packets(10, 60, 5).into(),
            connlimit.into(),
            ct_timeout.into(),
            expect.into(),
            synproxy.into(),
            helper.into(),
        ];
        for data in objects {
            let kind = data.kind();
            let mut obj = Obj::new(T, "o", data);
            obj.userdata = Some(userdata.as_bytes());
            if let Err((_, failure)) = kernel.commit(|batch| create(batch, NftMsg::NEW_OBJ, &obj)) {
                // The kernel was built without it.
                assert_eq!(failure.errno, Errno::ENOENT, "{kind}");
                skip(&format!("no {kind}"));
                continue;
            }
            get(
                &kernel,
                NftMsg::GET_OBJ,
                &Obj::named(T, "o", kind),
                |message| {
                    let back: Obj<'_> = message.body().unwrap();
                    assert_eq!((back.name, back.kind), (obj.name, Some(kind)));
                    assert_eq!(back.userdata, obj.userdata);
                    assert!(back.handle.is_some() && back.in_use == Some(0));
                    check_parameters(&back.data.unwrap(), &data);
                },
            );
            let named = Obj::named(T, "o", kind);
            let gone = kernel.commit(|b| put(b, NftMsg::DEL_OBJ, Flags::empty(), &named));
            assert_eq!(gone, Ok(()), "{kind}");
        }
    });
}

/// The kernel adds what was left out.
fn check_parameters(back: &ObjData<'_>, sent: &ObjData<'_>) {
    match (back, sent) {
        (ObjData::CtTimeout(back), ObjData::CtTimeout(sent)) => {
            assert_eq!((back.l3proto, back.l4proto), (sent.l3proto, sent.l4proto));
            let wanted = sent.timeouts.unwrap().iter().next().unwrap();
            assert!(
                back.timeouts
                    .unwrap()
                    .iter()
                    .any(|timeout| timeout == wanted)
            );
        }
        (ObjData::CtHelper(back), ObjData::CtHelper(sent)) => {
            assert_eq!((back.name, back.l4proto), (sent.name, sent.l4proto));
        }
        (ObjData::Connlimit(back), ObjData::Connlimit(sent)) => assert_eq!(back.count, sent.count),
        (ObjData::Synproxy(back), ObjData::Synproxy(sent)) => {
            assert_eq!((back.mss, back.wscale), (sent.mss, sent.wscale));
        }
        _ => assert_eq!(back, sent),
    }
}

#[test]
fn flowtables() {
    in_new_netns(|| {
        let kernel = with_table();
        let devices = [Device::from("lo")];
        let mut hook = FlowtableHook::default();
        hook.hook = Some(0);
        hook.priority = Some(-3);
        hook.devices = Some(Devices::new(&devices));
        let mut flowtable = Flowtable::named(T, "f");
        flowtable.hook = Some(hook);
        let made = kernel.commit(|batch| create(batch, NftMsg::NEW_FLOWTABLE, &flowtable));
        if let Err((_, failure)) = made {
            // A kernel built without them looks for the type once it has read the attributes.
            assert_eq!((failure.errno, failure.offset), (Errno::ENOENT, None));
            return;
        }
        let key = Flowtable::named(T, "f");
        get(&kernel, NftMsg::GET_FLOWTABLE, &key, |message| {
            let back: Flowtable<'_> = message.body().unwrap();
            assert_eq!((back.name, back.hook), (flowtable.name, flowtable.hook));
        });
    });
}

#[test]
fn a_commit_raises_the_generation_by_one() {
    in_new_netns(|| {
        let kernel = with_table();
        let generation = || {
            let mut id = None;
            get(
                &kernel,
                NftMsg::GET_GEN,
                &Generation::default(),
                |message| {
                    id = message.body::<Generation<'_>>().unwrap().id;
                },
            );
            id.unwrap()
        };
        let before = generation();
        let made = kernel.commit(|b| create(b, NftMsg::NEW_CHAIN, &Chain::named(T, "c")));
        assert_eq!((made, generation()), (Ok(()), before + 1));
    });
}

#[test]
fn destroy_does_not_mind_what_is_missing() {
    in_new_netns(|| {
        let kernel = with_table();
        let counter = Obj::named(T, "none", ObjType::COUNTER);
        let gone = kernel.commit(|batch| {
            let destroy = Flags::empty();
            put(batch, NftMsg::DESTROY_SET, destroy, &Set::named(T, "none"))?;
            put(batch, NftMsg::DESTROY_OBJ, destroy, &counter)?;
            put(
                batch,
                NftMsg::DESTROY_CHAIN,
                destroy,
                &Chain::named(T, "none"),
            )?;
            put(batch, NftMsg::DESTROY_TABLE, destroy, &Table::named(T))?;
            put(batch, NftMsg::DESTROY_TABLE, destroy, &Table::named(T))
        });
        if matches!(&gone, Err((_, Failure { errno, .. })) if *errno == Errno::EINVAL) {
            return skip("no destroy messages");
        }
        assert_eq!(gone, Ok(()));
    });
}
