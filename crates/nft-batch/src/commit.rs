//! Sending a batch and finding out what became of it.
//!
//! What the kernel does (`net/netfilter/nfnetlink.c`, `nfnetlink_rcv_batch`): it handles all
//! messages inside `sendmsg`, collecting errors and wanted acks; then commits, or aborts if there
//! was an error; then queues all replies, each with the sequence number of its message. A commit
//! that fails is reported with the number of the batch's first message, a wrong generation with that
//! of the begin message. Hence:
//!
//! - when `sendmsg` is back, all replies are queued; an empty queue ends the reading and no time-out
//!   is needed;
//! - an ack of a message says only that this message was fine. Committed means: no error for any
//!   message, nothing lost, and the one ack that was asked for: of the end message where the kernel
//!   gives it (Linux 6.10 and later), else of the last one.

use core::ops::Range;
use std::io::IoSlice;

use nl_codec::ack::{Control, Errno};

use nl_codec::msg::Messages;

use crate::connection::RETRIES;
use crate::fence::next_generation;
use crate::outcome::{
    Check, Committed, GenerationMismatch, NotSent, NotSentReason, Outcome, Progress, Rejected,
    Unknown, UnknownReason,
};
use crate::sealed::{MAX_PARTS, SealedBatch};
use crate::transport::Transport;
use crate::{Connection, OpError};

/// How often ENOBUFS is read on before giving up; each stands for one overflow.
const MAX_OVERRUNS: u32 = 64;

impl<T: Transport> Connection<T> {
    /// Sends the batch as one transaction, or as several if it is too long and may be split, and
    /// reports what became of it. An empty batch is committed without being sent.
    pub fn commit(&mut self, batch: &mut SealedBatch) -> Outcome {
        let progress = Progress {
            parts: 1,
            committed: 0,
        };
        if batch.is_empty() {
            return Outcome::Committed(Committed {
                progress: Progress::default(),
                generation: None,
            });
        }
        let whole = 0..batch.messages();
        let len = batch.len();
        let limit = match self.transport.reserve(len) {
            Ok(limit) => limit,
            Err(errno) => return not_sent(NotSentReason::Limit(errno), progress),
        };
        if len > limit {
            return self.commit_split(batch, limit, len);
        }
        let generation = batch.expected_generation();
        match self.commit_part(batch, whole, generation, progress) {
            // The limit was wrong, or has changed.
            Outcome::NotSent(NotSent {
                reason: NotSentReason::TooLong { len, .. },
                ..
            }) if batch.may_split() => self.commit_split(batch, len / 2, len),
            outcome => outcome,
        }
    }

    /// Asks the kernel what it would say, without committing: a batch without its end message is
    /// handled and validated, then dropped. Costs the kernel what a failed transaction costs (7 to
    /// 35 ms), so it is no step on the way to a commit.
    pub fn check(&mut self, batch: &mut SealedBatch) -> Check {
        if batch.is_empty() {
            return Check::Fine;
        }
        let part = 0..batch.messages();
        let len = batch.len();
        match self.transport.reserve(len) {
            Ok(limit) if len <= limit => {}
            Ok(limit) => return Check::NotSent(NotSentReason::TooLong { len, limit }),
            Err(errno) => return Check::NotSent(NotSentReason::Limit(errno)),
        }
        let begin_seq = self.take_seq(part.end.saturating_add(2));
        batch.number(&part, begin_seq.wrapping_add(1), true);
        let frame = SealedBatch::frame(begin_seq, None, 0, false);
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        let Some(used) = batch.gather(&part, frame.begin(), &[], &mut slices) else {
            return Check::NotSent(NotSentReason::TooManyPieces);
        };
        let slices = slices.get(..used).unwrap_or_default();
        // Nothing comes of it, so it may be sent as often as one likes.
        let mut sent = Err(Errno::EINTR);
        for _ in 0..RETRIES {
            sent = self.transport.send(slices);
            if sent != Err(Errno::EINTR) {
                break;
            }
        }
        if let Err(errno) = sent {
            return Check::NotSent(NotSentReason::Send(errno));
        }
        let replies = self.collect(batch, &part, begin_seq);
        if let Some(reason) = replies.lost {
            return Check::Unknown(reason);
        }
        let last = Some(part.end.saturating_sub(1));
        let answered = replies.last_acked || replies.errors.iter().any(|it| it.message == last);
        if !replies.errors.is_empty() {
            Check::Bad(replies.errors)
        } else if answered {
            Check::Fine
        } else {
            Check::Unknown(UnknownReason::NoAck)
        }
    }

