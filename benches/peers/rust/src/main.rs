//! Builds one message of 1,000 map elements with netlink-packet-netfilter; see ../README.md.

use std::time::Instant;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_netfilter::nftables::{
    DataAttribute, ListAttribute, NfTablesMessage, SetElementAttribute, SetElementList,
    SetElementMessage,
};
use netlink_packet_netfilter::{NetfilterHeader, NetfilterMessage, NetfilterProtoFamily};

const ELEMENTS: u32 = 1000;
const RUNS: usize = 101;

fn build(buf: &mut [u8]) -> usize {
    let elements = (0..ELEMENTS)
        .map(|i| {
            let mut key = vec![0; 16];
            key[..4].copy_from_slice(&i.to_be_bytes());
            ListAttribute::Element(vec![
                SetElementAttribute::Key(DataAttribute::Value(key)),
                SetElementAttribute::Data(DataAttribute::Value(vec![10, 0, 0, 1, 0, 80, 0, 0])),
            ])
        })
        .collect();
    let message = SetElementMessage {
        attributes: vec![
            SetElementList::Table("kube-proxy".into()),
            SetElementList::Set("endpoints".into()),
            SetElementList::SetId(1),
            SetElementList::Elements(elements),
        ],
    };
    let message = NetfilterMessage::new(
        NetfilterHeader::new(NetfilterProtoFamily::IPv4, 0, 0),
        NfTablesMessage::NewSetElement(message),
    );
    let mut message = NetlinkMessage::new(Default::default(), NetlinkPayload::InnerMessage(message));
    message.finalize();
    message.serialize(buf);
    message.buffer_len()
}

fn main() {
    let mut buf = vec![0; 1 << 17];
    let mut bytes = 0;
    let mut times: Vec<_> = (0..RUNS)
        .map(|_| {
            let start = Instant::now();
            bytes = build(&mut buf);
            start.elapsed().as_nanos()
        })
        .collect();
    times.sort_unstable();
    let allocations = allocation_counter::measure(|| {
        build(&mut buf);
    });
    println!(
        "{{\"name\":\"netlink-packet-netfilter 0.4 (Rust)\",\"ns\":{},\"allocations\":{},\"bytes\":{bytes}}}",
        times[RUNS / 2],
        allocations.count_total
    );
}
