//! A kernel in user space, as far as transactions go: it handles a batch inside `send`, collects
//! errors and acks, commits or not, then queues replies. Faults are injected on the way.

use std::collections::{BTreeMap, VecDeque};
use std::io::IoSlice;

use nft_batch::{Datagram, Errno, Transport, Wait};
use nl_codec::msg::{Family, Flags, Head, Header, Messages, MsgType, NftMsg, put_message};
use nl_codec::nft::{Elem, ElemList, Elems, Value};
use nl_codec::{Encoder, SliceCursor};

pub(crate) const PORT: u32 = 4711;

/// A datagram to be received.
#[derive(Debug, Clone)]
pub(crate) struct Reply {
    pub(crate) bytes: Vec<u8>,
    pub(crate) sender: u32,
    pub(crate) truncated: bool,
}

/// Keys that a dump of elements tells.
#[derive(Debug, Clone)]
pub(crate) struct FakeDump {
    pub(crate) keys: Vec<u32>,
    pub(crate) commits: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FakeKernel {
    /// Acknowledges the end of a batch.
    pub(crate) end_ack: bool,
    pub(crate) generation: u32,
    /// Longest datagram that can be sent.
    pub(crate) limit: usize,
    /// What `reserve` claims instead, if anything.
    pub(crate) claimed_limit: Option<usize>,
    /// Errors of `send` still to come; nothing is handled then.
    pub(crate) send_errors: VecDeque<Errno>,
    /// Somebody else commits whenever an error of `send_errors` is given.
    pub(crate) foreign_commits: bool,
    /// Errors of `recv` still to come, before any reply.
    pub(crate) recv_errors: VecDeque<Errno>,
    /// Refuses the nth message of each batch, from 0.
    pub(crate) bad: BTreeMap<usize, Errno>,
    /// Answers messages of this kind with this error.
    pub(crate) unknown: Option<(NftMsg, Errno)>,
    /// Answers rules that hold an expression of this name with ENOENT.
    pub(crate) without_expr: Option<&'static str>,
    /// Answers the begin message with this error, and does nothing else.
    pub(crate) begin_error: Option<Errno>,
    /// The commit fails with this error, reported with the first message's number.
    pub(crate) commit_error: Option<Errno>,
    /// Handles batches but never says what it did.
    pub(crate) silent: bool,
    /// Changes each reply to a batch before it is queued.
    pub(crate) tamper: Option<fn(&mut Reply)>,
    /// Overwrites each reply to a batch with these bytes from there on.
    pub(crate) garble: Option<(usize, Vec<u8>)>,
    /// Replies to be received.
    pub(crate) queue: VecDeque<Reply>,
    /// Batches committed: their messages.
    pub(crate) committed: Vec<Vec<Vec<u8>>>,
    /// Number of acks that each batch asked for.
    pub(crate) acks_asked: Vec<usize>,
    /// What dumps of elements still to come tell, in order; without one there is no set. A dump that
    /// commits has somebody else commit at its end.
    pub(crate) dumps: VecDeque<FakeDump>,
    /// Datagrams handled.
    pub(crate) received: usize,
    /// Do nothing to batches before this many have been handled (lets a connection be made).
    pub(crate) armed: bool,
}

impl FakeKernel {
    pub(crate) fn new(end_ack: bool) -> Self {
        Self {
            end_ack,
            generation: 7,
            limit: usize::MAX,
            claimed_limit: None,
            send_errors: VecDeque::new(),
            foreign_commits: false,
            recv_errors: VecDeque::new(),
            bad: BTreeMap::new(),
            unknown: None,
            without_expr: None,
            begin_error: None,
            commit_error: None,
            silent: false,
            tamper: None,
            garble: None,
            queue: VecDeque::new(),
            committed: Vec::new(),
            acks_asked: Vec::new(),
            dumps: VecDeque::new(),
            received: 0,
            armed: false,
        }
    }

