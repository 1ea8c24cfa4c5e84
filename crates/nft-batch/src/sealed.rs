//! A batch that is ready to be sent.

use core::ops::Range;
use std::io::IoSlice;

use nl_codec::SliceCursor;
use nl_codec::msg::{Flags, put_batch_begin, put_batch_end};
use nl_codec::nft::Str;

use crate::Batch;
use crate::lane::{Lane, Message};
use crate::order::Key;

/// Bytes of the message that opens a transaction: header, nfgenmsg, generation.
const BEGIN_MAX: usize = 28;
/// Bytes of the message that closes it.
const END_LEN: usize = 20;
/// `UIO_MAXIOV`: parts of one `sendmsg`.
pub(crate) const MAX_PARTS: usize = 1024;

/// A closed batch: its operations are in wire order and nothing can be added. Commit it with
/// [`crate::Connection::commit`], then make it a batch again with [`SealedBatch::reuse`], which
/// keeps its buffers.
#[derive(Debug)]
pub struct SealedBatch {
    batch: Batch,
    /// Wire number of each lane's first message, in lane order; one more at the end.
    starts: Vec<u32>,
    bytes: usize,
}

/// Where a message is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) lane: &'a Lane,
    pub(crate) message: &'a Message,
}

impl Place<'_> {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.lane.message_bytes(self.message)
    }
}

impl SealedBatch {
    pub(crate) fn new(mut batch: Batch) -> Self {
        batch.lanes.sort();
        let mut starts = core::mem::take(&mut batch.starts);
        starts.clear();
        let (mut next, mut bytes) = (0_u32, 0);
        for (_, lane) in batch.lanes.as_slice() {
            starts.push(next);
            next = next.saturating_add(u32::try_from(lane.messages().len()).unwrap_or(u32::MAX));
            bytes += lane.bytes();
        }
        starts.push(next);
        Self {
            batch,
            starts,
            bytes,
        }
    }

    /// Makes it an empty batch, with the same options and buffers.
    #[must_use]
    pub fn reuse(mut self) -> Batch {
        self.batch.starts = self.starts;
        self.batch.clear();
        self.batch
    }

    /// Number of operations, that is calls of the batch's methods.
    #[must_use]
    pub fn operations(&self) -> u32 {
        self.batch.operations()
    }

    /// Number of messages between begin and end.
    #[must_use]
    pub fn messages(&self) -> u32 {
        self.starts.last().copied().unwrap_or(0)
    }

