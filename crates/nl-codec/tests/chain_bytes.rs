//! Tables and chains encode to the bytes nft sends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nl_codec::msg::{Family, Flags, NftMsg};
use nl_codec::nft::chain::{Chain, ChainHook, Devices, Hook, Policy};
use nl_codec::nft::table::{Table, TableFlags};
use nl_codec::nft::{Rule, Udata};

use typed::{ADD, check, make, message, message_of};

mod typed;

const NONE: Flags = Flags::empty();

#[test]
fn tables() {
    let table = |flags| {
        make!(Table {
            name: "t".into(),
            flags: flags
        })
    };
    let add = |family| message_of(family, NftMsg::NEW_TABLE, NONE, &table(TableFlags::empty()));
    check("table", "add", &[add(Family::IPV4)]);
    let families = [
        Family::IPV4,
        Family::IPV6,
        Family::INET,
        Family::ARP,
        Family::BRIDGE,
        Family::NETDEV,
    ];
    check("table", "families", &families.map(add));
    for (case, flags) in [
        ("dormant", TableFlags::DORMANT),
        ("owner", TableFlags::OWNER),
        ("owner and persist", TableFlags::OWNER | TableFlags::PERSIST),
    ] {
        check(
            "table",
            case,
            &[message(NftMsg::NEW_TABLE, NONE, &table(flags))],
        );
    }
    let created = message(NftMsg::NEW_TABLE, Flags::EXCL, &table(TableFlags::empty()));
    check("table", "create", &[created]);
    let comment = Udata::with_comment("rules of kproxy").unwrap();
    let mut commented = table(TableFlags::empty());
    commented.userdata = Some(comment.as_bytes());
    check(
        "table",
        "comment",
        &[message(NftMsg::NEW_TABLE, NONE, &commented)],
    );

    let named = Table::named("t");
    check(
        "table",
        "delete by name",
        &[message(NftMsg::DEL_TABLE, NONE, &named)],
    );
    check(
        "table",
        "destroy",
        &[message(NftMsg::DESTROY_TABLE, NONE, &named)],
    );
    let handle = make!(Table { handle: 1 });
    check(
        "table",
        "delete by handle",
        &[message(NftMsg::DEL_TABLE, NONE, &handle)],
    );
    let flush = make!(Rule { table: "t".into() });
    check("table", "flush", &[message(NftMsg::DEL_RULE, NONE, &flush)]);
}

#[test]
fn regular_chains() {
    let chain = Chain::named("t", "c");
    check(
        "chain",
        "regular",
        &[message(NftMsg::NEW_CHAIN, ADD, &chain)],
    );
    check(
        "chain",
        "create",
        &[message(NftMsg::NEW_CHAIN, ADD | Flags::EXCL, &chain)],
    );
    let comment = Udata::with_comment("no endpoints").unwrap();
    let mut commented = chain;
    commented.userdata = Some(comment.as_bytes());
    check(
        "chain",
        "comment",
        &[message(NftMsg::NEW_CHAIN, ADD, &commented)],
    );
    let mut renamed = Chain::named("t", "d");
    renamed.handle = Some(1);
    check(
        "chain",
        "rename",
        &[message(NftMsg::NEW_CHAIN, NONE, &renamed)],
    );
    check(
        "chain",
        "delete by name",
        &[message(NftMsg::DEL_CHAIN, NONE, &chain)],
    );
    check(
        "chain",
        "destroy",
        &[message(NftMsg::DESTROY_CHAIN, NONE, &chain)],
    );
    let handle = make!(Chain {
        table: "t".into(),
        handle: 1
    });
    check(
        "chain",
        "delete by handle",
        &[message(NftMsg::DEL_CHAIN, NONE, &handle)],
    );
    let flush = Rule::at("t", "c", None);
    check("chain", "flush", &[message(NftMsg::DEL_RULE, NONE, &flush)]);
}

const INET_HOOKS: [Hook; 5] = [
    Hook::PREROUTING,
    Hook::INPUT,
    Hook::FORWARD,
    Hook::OUTPUT,
    Hook::POSTROUTING,
];
/// `NF_ARP_IN`, `NF_ARP_OUT`.
const ARP_HOOKS: [Hook; 2] = [Hook(0), Hook(1)];