    fn push(&mut self, bytes: Vec<u8>, batch: bool) {
        let mut reply = Reply {
            bytes,
            sender: 0,
            truncated: false,
        };
        if batch && self.armed {
            if self.silent {
                return;
            }
            if let Some(tamper) = self.tamper {
                tamper(&mut reply);
            }
            if let Some((at, garbage)) = &self.garble {
                let end = reply.bytes.len();
                let from = (*at).min(end);
                let to = from.saturating_add(garbage.len()).min(end);
                reply.bytes[from..to].copy_from_slice(&garbage[..to - from]);
            }
        }
        self.queue.push_back(reply);
    }

    fn batch(&mut self, messages: &[(Header, Vec<u8>)]) {
        let (begin, _) = &messages[0];
        if let Some(errno) = self.begin_error.filter(|_| self.armed) {
            self.push(ack(begin, Some(errno)), true);
            return;
        }
        let wanted = generation_of(&messages[0].1);
        if wanted.is_some_and(|wanted| wanted != self.generation) {
            self.push(ack(begin, Some(Errno::ERESTART)), true);
            return;
        }
        let mut replies = Vec::new();
        let (mut failed, mut ended) = (false, None);
        let mut operations = Vec::new();
        for (header, bytes) in &messages[1..] {
            if header.kind == MsgType::BATCH_END {
                ended = Some(*header);
                break;
            }
            let errno = self.verdict(operations.len(), header, bytes);
            operations.push(bytes.clone());
            failed |= errno.is_some();
            if errno.is_some() || header.flags.contains(Flags::ACK) {
                replies.push(ack(header, errno));
            }
        }
        let asked = messages
            .iter()
            .filter(|(header, _)| header.flags.contains(Flags::ACK))
            .count();
        self.acks_asked.push(asked);
        if let Some(end) = ended.filter(|_| !failed) {
            if let Some(errno) = self.commit_error.filter(|_| self.armed) {
                replies.insert(0, ack(&messages[1].0, Some(errno)));
            } else {
                if !operations.is_empty() {
                    self.generation += 1;
                    self.committed.push(operations);
                }
                if self.end_ack && end.flags.contains(Flags::ACK) {
                    replies.push(ack(&end, None));
                }
            }
        }
        for reply in replies {
            self.push(reply, true);
        }
    }

    fn verdict(&self, index: usize, header: &Header, bytes: &[u8]) -> Option<Errno> {
        let holds = |name: &str| {
            bytes
                .windows(name.len() + 1)
                .any(|part| part.split_last() == Some((&0, name.as_bytes())))
        };
        if let Some(errno) = self.bad.get(&index).filter(|_| self.armed) {
            return Some(*errno);
        }
        if let Some((kind, errno)) = self.unknown
            && header.kind.as_nft() == Some(kind)
        {
            return Some(errno);
        }
        match self.without_expr {
            Some(name) if header.kind.as_nft() == Some(NftMsg::NEW_RULE) && holds(name) => {
                Some(Errno::ENOENT)
            }
            _ => None,
        }
    }
}

impl Transport for FakeKernel {
    fn port(&self) -> u32 {
        PORT
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let messages: Vec<_> = Messages::new(&datagram)
            .map(|msg| {
                let msg = msg.unwrap();
                let len = usize::try_from(msg.header.len).unwrap();
                (msg.header, datagram[msg.offset..msg.offset + len].to_vec())
            })
            .collect();
        let is_batch = messages[0].0.kind == MsgType::BATCH_BEGIN;
        if is_batch && self.armed {
            if let Some(errno) = self.send_errors.pop_front() {
                self.generation += u32::from(self.foreign_commits);
                return Err(errno);
            }
            if datagram.len() > self.limit {
                return Err(Errno::EMSGSIZE);
            }
        }
        self.received += 1;
        if is_batch {
            self.batch(&messages);
        } else if messages[0].0.kind.as_nft() == Some(NftMsg::GET_GEN) {
            let reply = generation(&messages[0].0, self.generation);
            self.push(reply, false);
        } else if messages[0].0.kind.as_nft() == Some(NftMsg::GET_SETELEM)
            && let Some(dump) = self.dumps.pop_front()
        {
            let seq = messages[0].0.seq;
            self.push(elements(&dump.keys, self.generation, seq), false);
            let done = seal(vec![0; 20], MsgType::DONE, Flags::MULTI, seq);
            self.push(done, false);
            self.generation += u32::from(dump.commits);
        } else {
            // Whatever is asked for does not exist.
            let reply = ack(&messages[0].0, Some(Errno::ENOENT));
            self.push(reply, false);
        }
        Ok(datagram.len())
    }

