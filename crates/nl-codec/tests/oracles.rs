//! Other crates read what this one writes: `netlink-packet-core`, `netlink-packet-netfilter`, and
//! `netlink-packet-utils`, which published crates still use.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;

use netlink_packet_core as core_crate;
use netlink_packet_netfilter::NetfilterMessage;
use netlink_packet_utils as utils_crate;
use nl_codec::ack::Ack;
use nl_codec::msg::{Header, Messages};
use nl_codec::{Attr, Attrs};
use proptest::prelude::*;
use test_support::golden::Golden;

mod any;

/// Every recorded message as this crate encodes it.
fn our_messages() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let mut out = Vec::new();
    for golden in Golden::load_all(&folder).unwrap() {
        for case in &golden.cases {
            let name = format!("{}: {}", golden.name(), case.name);
            let ours = case
                .messages
                .iter()
                .map(|message| any::rebuild(message).unwrap());
            out.extend(ours.map(|message| (name.clone(), message)));
        }
    }
    assert!(out.len() > 500);
    out
}

/// Type without flags, whether nested, payload; as each crate sees it.
type Seen = (u16, bool, Vec<u8>);

fn as_core(payload: &[u8]) -> Result<Vec<Seen>, core_crate::DecodeError> {
    let attrs = core_crate::NlasIterator::new(payload);
    attrs
        .map(|attr| attr.map(|attr| (attr.kind(), attr.nested_flag(), attr.value().to_vec())))
        .collect()
}

fn as_utils(payload: &[u8]) -> Result<Vec<Seen>, utils_crate::DecodeError> {
    let attrs = utils_crate::nla::NlasIterator::new(payload);
    attrs
        .map(|attr| {
            let attr = attr.map_err(|error| utils_crate::DecodeError::from(error.to_string()))?;
            Ok((attr.kind(), attr.nested_flag(), attr.value().to_vec()))
        })
        .collect()
}

fn as_ours(payload: &[u8]) -> Result<Vec<Seen>, nl_codec::DecodeError> {
    let seen = |attr: Attr<'_>| {
        (
            attr.kind,
            attr.flags & nl_codec::NLA_F_NESTED != 0,
            attr.payload.to_vec(),
        )
    };
    Attrs::new(payload).map(|attr| attr.map(seen)).collect()
}

/// All three see the same attributes, down to the innermost nest.
fn compare(name: &str, payload: &[u8]) {
    let ours = as_ours(payload).unwrap();
    assert_eq!(
        as_core(payload).unwrap(),
        ours,
        "{name}: netlink-packet-core"
    );
    assert_eq!(
        as_utils(payload).unwrap(),
        ours,
        "{name}: netlink-packet-utils"
    );
    for (_, nested, inner) in &ours {
        if *nested {
            compare(name, inner);
        }
    }
}

#[test]
fn other_iterators_see_the_same_attributes() {
    for (name, message) in our_messages() {
        compare(&name, &message[20..]);
    }
}

#[test]
fn other_parsers_see_the_same_header() {
    for (name, message) in our_messages() {
        let ours = Header::decode(&message).unwrap();
        let buffer = core_crate::NetlinkBuffer::new_checked(&message).unwrap();
        let theirs =
            <core_crate::NetlinkHeader as core_crate::Parseable<_>>::parse(&buffer).unwrap();
        assert_eq!(Header::from(&theirs), ours, "{name}");
        assert_eq!(usize::try_from(ours.len).unwrap(), message.len(), "{name}");
    }
}

/// What `netlink-packet-netfilter` 0.4 cannot write back: it drops the data of an expression it does
/// not know when that is not in a rule, and the nested flag of a concatenation's field list. Our
/// bytes are nft's in both cases.
const THEIR_LOSSES: [&str; 5] = [
    "element: counter",
    "expr-byteorder: to network",
    "set: dynamic with counter",
    "set: dynamic with limit",
    "set: interval concatenation",
];

#[test]
fn a_typed_parser_reads_and_writes_the_same_bytes() {
    use core_crate::{Emitable, NetlinkMessage, NetlinkPayload};
    let mut same = 0;
    let mut lost = BTreeSet::new();
    for (name, message) in our_messages() {
        let parsed = NetlinkMessage::<NetfilterMessage>::deserialize(&message);
        let parsed = parsed.unwrap_or_else(|error| panic!("{name}: {error}"));
        let NetlinkPayload::InnerMessage(inner) = &parsed.payload else {
            panic!("{name}: a control message");
        };
        let mut written = vec![0; inner.buffer_len()];
        inner.emit(&mut written);
        if written == message[16..] {
            same += 1;
        } else {
            lost.insert(name);
        }
    }
    assert!(lost.iter().eq(THEIR_LOSSES.iter()), "{lost:?}");
    assert!(same > 500, "{same}");
}

#[test]
fn errors_are_read_alike() {
    let mut message = vec![0; 36];
    message[..4].copy_from_slice(&36_u32.to_ne_bytes());
    message[4..6].copy_from_slice(&2_u16.to_ne_bytes());
    message[6..8].copy_from_slice(&0x100_u16.to_ne_bytes());
    message[20..24].copy_from_slice(&20_u32.to_ne_bytes());
    for errno in [0, -1, -17, -85, -4_095] {
        message[16..20].copy_from_slice(&i32::to_ne_bytes(errno));
        let theirs = core_crate::ErrorBuffer::new_checked(&message[16..]).unwrap();
        let ours = Ack::decode(&Messages::new(&message).next().unwrap().unwrap()).unwrap();
        assert_eq!(
            theirs.code().map(|code| -code.get()),
            ours.error.map(|errno| errno.0)
        );
        assert_eq!(Header::decode(theirs.payload()).unwrap(), ours.request);
    }
}

proptest! {
    /// On arbitrary bytes ours and netlink-packet-core's iterator find the same attributes up to the
    /// first error, and ours never panics.
    #[test]
    fn iterators_agree_on_arbitrary_bytes(bytes in prop::collection::vec(prop_oneof![0_u8..24, any::<u8>()], 0..96)) {
        let ours = Attrs::new(&bytes).map_while(Result::ok);
        let theirs = core_crate::NlasIterator::new(&bytes).map_while(Result::ok);
        for (ours, theirs) in ours.zip(theirs) {
            prop_assert_eq!(ours.kind, theirs.kind());
            prop_assert_eq!(ours.payload, theirs.value());
        }
        prop_assert_eq!(as_ours(&bytes).is_ok(), as_core(&bytes).is_ok());
    }
}
