//! A datagram to be taken down: what it says, and its bytes message by message.

use std::io::IoSlice;

use nl_codec::ack::Control;
use nl_codec::msg::{BatchBegin, Messages, MsgType, NftMsg};
use nl_codec::nft::Generation;

use super::Direction;
use crate::Errno;

/// Errors named in a comment; all are in the packet itself.
const NAMED_ERRORS: usize = 8;

/// What a datagram says, for its comment.
#[derive(Default)]
pub(super) struct Facts {
    pub(super) generation: Option<u32>,
    pub(super) acks: u32,
    pub(super) errors: [Option<(u32, Errno)>; NAMED_ERRORS],
}

impl Facts {
    pub(super) fn of(bytes: &[u8], direction: Direction) -> Self {
        let mut facts = Self::default();
        let mut errors = facts.errors.iter_mut();
        for msg in Messages::new(bytes).map_while(Result::ok) {
            match direction {
                // Only the first message of a request is of interest.
                Direction::ToKernel => {
                    if msg.header.kind == MsgType::BATCH_BEGIN {
                        let begin = msg.nfnetlink().and_then(|msg| msg.body::<BatchBegin>());
                        facts.generation = begin.ok().and_then(|begin| begin.generation);
                    }
                    break;
                }
                Direction::ToUser if msg.header.kind == MsgType::nft(NftMsg::NEW_GEN) => {
                    let found = msg.nfnetlink().and_then(|msg| msg.body::<Generation<'_>>());
                    facts.generation = found.ok().and_then(|found| found.id);
                }
                Direction::ToUser if msg.header.kind == MsgType::ERROR => {
                    if let Ok(Some(Control::Ack(ack))) = Control::decode(&msg) {
                        match ack.error {
                            None => facts.acks += 1,
                            Some(errno) => {
                                if let Some(slot) = errors.next() {
                                    *slot = Some((msg.header.seq, errno));
                                }
                            }
                        }
                    }
                }
                // The rest of a dump is more of the same.
                Direction::ToUser => break,
            }
        }
        facts
    }
}

/// Reads the parts of a datagram one after the other.
pub(super) struct Source<'a> {
    parts: &'a [IoSlice<'a>],
    at: usize,
}

impl<'a> Source<'a> {
    pub(super) fn new(parts: &'a [IoSlice<'a>]) -> Self {
        Self { parts, at: 0 }
    }

    /// Bytes of the message that comes next, padding included; what is no message counts as one.
    /// `None` at the end.
    pub(super) fn next_message(&self) -> Option<usize> {
        let left: usize = self
            .parts
            .iter()
            .map(|part| part.len())
            .sum::<usize>()
            .saturating_sub(self.at);
        if left == 0 {
            return None;
        }
        let mut head = [0; 4];
        for (slot, byte) in head.iter_mut().zip(self.rest()) {
            *slot = byte;
        }
        let len = usize::try_from(u32::from_ne_bytes(head)).unwrap_or(usize::MAX);
        Some(if (16..=left).contains(&len) {
            len.next_multiple_of(4).min(left)
        } else {
            left
        })
    }

    fn rest(&self) -> impl Iterator<Item = u8> {
        let part = self.parts.first().map(|part| &**part).unwrap_or_default();
        let first = part.get(self.at..).unwrap_or_default();
        let others = self.parts.get(1..).unwrap_or_default();
        first
            .iter()
            .chain(others.iter().flat_map(|part| part.iter()))
            .copied()
    }

    /// Appends the next `len` bytes to `out`.
    pub(super) fn take(&mut self, mut len: usize, out: &mut Vec<u8>) {
        while let Some((part, others)) = self.parts.split_first() {
            let rest = part.get(self.at..).unwrap_or_default();
            let taken = rest.len().min(len);
            out.extend_from_slice(rest.get(..taken).unwrap_or_default());
            len -= taken;
            self.at += taken;
            if self.at < part.len() {
                return;
            }
            self.parts = others;
            self.at = 0;
            if len == 0 {
                return;
            }
        }
    }
}
