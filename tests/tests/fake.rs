//! The planner's fake kernel refuses what the kernel refuses, for the same reason: random
//! transactions, most of them wrong somewhere, are given to both. In the end both hold the same
//! rows and chains.

use core::{net::IpAddr, time::Duration};

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use e2e::ruleset;
use kproxy::lower::{Lowered, lower};
use netns_lab::Namespace;
use nft_batch::{Batch, BatchOptions, Connection, Outcome};
use svc_planner::{
    fake::{ApplyError, Errno, Kernel},
    object::Protocol,
    plan::{
        BaseChain, Chain, ChainKind, DataType, Datum, Family, Field, Hook, Key, KeyType, Name,
        Route, Row, Rule, Set, SetChange, Statement, Transaction,
    },
};

/// Name of the table.
const TABLE: &str = "kube-proxy";

const SEEDS: u64 = 4;
const TRANSACTIONS: usize = 200;

const CHAINS: [&str; 6] = [
    "nat-prerouting",
    "nat-postrouting",
    "filter-forward",
    "one",
    "two",
    "three",
];
const SETS: [&str; 5] = [
    "services",
    "dispatch",
    "endpoints",
    "cluster-addresses",
    "service-cidrs",
];

#[test]
fn the_fake_refuses_what_the_kernel_refuses() -> Result<()> {
    let mut tally = Tally::default();
    for seed in 1..=SEEDS {
        let namespace = Namespace::new("fake")?;
        let mut connection = namespace.run(Connection::open)??;
        let mut fake = Kernel::new();
        let mut random = Random(seed);
        for number in 0..TRANSACTIONS {
            let mut transaction = random.transaction();
            settle_order(&mut transaction, &fake);
            compare(&mut connection, &mut fake, &transaction, &mut tally)
                .with_context(|| format!("seed {seed}, transaction {number}:\n{transaction}"))?;
        }
        same_contents(&namespace, &fake).with_context(|| format!("seed {seed}"))?;
    }
    println!("{tally:?}");
    // Otherwise it proves little.
    ensure!(tally.committed > 100, "{tally:?}");
    for errno in [
        Errno::Enoent,
        Errno::Eexist,
        Errno::Ebusy,
        Errno::Enfile,
        Errno::Emlink,
        Errno::Eopnotsupp,
    ] {
        ensure!(tally.refused.contains(&errno), "never {errno}: {tally:?}");
    }
    Ok(())
}

/// Compares names, and the number of rows in each set, with what nft lists.
fn same_contents(namespace: &Namespace, fake: &Kernel) -> Result<()> {
    let family = Family::Ipv4;
    let listing = ruleset::nft(namespace, &["-j", "list", "ruleset"])?;
    let listing: serde_json::Value = serde_json::from_str(&listing)?;
    let objects = listing["nftables"].as_array().context("no objects")?;
    let named = |kinds: &[&str]| -> BTreeMap<String, usize> {
        let found = objects.iter().flat_map(|object| {
            kinds.iter().filter_map(|kind| {
                let body = object.get(*kind)?;
                let rows = body["elem"].as_array().map_or(0, Vec::len);
                Some((body["name"].as_str()?.to_owned(), rows))
            })
        });
        found.collect()
    };
    let sets: BTreeMap<String, usize> = fake
        .sets(family)
        .iter()
        .map(|set| (set.name.to_string(), fake.row_count(family, &set.name)))
        .collect();
    ensure!(
        named(&["set", "map"]) == sets,
        "fake: {sets:?}; kernel: {:?}",
        named(&["set", "map"])
    );
    let chains: BTreeSet<String> = fake
        .chains(family)
        .into_iter()
        .map(|(name, _)| name.to_string())
        .collect();
    let listed: BTreeSet<String> = named(&["chain"]).into_keys().collect();
    ensure!(listed == chains, "fake: {chains:?}; kernel: {listed:?}");
    let rules: usize = chains
        .iter()
        .filter_map(|chain| fake.rules(family, chain))
        .map(<[Rule]>::len)
        .sum();
    let listed = objects
        .iter()
        .filter(|object| object.get("rule").is_some())
        .count();
    ensure!(listed == rules, "fake: {rules} rules; kernel: {listed}");
    Ok(())
}