#[test]
fn base_chains() {
    let add = |family, chain: &Chain<'_>| message_of(family, NftMsg::NEW_CHAIN, ADD, chain);
    let numbered = |index: usize| ["c0", "c1", "c2", "c3", "c4", "c5", "c6"][index];
    for (name, family, hooks) in [
        ("ip", Family::IPV4, INET_HOOKS.as_slice()),
        ("ip6", Family::IPV6, &INET_HOOKS),
        ("inet", Family::INET, &INET_HOOKS),
        ("bridge", Family::BRIDGE, &INET_HOOKS),
        ("arp", Family::ARP, &ARP_HOOKS),
    ] {
        let priorities = [-300, -150, 0, 50, 300];
        let chains = hooks.iter().zip(priorities).enumerate();
        let chains = chains.map(|(index, (hook, priority))| {
            let chain = Chain::named("t", numbered(index));
            add(
                family,
                &chain.hooked("filter", ChainHook::new(*hook, priority)),
            )
        });
        check(
            "chain",
            &format!("every hook of {name}"),
            &chains.collect::<Vec<_>>(),
        );
    }
    let priorities = [-300, -150, -100, 0, 50, -90, -1];
    let chains = priorities.iter().enumerate().map(|(index, priority)| {
        let hook = ChainHook::new(Hook::PREROUTING, *priority);
        add(
            Family::IPV4,
            &Chain::named("t", numbered(index)).hooked("filter", hook),
        )
    });
    check("chain", "named priorities", &chains.collect::<Vec<_>>());
    let nat = [
        (Hook::PREROUTING, -100),
        (Hook::OUTPUT, -100),
        (Hook::POSTROUTING, 100),
        (Hook::INPUT, 100),
    ];
    let chains = nat.iter().enumerate().map(|(index, (hook, priority))| {
        let chain = Chain::named("t", numbered(index));
        add(
            Family::IPV4,
            &chain.hooked("nat", ChainHook::new(*hook, *priority)),
        )
    });
    check("chain", "nat", &chains.collect::<Vec<_>>());
    let route = Chain::named("t", "c").hooked("route", ChainHook::new(Hook::OUTPUT, -150));
    check("chain", "route", &[add(Family::IPV4, &route)]);

    let input = |name, policy| {
        let mut chain = Chain::named("t", name).hooked("filter", ChainHook::new(Hook::INPUT, 0));
        chain.policy = Some(policy);
        chain
    };
    let both = [input("a", Policy::ACCEPT), input("d", Policy::DROP)];
    check(
        "chain",
        "policies",
        &both.map(|chain| add(Family::IPV4, &chain)),
    );
    let comment = Udata::with_comment("in").unwrap();
    let mut commented = input("c", Policy::ACCEPT);
    commented.userdata = Some(comment.as_bytes());
    check(
        "chain",
        "base chain comment",
        &[add(Family::IPV4, &commented)],
    );
}

#[test]
fn chains_on_devices() {
    let on_lo = |family, hook| {
        let mut hook = ChainHook::new(hook, 0);
        hook.device = Some("lo".into());
        let chain = Chain::named("t", "c").hooked("filter", hook);
        message_of(family, NftMsg::NEW_CHAIN, ADD, &chain)
    };
    check(
        "chain",
        "one device",
        &[on_lo(Family::NETDEV, Hook::NETDEV_INGRESS)],
    );
    check(
        "chain",
        "egress",
        &[on_lo(Family::NETDEV, Hook::NETDEV_EGRESS)],
    );
    check(
        "chain",
        "inet ingress",
        &[on_lo(Family::INET, Hook::INET_INGRESS)],
    );
    let devices = ["eth9".into(), "lo".into()];
    let mut hook = ChainHook::new(Hook::NETDEV_INGRESS, -500);
    hook.devices = Some(Devices::new(&devices));
    let chain = Chain::named("t", "c").hooked("filter", hook);
    let added = message_of(Family::NETDEV, NftMsg::NEW_CHAIN, ADD, &chain);
    check("chain", "devices", &[added]);
}
