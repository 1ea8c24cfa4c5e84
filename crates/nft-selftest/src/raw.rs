//! Batches of messages as they are written here, sensible or not, and the kernel's answer to each.

use std::io::IoSlice;

use nft_batch::{Errno, Socket, Transport as _, Wait};
use nl_codec::ack::Control;
use nl_codec::msg::{
    Body, Family, Flags, Head, Messages, NftMsg, put_batch_begin, put_batch_end, put_message,
};
use nl_codec::{EncodeError, SliceCursor};

use crate::Stop;
use crate::verdict::{check, check_eq};

/// A batch under construction; message n has the sequence number n, from 1. What cannot be encoded
/// is reported when it is sent.
pub(crate) struct Raw {
    buf: Vec<u8>,
    used: usize,
    count: u32,
    family: Family,
    failed: Option<EncodeError>,
}

/// The answer to one message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The message's number, 0 for the batch.
    pub(crate) seq: u32,
    /// Nothing is success.
    pub(crate) error: Option<Errno>,
    /// The byte of the message at which the kernel points.
    pub(crate) offset: Option<u32>,
}

impl Raw {
    /// An empty one for tables of IPv4.
    pub(crate) fn new() -> Self {
        Self::of(Family::IPV4, None)
    }

    /// An empty one for tables of a family, for the generation given.
    pub(crate) fn of(family: Family, generation: Option<u32>) -> Self {
        let mut raw = Self {
            buf: vec![0; 1 << 20],
            used: 0,
            count: 0,
            family,
            failed: None,
        };
        raw.put(|cursor| put_batch_begin(cursor, 0, generation));
        raw
    }

    fn put(&mut self, encode: impl FnOnce(&mut SliceCursor<'_>) -> Result<(), EncodeError>) {
        let rest = self.buf.get_mut(self.used..).unwrap_or_default();
        let mut cursor = SliceCursor::new(rest);
        match encode(&mut cursor) {
            Ok(()) => self.used += cursor.written().len(),
            Err(error) => self.failed = Some(error),
        }
    }

    /// Appends a message that asks for an ack.
    pub(crate) fn message<'a>(mut self, msg: NftMsg, flags: Flags, body: &impl Body<'a>) -> Self {
        self.count += 1;
        let head = Head::nft(msg, self.family)
            .with_flags(flags | Flags::ACK)
            .with_seq(self.count);
        self.put(|cursor| put_message(cursor, &head, body));
        self
    }

    /// Appends a message that creates.
    pub(crate) fn new_<'a>(self, msg: NftMsg, body: &impl Body<'a>) -> Self {
        self.message(msg, Flags::CREATE, body)
    }

    /// Appends a message that reads, changes or deletes.
    pub(crate) fn plain<'a>(self, msg: NftMsg, body: &impl Body<'a>) -> Self {
        self.message(msg, Flags::empty(), body)
    }

    /// The bytes of the batch, with its end or, for a dry run, without.
    pub(crate) fn bytes(mut self, end: bool) -> Result<(Vec<u8>, u32), Stop> {
        let count = self.count;
        if end {
            self.put(|cursor| put_batch_end(cursor, count + 1, Flags::empty()));
        }
        if let Some(error) = self.failed {
            return Err(error.into());
        }
        self.buf.truncate(self.used);
        Ok((self.buf, count))
    }

    /// Sends it; every answer, in the order of their arrival.
    pub(crate) fn answers(self, socket: &mut Socket) -> Result<Vec<Answer>, Stop> {
        let (bytes, _) = self.bytes(true)?;
        send(socket, &bytes)?;
        answers(socket)
    }

    /// Sends it; the answer to each message, nothing is success.
    pub(crate) fn send(self, socket: &mut Socket) -> Result<Vec<Option<Errno>>, Stop> {
        let count = usize::try_from(self.count)?;
        let mut errors = vec![None; count];
        let mut answered = vec![false; count];
        for answer in self.answers(socket)? {
            let Some(at) = answer.seq.checked_sub(1) else {
                return Err(Stop::Fail(format!("the batch is refused: {answer:?}")));
            };
            let at = usize::try_from(at)?;
            // The end has no place: kernels that acknowledge it do so unasked for nothing.
            if let (Some(error), Some(answered)) = (errors.get_mut(at), answered.get_mut(at)) {
                *error = error.or(answer.error);
                *answered = true;
            }
        }
        check!(answered.iter().all(|it| *it), "no answer to some message");
        Ok(errors)
    }

    /// Sends it; everything must be accepted.
    pub(crate) fn accepted(self, socket: &mut Socket) -> Result<(), Stop> {
        let answers = self.send(socket)?;
        check!(answers.iter().all(Option::is_none), "refused: {answers:?}");
        Ok(())
    }

    /// Sends it and returns the only answer that is no success.
    pub(crate) fn refused(self, socket: &mut Socket) -> Result<Errno, Stop> {
        let answers = self.send(socket)?;
        let errors: Vec<Errno> = answers.iter().flatten().copied().collect();
        match errors.as_slice() {
            [error] => Ok(*error),
            _ => Err(Stop::Fail(format!("not one refusal but {answers:?}"))),
        }
    }

    /// Sends it; it must be refused, for one of these reasons.
    pub(crate) fn refused_with(self, socket: &mut Socket, errors: &[Errno]) -> Result<(), Stop> {
        let refused = self.refused(socket)?;
        check!(errors.contains(&refused), "{refused}, not {errors:?}");
        Ok(())
    }
}

/// Sends a datagram.
pub(crate) fn send(socket: &mut Socket, bytes: &[u8]) -> Result<(), Stop> {
    let sent = socket.send(&[IoSlice::new(bytes)]);
    sent.map(drop).map_err(|errno| system("send", errno))
}

/// A system call failed.
pub(crate) fn system(what: &str, errno: Errno) -> Stop {
    Stop::Fail(format!("{what}: {errno}"))
}

/// What is queued on a socket.
pub(crate) fn answers(socket: &mut Socket) -> Result<Vec<Answer>, Stop> {
    let mut answers = Vec::new();
    let mut buf = vec![0; 65_536];
    loop {
        // Not waiting: the send has handled everything.
        let datagram = match socket.recv(&mut buf, Wait::No) {
            Ok(datagram) => datagram,
            Err(Errno::EAGAIN) => return Ok(answers),
            Err(errno) => return Err(system("receive", errno)),
        };
        check!(!datagram.truncated);
        check_eq!(datagram.sender, 0);
        for msg in Messages::new(buf.get(..datagram.len).unwrap_or_default()) {
            let msg = msg?;
            if let Some(Control::Ack(ack)) = Control::decode(&msg)? {
                answers.push(Answer {
                    seq: msg.header.seq,
                    error: ack.error,
                    offset: ack.extended.offset,
                });
            }
        }
    }
}