/// Takes out what depends on more than the order of a transaction's fields.
fn settle_order(transaction: &mut Transaction, fake: &Kernel) {
    // A batch names the sets it makes by id, and the kernel does not know the id of one that was
    // there before.
    let sets = fake.sets(Family::Ipv4);
    transaction
        .add_sets
        .retain(|set| !sets.iter().any(|there| there.name == set.name));
    // A batch makes chains before it flushes any.
    let chains = fake.chains(Family::Ipv4);
    transaction.flush_chains.retain(|name| {
        let added = transaction
            .add_chains
            .iter()
            .any(|chain| chain.name == *name);
        !added || chains.iter().any(|(there, _)| there == name)
    });
}

#[derive(Debug, Default)]
struct Tally {
    committed: usize,
    refused: Vec<Errno>,
}

fn compare(
    connection: &mut Connection,
    fake: &mut Kernel,
    transaction: &Transaction,
    tally: &mut Tally,
) -> Result<()> {
    let mut batch = Batch::new(BatchOptions::default());
    lower(transaction, TABLE, &mut batch, &mut Lowered::default())?;
    let outcome = connection.commit(&mut batch.seal());
    match (fake.apply(transaction, Duration::ZERO), outcome) {
        (Ok(_), Outcome::Committed(_)) => tally.committed += 1,
        (Err(ApplyError::Rejected(rejection)), Outcome::Rejected(rejected)) => {
            let errors: Vec<_> = rejected.errors.iter().map(|error| error.errno).collect();
            // The kernel goes on after an error, and may then miss what the first one would have
            // made.
            let name = rejection.errno.name();
            let found = errors.iter().any(|errno| errno.to_string() == name);
            ensure!(found, "fake: {rejection}; kernel: {rejected:?}");
            if !tally.refused.contains(&rejection.errno) {
                tally.refused.push(rejection.errno);
            }
        }
        (fake, kernel) => bail!("fake: {fake:?}; kernel: {kernel}"),
    }
    Ok(())
}