    fn commit_split(&mut self, batch: &mut SealedBatch, limit: usize, len: usize) -> Outcome {
        let mut progress = Progress {
            parts: 1,
            committed: 0,
        };
        if !batch.may_split() {
            return not_sent(NotSentReason::TooLong { len, limit }, progress);
        }
        let mut limit = limit;
        let mut generation = batch.expected_generation();
        let mut parts = match batch.split(0, limit) {
            Ok(parts) => parts,
            Err(len) => return not_sent(NotSentReason::TooLong { len, limit }, progress),
        };
        loop {
            progress.parts = progress
                .committed
                .saturating_add(u32::try_from(parts.len()).unwrap_or(u32::MAX));
            let mut retry_from = None;
            for part in parts {
                let start = part.start;
                match self.commit_part(batch, part, generation, progress) {
                    Outcome::Committed(committed) => {
                        progress.committed += 1;
                        // Later parts are based on what the earlier ones made.
                        generation = committed.generation;
                    }
                    Outcome::NotSent(NotSent {
                        reason: NotSentReason::TooLong { len, .. },
                        ..
                    }) => {
                        limit = (len / 2).min(limit / 2);
                        retry_from = Some(start);
                        break;
                    }
                    outcome => return outcome,
                }
            }
            let Some(from) = retry_from else {
                return Outcome::Committed(Committed {
                    progress,
                    generation,
                });
            };
            parts = match batch.split(from, limit) {
                Ok(parts) => parts,
                Err(len) => return not_sent(NotSentReason::TooLong { len, limit }, progress),
            };
        }
    }

    fn commit_part(
        &mut self,
        batch: &mut SealedBatch,
        part: Range<u32>,
        expected: Option<u32>,
        progress: Progress,
    ) -> Outcome {
        let before = match expected {
            Some(generation) => Some(generation),
            // Not being able to read it only makes an unknown outcome harder to resolve.
            None => self.generation().ok(),
        };
        let count = part.end.saturating_sub(part.start);
        // Begin, messages, end.
        let begin_seq = self.take_seq(count.saturating_add(2));
        let first_seq = begin_seq.wrapping_add(1);
        let end_seq = first_seq.wrapping_add(count);
        batch.number(&part, first_seq, !self.end_ack);
        let frame = SealedBatch::frame(begin_seq, expected, end_seq, self.end_ack);

        let unknown = |reason, part| {
            Outcome::Unknown(Unknown {
                reason,
                generation_before: before,
                progress,
                part,
            })
        };
        let mut slices = [IoSlice::new(&[]); MAX_PARTS];
        let Some(used) = batch.gather(&part, frame.begin(), frame.end(), &mut slices) else {
            return not_sent(NotSentReason::TooManyPieces, progress);
        };
        let slices = slices.get(..used).unwrap_or_default();
        let len: usize = slices.iter().map(|slice| slice.len()).sum();
        match self.send_once(slices, before) {
            Sent::Yes(sent) if sent == len => {}
            Sent::Yes(_) => return unknown(UnknownReason::ShortSend, part),
            Sent::Maybe => return unknown(UnknownReason::SendInterrupted, part),
            Sent::No(Errno::EMSGSIZE) => {
                let limit = self.transport.reserve(0).unwrap_or(0).min(len);
                return not_sent(NotSentReason::TooLong { len, limit }, progress);
            }
            Sent::No(errno) => return not_sent(NotSentReason::Send(errno), progress),
        }

        let replies = self.collect(batch, &part, begin_seq);
        if !replies.errors.is_empty() {
            if let (Some(expected), true) = (expected, replies.restart) {
                return Outcome::GenerationMismatch(GenerationMismatch { expected, progress });
            }
            let mut errors = replies.errors;
            for error in &mut errors {
                self.explain(error);
            }
            return Outcome::Rejected(Rejected {
                errors,
                complete: replies.lost.is_none(),
                progress,
            });
        }
        if let Some(reason) = replies.lost {
            return unknown(reason, part);
        }
        let proven = if self.end_ack {
            replies.end_acked
        } else {
            replies.last_acked
        };
        if !proven {
            return unknown(UnknownReason::NoAck, part);
        }
        Outcome::Committed(Committed {
            progress: Progress {
                committed: progress.committed.saturating_add(1),
                ..progress
            },
            generation: expected.map(next_generation),
        })
    }