    /// Bytes on the wire, if sent as one datagram.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes + self.begin_len() + END_LEN
    }

    /// Whether nothing would be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The generation the batch is made for, if any.
    #[must_use]
    pub fn expected_generation(&self) -> Option<u32> {
        self.batch.generation
    }

    pub(crate) fn may_split(&self) -> bool {
        self.batch.options.split
    }

    /// The messages as they would be sent, without begin and end, in wire order.
    pub fn iter_messages(&self) -> impl Iterator<Item = &[u8]> {
        self.batch.lanes.as_slice().iter().flat_map(|(_, lane)| {
            lane.messages()
                .iter()
                .map(move |message| lane.message_bytes(message))
        })
    }

    pub(crate) fn begin_len(&self) -> usize {
        if self.batch.generation.is_some() {
            BEGIN_MAX
        } else {
            END_LEN
        }
    }

    /// The message with this number in wire order.
    pub(crate) fn place(&self, wire: u32) -> Option<Place<'_>> {
        let at = self.starts.partition_point(|start| *start <= wire);
        let at = at.checked_sub(1)?;
        let (_, lane) = self.batch.lanes.as_slice().get(at)?;
        let within = wire.checked_sub(*self.starts.get(at)?)?;
        let message = lane.messages().get(usize::try_from(within).ok()?)?;
        Some(Place { lane, message })
    }

    /// Lanes with their wire numbers.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = (Key, u32, &Lane)> {
        self.batch
            .lanes
            .as_slice()
            .iter()
            .zip(&self.starts)
            .map(|((key, lane), start)| (*key, *start, lane))
    }

    /// Whether the set whose elements message `wire` deletes gets elements in the same section.
    pub(crate) fn adds_to_set_of(&self, wire: u32) -> bool {
        let mut lanes = self.lanes().peekable();
        while let Some((key, start, lane)) = lanes.next() {
            let count = u32::try_from(lane.messages().len()).unwrap_or(u32::MAX);
            if (start..start.saturating_add(count)).contains(&wire) {
                return lanes
                    .peek()
                    .is_some_and(|(next, ..)| next.set() == key.set() && next.is_additions());
            }
        }
        false
    }

    /// Name of the set that this batch creates with `id`.
    pub(crate) fn set_name(&self, id: u32) -> Option<Str<'_>> {
        self.batch.set_name(id)
    }

    /// Cuts the messages from `from` on into parts of at most `limit` bytes each, frame included.
    /// Cuts are around element messages only, and never between a set's deletions and its
    /// additions.
    ///
    /// # Errors
    /// The length of the shortest datagram that something which must stay together needs.
    pub(crate) fn split(&self, from: u32, limit: usize) -> Result<Vec<Range<u32>>, usize> {
        let frame = BEGIN_MAX + END_LEN;
        let mut parts: Vec<Range<u32>> = Vec::new();
        let mut part_bytes = 0;
        for (range, bytes) in self.atoms() {
            if range.end <= from {
                continue;
            }
            if frame + bytes > limit {
                return Err(frame + bytes);
            }
            match parts.last_mut() {
                Some(part) if frame + part_bytes + bytes <= limit => {
                    part.end = range.end;
                    part_bytes += bytes;
                }
                _ => {
                    parts.push(range);
                    part_bytes = bytes;
                }
            }
        }
        Ok(parts)
    }

    /// Runs of messages that must be in one transaction, with their lengths.
    fn atoms(&self) -> Vec<(Range<u32>, usize)> {
        let mut atoms: Vec<(Range<u32>, usize)> = Vec::new();
        let mut previous = None;
        let lanes = self.batch.lanes.as_slice();
        for (at, (key, start, lane)) in self.lanes().enumerate() {
            let set = key.set();
            let has_pair = |other: Option<&(Key, Lane)>| {
                other.is_some_and(|(other, lane)| {
                    set.is_some() && other.set() == set && !lane.messages().is_empty()
                })
            };
            let paired = if key.is_additions() {
                has_pair(at.checked_sub(1).and_then(|at| lanes.get(at)))
            } else {
                has_pair(lanes.get(at + 1))
            };
            // Structure is glued to structure, deletions to additions of the same set.
            let glued = set.is_none() || paired;
            for (message, wire) in lane.messages().iter().zip(start..) {
                let bytes = lane.message_bytes(message).len();
                match atoms.last_mut() {
                    Some((range, len)) if glued && previous == Some(set) => {
                        range.end = wire + 1;
                        *len += bytes;
                    }
                    _ => atoms.push((wire..wire + 1, bytes)),
                }
                previous = glued.then_some(set);
            }
        }
        atoms
    }

    /// Writes the sequence numbers `seq`, `seq + 1` … into the messages of `part` and asks for
    /// an ack of the last one, or of none.
    pub(crate) fn number(&mut self, part: &Range<u32>, seq: u32, ack_last: bool) {
        let starts = &self.starts;
        let lanes = self.batch.lanes.as_mut_slice();
        for ((_, lane), start) in lanes.iter_mut().zip(starts) {
            let count = u32::try_from(lane.messages().len()).unwrap_or(u32::MAX);
            let from = part.start.max(*start);
            let to = part.end.min(start.saturating_add(count));
            for wire in from..to {
                let at = usize::try_from(wire - start).unwrap_or(usize::MAX);
                let last = ack_last && wire.saturating_add(1) == part.end;
                let bytes = lane.message_bytes_mut(at);
                patch(bytes, seq.wrapping_add(wire - part.start), last);
            }
        }
    }

    /// Collects `part` between `begin` and `end`. `None` when it takes more parts than one call of
    /// `sendmsg` may have.
    pub(crate) fn gather<'a>(
        &'a self,
        part: &Range<u32>,
        begin: &'a [u8],
        end: &'a [u8],
        slices: &mut [IoSlice<'a>; MAX_PARTS],
    ) -> Option<usize> {
        let mut count = 0;
        let mut put = |bytes: &'a [u8]| -> Option<()> {
            *slices.get_mut(count)? = IoSlice::new(bytes);
            count += 1;
            Some(())
        };
        put(begin)?;
        for (_, start, lane) in self.lanes() {
            let messages = lane.messages();
            let from = part.start.saturating_sub(start);
            let to = part.end.saturating_sub(start);
            let from = usize::try_from(from).ok()?.min(messages.len());
            let to = usize::try_from(to).ok()?.min(messages.len());
            for run in lane.runs(messages.get(from..to).unwrap_or_default()) {
                put(run)?;
            }
        }
        if !end.is_empty() {
            put(end)?;
        }
        Some(count)
    }

    /// Encodes the messages around a part.
    pub(crate) fn frame(
        seq_begin: u32,
        generation: Option<u32>,
        seq_end: u32,
        ack_end: bool,
    ) -> Frame {
        let mut frame = Frame {
            begin: [0; BEGIN_MAX],
            begin_len: 0,
            end: [0; END_LEN],
        };
        let mut cursor = SliceCursor::new(&mut frame.begin);
        // Both are shorter than their buffers; a failure would send nothing.
        if put_batch_begin(&mut cursor, seq_begin, generation).is_ok() {
            frame.begin_len = cursor.written().len();
        }
        let mut cursor = SliceCursor::new(&mut frame.end);
        let flags = if ack_end { Flags::ACK } else { Flags::empty() };
        let _fits = put_batch_end(&mut cursor, seq_end, flags);
        frame
    }
}

/// The messages around a transaction.
#[derive(Debug)]
pub(crate) struct Frame {
    begin: [u8; BEGIN_MAX],
    begin_len: usize,
    end: [u8; END_LEN],
}

impl Frame {
    pub(crate) fn begin(&self) -> &[u8] {
        self.begin.get(..self.begin_len).unwrap_or_default()
    }

    pub(crate) fn end(&self) -> &[u8] {
        &self.end
    }
}

fn patch(message: &mut [u8], seq: u32, ack: bool) {
    if let Some(flags) = message.get_mut(6..8) {
        let value = u16::from_ne_bytes([flags[0], flags[1]]) & !Flags::ACK.bits();
        let value = if ack {
            value | Flags::ACK.bits()
        } else {
            value
        };
        flags.copy_from_slice(&value.to_ne_bytes());
    }
    if let Some(field) = message.get_mut(8..12) {
        field.copy_from_slice(&seq.to_ne_bytes());
    }
}