/// A sequence of numbers that depends on the seed alone (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % bound
    }

    fn small(&mut self, bound: u32) -> u32 {
        u32::try_from(self.below(bound.into())).unwrap_or(0)
    }

    fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        let bound = u64::try_from(from.len()).unwrap_or(1);
        from[usize::try_from(self.below(bound)).unwrap_or(0)]
    }

    fn chain_name(&mut self) -> Name {
        self.pick(&CHAINS).into()
    }

    /// One to three things, in a table that is there most of the time.
    fn transaction(&mut self) -> Transaction {
        let mut transaction = Transaction::new(Family::Ipv4);
        transaction.add_table = !self.one_in(20);
        transaction.delete_table = self.one_in(100);
        for _ in 0..=self.below(3) {
            match self.below(16) {
                0 => transaction.flush_chains.push(self.chain_name()),
                1 => {
                    let name = self.chain_name();
                    transaction.flush_chains.push(name.clone());
                    transaction.replace_chains.push(name);
                }
                2..=3 => {
                    let set = self.pick(&SETS);
                    transaction.add_sets.push(set_of(set));
                }
                4..=5 => {
                    let chain = self.chain();
                    transaction.add_chains.push(chain);
                }
                6..=9 => {
                    let change = self.change();
                    let known = transaction
                        .elements
                        .iter()
                        .any(|other| other.set == change.set);
                    if !known {
                        transaction.elements.push(change);
                    }
                }
                10..=13 => {
                    let rule = self.rule();
                    transaction.add_rules.push(rule);
                }
                14 => {
                    let set = self.pick(&SETS);
                    transaction.delete_sets.push(set.into());
                }
                _ => transaction.delete_chains.push(self.chain_name()),
            }
        }
        transaction
    }

    fn chain(&mut self) -> Chain {
        let name = self.pick(&CHAINS);
        let mut base = match name {
            "nat-prerouting" => Some((ChainKind::Nat, Hook::Prerouting, -100)),
            "nat-postrouting" => Some((ChainKind::Nat, Hook::Postrouting, 100)),
            "filter-forward" => Some((ChainKind::Filter, Hook::Forward, 0)),
            _ => None,
        };
        // Now and then with another priority, or as a base chain where it was none.
        if self.one_in(10) {
            base = Some((ChainKind::Nat, Hook::Prerouting, -99));
        }
        Chain {
            name: name.into(),
            base: base.map(|(kind, hook, priority)| BaseChain {
                kind,
                hook,
                priority,
            }),
        }
    }

    fn change(&mut self) -> SetChange {
        let set = set_of(self.pick(&SETS));
        let mut delete: Vec<Key> = Vec::new();
        for _ in 0..self.below(3) {
            let key = self.key(set.key, set.interval);
            if !delete.contains(&key) {
                delete.push(key);
            }
        }
        let mut add: Vec<Row> = Vec::new();
        for _ in 0..self.below(4) {
            let key = self.key(set.key, set.interval);
            if add.iter().all(|row| row.key != key) {
                let datum = self.datum(set.data);
                add.push(Row { key, datum });
            }
        }
        SetChange {
            set: set.name,
            key: set.key,
            data: set.data,
            delete,
            add,
        }
    }

    fn key(&mut self, layout: KeyType, interval: bool) -> Key {
        let address = IpAddr::from([10, 96, 0, u8::try_from(self.below(4)).unwrap_or(0)]);
        match layout {
            KeyType::Address if interval => {
                let prefixes = [
                    "10.96.0.0/16",
                    "10.96.0.0/24",
                    "10.97.0.0/16",
                    "10.98.4.0/22",
                ];
                let prefix = self.pick(&prefixes).parse().ok();
                prefix.map_or(Key::Address(address), Key::Prefix)
            }
            KeyType::Address => Key::Address(address),
            KeyType::Frontend => Key::Frontend {
                address,
                protocol: Protocol::Tcp,
                port: 80,
            },
            KeyType::Class => Key::Class((1 + self.small(3)) << Route::GROUP_BITS),
            _ => Key::Slot {
                group: 1,
                slot: self.small(5),
            },
        }
    }

    fn datum(&mut self, data: DataType) -> Datum {
        match data {
            DataType::Route => Datum::Route(Route((1 << Route::GROUP_BITS) + 1 + self.small(2))),
            DataType::Verdict if self.one_in(4) => Datum::Drop,
            DataType::Verdict => Datum::Goto(self.chain_name()),
            DataType::Endpoint => Datum::Endpoint {
                address: IpAddr::from([10, 0, 0, 1 + u8::try_from(self.below(2)).unwrap_or(0)]),
                port: 8080,
            },
            _ => Datum::None,
        }
    }

    fn rule(&mut self) -> Rule {
        let scratch = |mask| Field::Scratch { mask };
        let statements = match self.below(12) {
            0..=5 => vec![Statement::Jump(self.chain_name())],
            6 => vec![Statement::Goto(self.chain_name())],
            7 => vec![
                Statement::ScratchFromMap {
                    key: vec![Field::Daddr, Field::L4Proto, Field::Dport],
                    map: "services".into(),
                },
                Statement::VerdictMap {
                    key: vec![scratch(Route::CLASS_MASK)],
                    map: "dispatch".into(),
                },
            ],
            8 => vec![Statement::Dnat {
                key: vec![
                    scratch(u32::MAX),
                    Field::Random {
                        modulus: 2,
                        offset: 0,
                    },
                ],
                map: "endpoints".into(),
            }],
            9 => vec![
                Statement::InSet {
                    key: vec![Field::Daddr],
                    set: self.pick(&["cluster-addresses", "service-cidrs"]).into(),
                    invert: false,
                },
                Statement::Reject,
            ],
            10 => vec![Statement::Masquerade],
            _ => vec![Statement::CtStateNew, Statement::Drop],
        };
        Rule {
            chain: self.chain_name(),
            statements,
            comment: None,
        }
    }
}

fn set_of(name: &str) -> Set {
    let (key, data) = match name {
        "services" => (KeyType::Frontend, DataType::Route),
        "dispatch" => (KeyType::Class, DataType::Verdict),
        "endpoints" => (KeyType::Slot, DataType::Endpoint),
        _ => (KeyType::Address, DataType::None),
    };
    Set {
        name: name.into(),
        key,
        data,
        interval: name == "service-cidrs",
        dynamic: false,
        // Three rows fill it.
        size: (name == "endpoints").then_some(3),
    }
}
