//! Batches of messages that the engine would not make, to see what the kernel does with them.

use std::io::IoSlice;

use nft_batch::{Errno, Socket, Transport, Wait};
use nl_codec::SliceCursor;
use nl_codec::ack::Control;
use nl_codec::msg::{
    Body, Flags, Head, Messages, NftMsg, put_batch_begin, put_batch_end, put_message,
};

use super::IP;

/// A batch under construction; message n has the sequence number n, from 1.
pub(crate) struct Raw {
    buf: Vec<u8>,
    used: usize,
    count: u32,
}

impl Raw {
    pub(crate) fn new() -> Self {
        let mut raw = Self {
            buf: vec![0; 1 << 20],
            used: 0,
            count: 0,
        };
        raw.put(|cursor| put_batch_begin(cursor, 0, None));
        raw
    }

    fn put(
        &mut self,
        encode: impl FnOnce(&mut SliceCursor<'_>) -> Result<(), nl_codec::EncodeError>,
    ) {
        let mut cursor = SliceCursor::new(&mut self.buf[self.used..]);
        encode(&mut cursor).unwrap();
        self.used += cursor.written().len();
    }

    /// Appends a message that asks for an ack.
    pub(crate) fn message<'a>(mut self, msg: NftMsg, flags: Flags, body: &impl Body<'a>) -> Self {
        self.count += 1;
        let head = Head::nft(msg, IP)
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

    /// Sends it and returns the answer to each message, `None` is success.
    pub(crate) fn send(mut self, socket: &mut Socket) -> Vec<Option<Errno>> {
        let seq = self.count + 1;
        self.put(|cursor| put_batch_end(cursor, seq, Flags::empty()));
        socket
            .send(&[IoSlice::new(&self.buf[..self.used])])
            .unwrap();
        let count = usize::try_from(self.count).unwrap();
        let mut answers = vec![None; count];
        let mut answered = vec![false; count];
        let mut buf = vec![0; 65_536];
        while let Ok(datagram) = socket.recv(&mut buf, Wait::No) {
            for msg in Messages::new(&buf[..datagram.len]) {
                let msg = msg.unwrap();
                if let Some(Control::Ack(ack)) = Control::decode(&msg).unwrap()
                    && let Some(at) = msg.header.seq.checked_sub(1)
                {
                    let at = usize::try_from(at).unwrap();
                    answers[at] = answers[at].or(ack.error);
                    answered[at] = true;
                }
            }
        }
        assert!(answered.iter().all(|it| *it), "no answer to some message");
        answers
    }

    /// Sends it; everything must be accepted.
    pub(crate) fn accepted(self, socket: &mut Socket) {
        let answers = self.send(socket);
        assert!(answers.iter().all(Option::is_none), "{answers:?}");
    }

    /// Sends it and returns the only answer that is no success.
    pub(crate) fn refused(self, socket: &mut Socket) -> Errno {
        let answers = self.send(socket);
        let errors: Vec<Errno> = answers.iter().flatten().copied().collect();
        assert_eq!(errors.len(), 1, "{answers:?}");
        errors[0]
    }
}
