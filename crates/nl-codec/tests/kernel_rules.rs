//! Every recorded rule, as this crate encodes it, goes to the running kernel and comes back with the
//! same expressions; so do rules that no nft can write.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::mpsc;

use nl_codec::ack::Errno;
use nl_codec::msg::{Family, Flags, Head, NftMsg, put_message};
use nl_codec::nft::expr::*;
use nl_codec::nft::{Exprs, Register, Rule, Value};
use nl_codec::{Attrs, Encoder, SliceCursor};
use test_support::golden::{Case, Golden, message_name};
use test_support::nft::{self, Nft};
use test_support::{has_netns, in_new_netns, skip};

use any::Any;
use kernel::{Failure, Kernel};

mod any;
mod kernel;

const NFTA_RULE_EXPRESSIONS: u16 = 4;

/// Attributes as a tree: type, then payload or children.
#[derive(Debug, Clone, PartialEq)]
enum Tree {
    Leaf(u16, Vec<u8>),
    Nest(u16, Vec<Self>),
}

fn tree(attrs: Attrs<'_>) -> Vec<Tree> {
    let nodes = attrs.map(|attr| {
        let attr = attr.unwrap();
        if attr.flags & nl_codec::NLA_F_NESTED == 0 {
            Tree::Leaf(attr.kind, attr.payload.to_vec())
        } else {
            Tree::Nest(attr.kind, tree(attr.nested()))
        }
    });
    nodes.collect()
}

/// Whether all that was sent is in what came back. That may hold more, as the kernel adds defaults,
/// and lack zeros, which are defaults too.
fn within(sent: &[Tree], back: &[Tree]) -> bool {
    let is_list = |nodes: &[Tree]| nodes.iter().all(|node| matches!(node, Tree::Nest(1, _)));
    if is_list(sent) && is_list(back) {
        return sent.len() == back.len() && sent.iter().zip(back).all(|(a, b)| alike(a, b));
    }
    sent.iter()
        .all(|a| is_unsaid_zero(a, back) || back.iter().any(|b| alike(a, b)))
}

fn alike(sent: &Tree, back: &Tree) -> bool {
    match (sent, back) {
        (Tree::Nest(a, sent), Tree::Nest(b, back)) => a == b && within(sent, back),
        _ => sent == back,
    }
}

fn is_unsaid_zero(sent: &Tree, back: &[Tree]) -> bool {
    let Tree::Leaf(kind, payload) = sent else {
        return false;
    };
    let said = |node: &Tree| matches!(node, Tree::Leaf(said, _) if said == kind);
    payload.iter().all(|byte| *byte == 0) && !back.iter().any(said)
}

/// The expressions of a rule message.
fn exprs_of(message: &[u8]) -> Vec<Tree> {
    let attrs = Attrs::new(message.get(20..).unwrap()).map(Result::unwrap);
    let exprs = attrs.filter(|attr| attr.kind == NFTA_RULE_EXPRESSIONS);
    exprs
        .last()
        .map(|attr| tree(attr.nested()))
        .unwrap_or_default()
}

/// Sends `messages` as one transaction, each with a sequence number of its own.
fn commit(kernel: &Kernel, messages: &[Vec<u8>]) -> Result<(), (usize, Failure)> {
    kernel.commit(|cursor| {
        messages.iter().try_for_each(|message| {
            let mut message = message.clone();
            message[6] |= 4; // NLM_F_ACK
            cursor.put(&message)
        })
    })
}

/// The chain's rules as the kernel dumps them, decoded and encoded again: it marks no nest as one.
fn rules_in(kernel: &Kernel, family: Family) -> Vec<Vec<Tree>> {
    let mut rules = Vec::new();
    let head = Head::nft(NftMsg::GET_RULE, family).with_flags(Flags::DUMP);
    let all = Rule::at("t", "c", None);
    let failure = kernel.request(&head, &all, |view| {
        let mut buf = [0; 1 << 14];
        let mut cursor = SliceCursor::new(&mut buf);
        let rule = Any::decode(view).unwrap().rebuilt().unwrap();
        rule.encode(view, &mut cursor).unwrap();
        rules.push(exprs_of(cursor.written()));
    });
    assert_eq!(failure, None);
    rules
}

