//! The reader of captures: everything that is written is read again, and nothing makes it panic.

#![allow(clippy::unwrap_used, reason = "in tests a panic is a verdict")]

use core::time::Duration;
use std::io::IoSlice;
use std::time::UNIX_EPOCH;

use nft_batch::Errno;
use nft_batch::record::{Direction, PcapngWriter, Recorded, Section};
use nft_replay::capture::{Capture, Fault, Packet, ReadError};
use proptest::prelude::*;

/// A message of `len` bytes, header included.
fn message(len: usize, seq: u32) -> Vec<u8> {
    let len = len.max(16);
    let mut bytes = u32::try_from(len).unwrap().to_ne_bytes().to_vec();
    bytes.extend(0x0a00_u16.to_ne_bytes());
    bytes.extend(1_u16.to_ne_bytes());
    bytes.extend(seq.to_ne_bytes());
    bytes.resize(len.next_multiple_of(4), 7);
    bytes
}

fn written(capture: &Capture) -> Vec<u8> {
    let mut file = Vec::new();
    capture.write(&mut file).unwrap();
    file
}

fn sample() -> Capture {
    let mut capture = Capture::default();
    capture
        .sections
        .push(Section::here("test 1").with_comment("netns 5"));
    for index in 0..4_u32 {
        let mut packet = Packet::new(Direction::ToKernel, message(40, index));
        packet.when = Duration::new(1_700_000_000, index);
        packet.port = Some(4711);
        packet.process = 12;
        packet.took = Some(Duration::from_nanos(index.into()));
        capture.packets.push(packet);
        let mut packet = Packet::new(Direction::ToUser, message(36, index));
        packet.when = Duration::new(1_700_000_001, index);
        capture.packets.push(packet);
    }
    capture
}