    fn recv(&mut self, buf: &mut [u8], _wait: Wait) -> Result<Datagram, Errno> {
        // Errors are for the replies to a batch, not for those to reading the generation.
        let for_batch = self
            .queue
            .front()
            .is_none_or(|reply| reply.bytes[4..6] == MsgType::ERROR.0.to_ne_bytes());
        if self.armed
            && for_batch
            && let Some(errno) = self.recv_errors.pop_front()
        {
            return Err(errno);
        }
        let reply = self.queue.pop_front().ok_or(Errno::EAGAIN)?;
        let len = reply.bytes.len().min(buf.len());
        buf[..len].copy_from_slice(&reply.bytes[..len]);
        Ok(Datagram {
            len,
            truncated: reply.truncated || len < reply.bytes.len(),
            sender: reply.sender,
        })
    }

    fn reserve(&mut self, _len: usize) -> Result<usize, Errno> {
        Ok(self.claimed_limit.unwrap_or(self.limit))
    }
}

/// An error, or with `None` an ack.
pub(crate) fn ack(request: &Header, errno: Option<Errno>) -> Vec<u8> {
    let mut bytes = vec![0; 16];
    bytes.extend_from_slice(&(-errno.map_or(0, |errno| errno.0)).to_ne_bytes());
    bytes.extend_from_slice(&request.to_bytes());
    seal(bytes, MsgType::ERROR, Flags::CAPPED, request.seq)
}

/// A part of a dump.
fn elements(keys: &[u32], generation: u32, seq: u32) -> Vec<u8> {
    let elems: Vec<Elem<'_>> = keys
        .iter()
        .map(|key| Elem::new(Value::u32_be(*key)))
        .collect();
    let mut list = ElemList::named("t", "m");
    list.elems = Some(Elems::new(&elems));
    let kind = MsgType::nft(NftMsg::NEW_SETELEM);
    let mut bytes = vec![0; 4096];
    let mut cursor = SliceCursor::new(&mut bytes);
    put_message(
        &mut cursor,
        &Head::nft(NftMsg::NEW_SETELEM, Family::IPV4),
        &list,
    )
    .unwrap();
    let len = cursor.written().len();
    bytes.truncate(len);
    bytes[18..20].copy_from_slice(&generation.to_be_bytes()[2..]);
    seal(bytes, kind, Flags::MULTI, seq)
}

fn generation(request: &Header, generation: u32) -> Vec<u8> {
    let mut attr = [0; 8];
    SliceCursor::new(&mut attr)
        .put_attr_bytes(1, &generation.to_be_bytes())
        .unwrap();
    let mut bytes = vec![0; 20];
    bytes.extend_from_slice(&attr);
    let kind = MsgType::nft(NftMsg::NEW_GEN);
    seal(bytes, kind, Flags::empty(), request.seq)
}

fn seal(mut bytes: Vec<u8>, kind: MsgType, flags: Flags, seq: u32) -> Vec<u8> {
    let header = Header {
        len: u32::try_from(bytes.len()).unwrap(),
        kind,
        flags,
        seq,
        port: PORT,
    };
    bytes[..16].copy_from_slice(&header.to_bytes());
    bytes
}

/// The generation that a begin message is for.
fn generation_of(begin: &[u8]) -> Option<u32> {
    let value = begin.get(24..28)?;
    Some(u32::from_be_bytes(value.try_into().unwrap()))
}