/// What the kernel makes of expressions when it takes them, as far as it differs.
fn as_taken(exprs: Vec<Tree>) -> Vec<Tree> {
    let taken = exprs.into_iter().map(|expr| {
        let Tree::Nest(kind, mut parts) = expr else {
            return expr;
        };
        if let [Tree::Leaf(1, name), Tree::Nest(2, data)] = parts.as_mut_slice() {
            match name.as_slice() {
                b"lookup\0" => forget_set_id(data, 4),
                b"dynset\0" => {
                    forget_set_id(data, 2);
                    // NFT_DYNSET_F_EXPR is understood and not repeated.
                    set_flags(data, 9, |flags| flags & !2);
                }
                b"objref\0" => forget_set_id(data, 5),
                b"nat\0" => {
                    // NF_NAT_RANGE_MAP_IPS and _PROTO_SPECIFIED say which registers are given.
                    let has = |kind| {
                        data.iter()
                            .any(|attr| matches!(attr, Tree::Leaf(k, _) if *k == kind))
                    };
                    let given = u32::from(has(3)) | u32::from(has(5)) << 1;
                    set_flags(data, 7, |flags| flags | given);
                }
                b"immediate\0" => forget_chain_id(data),
                _ => {}
            }
        }
        Tree::Nest(kind, parts)
    });
    taken.collect()
}

/// Ids of the batch are gone, and anonymous sets have a number instead of `%d`.
fn forget_set_id(data: &mut Vec<Tree>, id: u16) {
    data.retain(|attr| !matches!(attr, Tree::Leaf(kind, _) if *kind == id));
    for attr in data {
        if let Tree::Leaf(_, payload) = attr
            && let Some(at) = payload.windows(2).position(|two| two == b"%d")
        {
            payload.splice(at..at + 2, *b"0");
        }
    }
}

fn forget_chain_id(data: &mut [Tree]) {
    if let [_, Tree::Nest(2, value)] = data
        && let [Tree::Nest(2, verdict)] = value.as_mut_slice()
    {
        verdict.retain(|attr| !matches!(attr, Tree::Leaf(3, _)));
    }
}

fn set_flags(data: &mut [Tree], kind: u16, change: impl Fn(u32) -> u32) {
    for attr in data {
        if let Tree::Leaf(found, payload) = attr
            && *found == kind
            && let Some(flags) = payload.first_chunk::<4>()
        {
            *payload = change(u32::from_be_bytes(*flags)).to_be_bytes().to_vec();
        }
    }
}

enum Outcome {
    Same,
    /// Neither can nft add it here.
    Lacking,
    Wrong(String),
}

fn round_trip(nft: &Nft, case: &Case) -> Outcome {
    nft.load(&case.setup.join("\n")).unwrap();
    let ours = case
        .messages
        .iter()
        .map(|message| any::rebuild(message).unwrap());
    let ours: Vec<_> = ours.collect();
    let kernel = Kernel::new();
    if let Err(failure) = commit(&kernel, &ours) {
        return match nft.load(&case.nft.join("\n")).unwrap().status.success() {
            true => Outcome::Wrong(format!("{failure:?}, yet nft can")),
            false => Outcome::Lacking,
        };
    }
    let family = Family(ours[0][16]);
    let sent = ours
        .iter()
        .filter(|message| message_name(message) == "NEWRULE");
    // A rule of an anonymous chain is not in the dump of this one.
    let in_chain = sent.filter(|message| {
        let chain = Attrs::new(&message[20..])
            .map(Result::unwrap)
            .find(|attr| attr.kind == 2);
        chain.is_some_and(|chain| chain.payload == b"c\0")
    });
    let back = rules_in(&kernel, family);
    let sent: Vec<_> = in_chain
        .map(|message| as_taken(exprs_of(message)))
        .collect();
    if sent.len() != back.len() {
        return Outcome::Wrong(format!(
            "{} rules sent, {} came back",
            sent.len(),
            back.len()
        ));
    }
    for (sent, back) in sent.iter().zip(&back) {
        if !within(sent, back) {
            return Outcome::Wrong(format!("sent {sent:02x?}\nback {back:02x?}"));
        }
    }
    Outcome::Same
}

