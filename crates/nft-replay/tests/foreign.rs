//! Captures that others wrote: all of the format's liberties, put together by hand.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use core::time::Duration;

use nft_batch::record::Direction;
use nft_replay::capture::{Capture, ReadError};

const NETLINK: u16 = 253;
const ETHERNET: u16 = 1;

/// A pcapng file in either byte order.
struct File {
    bytes: Vec<u8>,
    swapped: bool,
}

impl File {
    fn new(swapped: bool) -> Self {
        let mut file = Self {
            bytes: Vec::new(),
            swapped,
        };
        let mut body = file.u32(0x1a2b_3c4d);
        body.extend(file.u16(1));
        body.extend(file.u16(0));
        body.extend([0xff; 8]);
        file.block(0x0a0d_0d0a, &body);
        file
    }

    fn u16(&self, value: u16) -> Vec<u8> {
        let value = if self.swapped {
            value.swap_bytes()
        } else {
            value
        };
        value.to_ne_bytes().to_vec()
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        let value = if self.swapped {
            value.swap_bytes()
        } else {
            value
        };
        value.to_ne_bytes().to_vec()
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let len = self.u32(u32::try_from(padded + 12).unwrap());
        let kind = self.u32(kind);
        self.bytes.extend(kind);
        self.bytes.extend(&len);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len() + padded - body.len(), 0);
        self.bytes.extend(len);
    }

    fn option(&self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = self.u16(code);
        option.extend(self.u16(u16::try_from(value.len()).unwrap()));
        option.extend(value);
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// `resolution` as in `if_tsresol`.
    fn interface(&mut self, link_type: u16, snap_len: u32, resolution: Option<u8>) {
        let mut body = self.u16(link_type);
        body.extend(self.u16(0));
        body.extend(self.u32(snap_len));
        // A name, so that the resolution is not the first option.
        body.extend(self.option(2, b"nlmon0"));
        if let Some(resolution) = resolution {
            body.extend(self.option(9, &[resolution]));
        }
        body.extend(self.option(0, &[]));
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, stamp: u64, bytes: &[u8]) {
        let len = u32::try_from(bytes.len()).unwrap();
        let (high, low) = (stamp >> 32, stamp & 0xffff_ffff);
        let mut body = self.u32(interface);
        body.extend(self.u32(u32::try_from(high).unwrap()));
        body.extend(self.u32(u32::try_from(low).unwrap()));
        body.extend(self.u32(len));
        body.extend(self.u32(len));
        body.extend(bytes);
        self.block(6, &body);
    }

    fn simple_packet(&mut self, len: usize, bytes: &[u8]) {
        let mut body = self.u32(u32::try_from(len).unwrap());
        body.extend(bytes);
        self.block(3, &body);
    }
}

/// A request to the kernel behind the header that nlmon has.
fn cooked(message: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(7_u16.to_be_bytes());
    bytes.extend(824_u16.to_be_bytes());
    bytes.extend([0; 10]);
    bytes.extend(12_u16.to_be_bytes());
    bytes.extend(message);
    bytes
}

fn message(seq: u32) -> Vec<u8> {
    let mut bytes = 20_u32.to_ne_bytes().to_vec();
    bytes.extend(0x0a10_u16.to_ne_bytes());
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend(seq.to_ne_bytes());
    bytes.extend([0; 8]);
    bytes
}

#[test]
fn interfaces_have_link_types_and_resolutions_of_their_own() {
    let mut file = File::new(false);
    file.interface(ETHERNET, 0, None);
    file.interface(NETLINK, 0, None);
    file.interface(NETLINK, 0, Some(9));
    file.interface(NETLINK, 0, Some(0x80 | 10));
    file.packet(0, 1, &[0; 60]);
    file.packet(1, 1_500_000, &cooked(&message(1)));
    file.packet(2, 1_500_000_000, &cooked(&message(2)));
    file.packet(3, 1536, &cooked(&message(3)));
    // Statistics, and a kind that nobody knows.
    file.block(5, &[0; 12]);
    file.block(0x0bad, &[1, 2, 3]);
    file.packet(2, 2_000_000_001, &cooked(&message(4)));
    let capture = Capture::read(file.bytes.as_slice()).unwrap();
    assert_eq!(capture.damage, None);
    assert_eq!(capture.ignored, 1);
    let halves = Duration::from_millis(1_500);
    let times: Vec<_> = capture.packets.iter().map(|packet| packet.when).collect();
    let last = Duration::new(2, 1);
    assert_eq!(times, [halves, halves, halves, last]);
    let to_kernel = |it: &nft_replay::capture::Packet| it.direction == Direction::ToKernel;
    assert!(capture.packets.iter().all(to_kernel));
    assert_eq!(capture.packets[3].bytes, message(4));
}

#[test]
fn each_section_has_its_interfaces() {
    let mut file = File::new(false);
    file.interface(NETLINK, 0, Some(9));
    file.packet(0, 1, &cooked(&message(1)));
    let mut second = File::new(false);
    second.interface(ETHERNET, 0, None);
    second.interface(NETLINK, 0, None);
    second.packet(1, 2, &cooked(&message(2)));
    file.bytes.extend(second.bytes);
    let capture = Capture::read(file.bytes.as_slice()).unwrap();
    let times: Vec<_> = capture.packets.iter().map(|packet| packet.when).collect();
    assert_eq!(times, [Duration::from_nanos(1), Duration::from_micros(2)]);
    assert_eq!(capture.sections.len(), 2);
}

#[test]
fn simple_packets_are_read_as_far_as_they_were_kept() {
    let mut file = File::new(false);
    file.interface(NETLINK, 36, None);
    let bytes = cooked(&message(1));
    file.simple_packet(bytes.len(), &bytes);
    let mut long = bytes.clone();
    long.extend(message(2));
    file.simple_packet(long.len(), &long[..36]);
    let capture = Capture::read(file.bytes.as_slice()).unwrap();
    assert_eq!(capture.damage, None);
    let [whole, cut] = capture.packets.as_slice() else {
        panic!("{:?}", capture.packets);
    };
    assert_eq!(
        (whole.bytes.as_slice(), whole.is_cut()),
        (message(1).as_slice(), false)
    );
    assert_eq!((cut.bytes.as_slice(), cut.len), (message(1).as_slice(), 40));
}

#[test]
fn the_other_byte_order_is_read_as_far_as_it_takes_to_refuse_it() {
    let mut file = File::new(true);
    file.interface(NETLINK, 0, Some(9));
    file.packet(0, 1, &cooked(&message(1)));
    let refused = Capture::read(file.bytes.as_slice());
    assert!(
        matches!(refused, Err(ReadError::ForeignByteOrder)),
        "{refused:?}"
    );
    // Of something else it is said what it is.
    let mut file = File::new(true);
    file.interface(ETHERNET, 0, None);
    file.packet(0, 1, &[0; 60]);
    let refused = Capture::read(file.bytes.as_slice());
    assert!(
        matches!(refused, Err(ReadError::LinkType(1))),
        "{refused:?}"
    );
}