prop_compose! {
    fn packet()(
        to_kernel: bool,
        when: u64,
        lens in prop::collection::vec(16..600_usize, 0..5),
        port: Option<u32>,
        process: u32,
        thread: u32,
        took: Option<u32>,
        send_error in prop::option::of(1..200_i32),
        cut in 0..100_usize,
    ) -> Packet {
        let direction = if to_kernel { Direction::ToKernel } else { Direction::ToUser };
        let bytes = lens.iter().flat_map(|len| message(*len, 1)).collect();
        let mut packet = Packet::new(direction, bytes);
        packet.when = Duration::from_nanos(when >> 1);
        packet.port = port;
        packet.process = process;
        packet.thread = if process == 0 { 0 } else { thread };
        packet.took = took.map(|took| Duration::from_nanos(took.into()));
        packet.send_error = send_error.map(Errno);
        packet.len += cut;
        packet
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read(packets in prop::collection::vec(packet(), 0..20)) {
        let mut capture = Capture::default();
        capture.sections.push(Section::here("proptest"));
        capture.packets = packets;
        let file = written(&capture);
        prop_assert_eq!(Capture::read(file.as_slice()).unwrap(), capture);
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = Capture::read(bytes.as_slice());
    }

    #[test]
    fn nor_does_a_file_with_wrong_bytes(at in 0..2000_usize, with: u8) {
        let mut file = written(&sample());
        let at = at % file.len();
        file[at] = with;
        let _ = Capture::read(file.as_slice());
    }
}

#[test]
fn a_file_cut_anywhere_gives_what_was_read() {
    let capture = sample();
    let file = written(&capture);
    let mut most = 0;
    for len in 0..file.len() {
        match Capture::read(&file[..len]) {
            Ok(read) => {
                let count = read.packets.len();
                assert!(count >= most, "{count} packets of {len} bytes after {most}");
                assert_eq!(read.packets, capture.packets[..count]);
                most = count;
                if let Some(damage) = read.damage {
                    assert_eq!(damage.what, Fault::Truncated);
                    assert!(damage.to_string().contains("middle of a block"), "{damage}");
                }
            }
            Err(ReadError::NotACapture) => assert!(len < 4),
            Err(ReadError::Damaged(damage)) => assert_eq!(damage.what, Fault::Truncated),
            Err(error) => panic!("{len}: {error}"),
        }
    }
    assert_eq!(most, capture.packets.len() - 1);
}

#[test]
fn long_datagrams_are_several_packets() {
    let bytes: Vec<u8> = (0..40).flat_map(|seq| message(60_000, seq)).collect();
    let mut capture = Capture::default();
    capture.sections.push(Section::here("test"));
    capture
        .packets
        .push(Packet::new(Direction::ToKernel, bytes));
    let file = written(&capture);
    let packets = file.windows(8).filter(|part| *part == b" offset=").count();
    assert!(packets > 8, "{packets}");
    let read = Capture::read(file.as_slice()).unwrap();
    assert_eq!(read, capture);

    // Without its end the datagram is there as far as it goes, and known to be cut.
    let read = Capture::read(&file[..file.len() / 2]).unwrap();
    assert!(read.damage.is_some());
    let last = read.packets.last().unwrap();
    assert!(last.is_cut());
    assert!(capture.packets[0].bytes.starts_with(&last.bytes));
}

#[test]
fn parts_in_several_slices_are_one_datagram() {
    let bytes: Vec<u8> = (0..9).flat_map(|seq| message(50_000, seq)).collect();
    let (first, rest) = bytes.split_at(70_001);
    let parts = [IoSlice::new(first), IoSlice::new(&[]), IoSlice::new(rest)];
    let mut file = Vec::new();
    let mut writer = PcapngWriter::new(&mut file, &Section::here("test")).unwrap();
    let mut datagram = Recorded::new(Direction::ToKernel, &parts);
    datagram.when = UNIX_EPOCH;
    writer.write(&datagram).unwrap();
    assert_eq!(writer.bytes(), u64::try_from(file.len()).unwrap());
    let read = Capture::read(file.as_slice()).unwrap();
    assert_eq!(read.packets.len(), 1);
    assert_eq!(read.packets[0].bytes, bytes);
}

/// A few bytes are no message, not even the beginning of one.
#[test]
fn what_is_no_message_is_written_too() {
    for tail in 0..20 {
        for head in [&[][..], &message(24, 1)] {
            let bytes = [head, &vec![0xa5; tail]].concat();
            for at in 0..=bytes.len() {
                let (first, rest) = bytes.split_at(at);
                let parts = [IoSlice::new(first), IoSlice::new(rest)];
                let mut file = Vec::new();
                let mut writer = PcapngWriter::new(&mut file, &Section::default()).unwrap();
                let datagram = Recorded::new(Direction::ToKernel, &parts);
                writer.write(&datagram).unwrap();
                let read = Capture::read(file.as_slice()).unwrap();
                assert_eq!(read.packets.len(), 1);
                assert_eq!(read.packets[0].bytes, bytes);
            }
        }
    }
}

#[test]
fn errors_say_what_it_is_instead() {
    assert!(matches!(
        Capture::read(&b"table ip t"[..]),
        Err(ReadError::NotACapture)
    ));
    assert!(matches!(
        Capture::read(&b""[..]),
        Err(ReadError::NotACapture)
    ));
    let pcap = |magic: u32, link_type: u32| {
        let mut file = magic.to_ne_bytes().to_vec();
        file.extend([0; 16]);
        file.extend(link_type.to_ne_bytes());
        file
    };
    assert!(matches!(
        Capture::read(pcap(0xa1b2_c3d4, 1).as_slice()),
        Err(ReadError::LinkType(1))
    ));
    let swapped = pcap(0xa1b2_c3d4_u32.swap_bytes(), 253_u32.swap_bytes());
    assert!(matches!(
        Capture::read(swapped.as_slice()),
        Err(ReadError::ForeignByteOrder)
    ));
}

#[test]
fn pcap_files_of_nlmon_are_read() {
    let mut file = 0xa1b2_3c4d_u32.to_ne_bytes().to_vec();
    file.extend([0; 16]);
    file.extend(253_u32.to_ne_bytes());
    let mut packet = |kind: u16, protocol: u16, message: &[u8]| {
        let len = u32::try_from(message.len() + 16).unwrap();
        for number in [5, 6, len, len] {
            file.extend(number.to_ne_bytes());
        }
        file.extend(kind.to_be_bytes());
        file.extend(824_u16.to_be_bytes());
        file.extend([0; 10]);
        file.extend(protocol.to_be_bytes());
        file.extend(message);
    };
    packet(7, 12, &message(20, 1));
    packet(7, 0, &message(20, 2));
    packet(6, 12, &message(36, 3));
    packet(0xffff, 12, &message(20, 4));
    let read = Capture::read(file.as_slice()).unwrap();
    assert_eq!(read.ignored, 1);
    let directions: Vec<_> = read.packets.iter().map(|packet| packet.direction).collect();
    assert_eq!(
        directions,
        [Direction::ToKernel, Direction::ToUser, Direction::ToKernel]
    );
    assert_eq!(read.packets[0].when, Duration::new(5, 6));
}