#[test]
fn recorded_rules_come_back_from_the_kernel() {
    if !has_netns() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut same = 0;
    let mut lacking = BTreeSet::new();
    let mut wrong = Vec::new();
    for golden in Golden::load_all(&folder).unwrap() {
        if !golden.name().starts_with("expr-") {
            continue;
        }
        for case in golden.cases.clone() {
            let Some(nft) = nft::release(&case.from) else {
                continue;
            };
            let name = format!("{}: {}", golden.name(), case.name);
            let (send, receive) = mpsc::channel();
            in_new_netns(move || send.send(round_trip(&nft, &case)).unwrap());
            match receive.recv().unwrap() {
                Outcome::Same => same += 1,
                Outcome::Lacking => {
                    lacking.insert(name);
                }
                Outcome::Wrong(why) => wrong.push(format!("{name}: {why}")),
            }
        }
    }
    for name in &lacking {
        println!("not on this kernel: {name}");
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(same > 150, "only {same}");
}

const MAPS: &str = "table ip t {
    map addresses { type ipv4_addr : ipv4_addr; }
    map classes { type ipv4_addr : verdict; }
    map endpoints { type mark . mark : ipv4_addr . inet_service; }
    map affinity { type ipv4_addr : ipv4_addr; size 9; flags dynamic,timeout; timeout 9s; }
    chain c { type nat hook prerouting priority -100; }
}";

const R1: Register = Register::R1;
const R2: Register = Register::R2;

fn daddr(dreg: Register) -> Expr<'static> {
    Payload::load(PayloadBase::NETWORK, 16, 4, dreg).into()
}

fn saddr(dreg: Register) -> Expr<'static> {
    Payload::load(PayloadBase::NETWORK, 12, 4, dreg).into()
}

/// A rule of the test's chain makes the round trip. `Err` says that the kernel refused.
fn written(exprs: &[Expr<'_>]) -> Result<(), Failure> {
    let loaded = Nft {
        version: String::new(),
        path: "nft".into(),
    }
    .load(MAPS)
    .unwrap();
    assert!(loaded.status.success(), "{loaded:?}");
    let mut buf = [0; 4096];
    let mut cursor = SliceCursor::new(&mut buf);
    let head = Head::nft(NftMsg::NEW_RULE, Family::IPV4).with_flags(Flags::CREATE | Flags::APPEND);
    put_message(&mut cursor, &head, &Rule::new("t", "c", Exprs::new(exprs))).unwrap();
    let message = cursor.written().to_vec();
    let kernel = Kernel::new();
    commit(&kernel, core::slice::from_ref(&message)).map_err(|(_, failure)| failure)?;
    let sent = as_taken(exprs_of(&message));
    let back = rules_in(&kernel, Family::IPV4);
    assert!(
        back.len() == 1 && within(&sent, &back[0]),
        "sent {sent:02x?}\nback {back:02x?}"
    );
    Ok(())
}

/// nft aborts on a map's result that goes straight into another lookup.
#[test]
fn a_lookup_in_a_lookup() {
    in_new_netns(|| {
        let exprs = [
            daddr(R1),
            Lookup::map("addresses", R1, R1).into(),
            Lookup::map("classes", R1, Register::VERDICT).into(),
        ];
        written(&exprs).unwrap();
    });
}

/// The dnat of a class chain: the scratch is reset between the lookup and the translation, and
/// nothing matches a transport protocol beforehand, which nft demands.
#[test]
fn a_translation_that_resets_its_scratch() {
    in_new_netns(|| {
        // The kernel reports 4-byte registers that start a 16-byte one as that.
        let slot = Register::r32(1).unwrap();
        let exprs = [
            Meta::load(MetaKey::PRIORITY, R1).into(),
            Numgen::random(3, slot).into(),
            Lookup::map("endpoints", R1, R1).into(),
            Immediate::value(R2, Value::u32_ne(0)).into(),
            Meta::set(MetaKey::PRIORITY, R2).into(),
            Nat::dnat(NfProto::IPV4, R1, Some(slot)).into(),
        ];
        written(&exprs).unwrap();
    });
}

/// nft aborts on a map lookup as the datum of a dynset.
#[test]
fn a_looked_up_datum() {
    in_new_netns(|| {
        let dynset = Dynset::new(DynsetOp::UPDATE, "affinity", R1).with_data(R2);
        let exprs = [
            saddr(R1),
            daddr(R2),
            Lookup::map("addresses", R2, R2).into(),
            dynset.into(),
        ];
        written(&exprs).unwrap();
    });
}

/// Two fields of a packet compared with each other: their exclusive or is 0.
#[test]
fn two_fields_compared() {
    in_new_netns(|| {
        let exprs = [
            saddr(R1),
            daddr(R2),
            Bitwise::registers(BitwiseOp::XOR, R1, R2, R1, 4).into(),
            Cmp::eq(R1, Value::u32_be(0)).into(),
        ];
        match written(&exprs) {
            Err(failure)
                if failure.errno == Errno::EINVAL || failure.errno == Errno::EOPNOTSUPP =>
            {
                skip("bitwise operations of two registers: not on this kernel");
            }
            done => done.unwrap(),
        }
    });
}