    /// Sends a datagram that must not be sent twice. `EINTR` comes before the kernel looks at a
    /// datagram (`netlink_sendmsg` sleeps nowhere after that), so it may be sent again; but only
    /// while the generation shows that nothing was committed.
    fn send_once(&mut self, slices: &[IoSlice<'_>], before: Option<u32>) -> Sent {
        for _ in 0..RETRIES {
            match self.transport.send(slices) {
                Ok(sent) => return Sent::Yes(sent),
                Err(Errno::EINTR) => {
                    if before.is_none() || self.generation().ok() != before {
                        return Sent::Maybe;
                    }
                }
                Err(errno) => return Sent::No(errno),
            }
        }
        Sent::No(Errno::EINTR)
    }

    /// Reads the replies to the transaction whose begin message had the number `begin_seq`.
    fn collect(&mut self, batch: &SealedBatch, part: &Range<u32>, begin_seq: u32) -> Replies {
        let count = part.end.saturating_sub(part.start);
        let end_offset = count.saturating_add(1);
        let port = self.transport.port();
        let mut replies = Replies::default();
        let mut overruns = 0;
        loop {
            let datagram = match self.next_datagram() {
                Ok(Some(datagram)) => datagram,
                Ok(None) => break,
                Err(Errno::ENOBUFS) if overruns < MAX_OVERRUNS => {
                    overruns += 1;
                    replies.lost = Some(UnknownReason::RepliesLost);
                    continue;
                }
                Err(errno) => {
                    replies.lost = Some(UnknownReason::Receive(errno));
                    break;
                }
            };
            if datagram.truncated {
                replies.lost.get_or_insert(UnknownReason::ReplyTruncated);
            }
            let bytes = self.recv.get(..datagram.len).unwrap_or_default();
            for msg in Messages::new(bytes) {
                let Ok(msg) = msg else {
                    replies.lost.get_or_insert(UnknownReason::ReplyMalformed);
                    break;
                };
                let offset = msg.header.seq.wrapping_sub(begin_seq);
                if offset > end_offset || msg.header.port != port {
                    self.ignored += 1;
                    continue;
                }
                let ack = match Control::decode(&msg) {
                    Ok(Some(Control::Ack(ack))) => ack,
                    Ok(_) => {
                        self.ignored += 1;
                        continue;
                    }
                    Err(_) => {
                        replies.lost.get_or_insert(UnknownReason::ReplyMalformed);
                        continue;
                    }
                };
                match ack.error {
                    Some(errno) => {
                        let wire = offset
                            .checked_sub(1)
                            .filter(|wire| *wire < count)
                            .map(|wire| part.start + wire);
                        replies.restart |= errno == Errno::ERESTART && wire.is_none();
                        replies
                            .errors
                            .push(OpError::locate(batch, wire, errno, &ack.extended));
                    }
                    None => {
                        replies.last_acked |= offset == count;
                        replies.end_acked |= offset == end_offset;
                    }
                }
            }
            // The end's ack is queued last, and only for a commit; without errors before it there
            // is nothing more to read.
            if self.end_ack && replies.end_acked && replies.lost.is_none() {
                break;
            }
        }
        replies
    }
}

enum Sent {
    /// So many bytes.
    Yes(usize),
    /// Nothing reached the kernel.
    No(Errno),
    /// Interrupted, and somebody's transaction was committed meanwhile.
    Maybe,
}

#[derive(Default)]
struct Replies {
    errors: Vec<OpError>,
    restart: bool,
    last_acked: bool,
    end_acked: bool,
    lost: Option<UnknownReason>,
}

fn not_sent(reason: NotSentReason, progress: Progress) -> Outcome {
    Outcome::NotSent(NotSent { reason, progress })
}
