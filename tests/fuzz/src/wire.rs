//! A transport that answers with the input, cut into datagrams.
//!
//! ```text
//! datagram = flags u8 | length u16 (little endian) | that many bytes, or what there is
//! ```

use std::collections::VecDeque;
use std::io::IoSlice;

use nft_batch::{Datagram, Errno, Transport, Wait};
use nl_codec::msg::{Flags, Header, Messages, MsgType};

/// Our port.
const PORT: u32 = 4242;

/// The datagram is from another process.
const FOREIGN: u8 = 1;
/// It did not fit the buffer.
const TRUNCATED: u8 = 2;
/// Sequence numbers and ports are as they are in the input; without this they are made to fit the
/// request that is under way, else next to nothing would.
const AS_IT_IS: u8 = 4;
/// Nothing is queued before it.
const LATER: u8 = 8;
/// An error comes before it.
const LOST: u8 = 16;

/// See the module.
#[derive(Debug)]
pub(crate) struct Wire {
    queue: VecDeque<(u8, Vec<u8>)>,
    /// Sequence number of the first message of the last request.
    seq: u32,
    end_ack: bool,
    /// The next batch is the one by which a connection asks whether its end is acknowledged.
    fresh: bool,
    answer: Option<Vec<u8>>,
    limit: usize,
}

impl Wire {
    /// The first byte says what kernel it is.
    pub(crate) fn new(input: &[u8]) -> Self {
        let (kernel, mut rest) = input.split_first().unwrap_or((&0, &[]));
        let mut queue = VecDeque::new();
        while let Some((header, tail)) = rest.split_first_chunk::<3>() {
            let len = usize::from(u16::from_le_bytes([header[1], header[2]]));
            let (bytes, tail) = tail.split_at(len.min(tail.len()));
            queue.push_back((header[0], bytes.to_vec()));
            rest = tail;
        }
        Self {
            queue,
            seq: 0,
            end_ack: kernel & 1 == 0,
            fresh: true,
            answer: None,
            limit: if kernel & 2 == 0 { usize::MAX } else { 200 },
        }
    }

    /// Without a request to be answered.
    pub(crate) fn listening(input: &[u8]) -> Self {
        Self {
            fresh: false,
            ..Self::new(input)
        }
    }
}

impl Transport for Wire {
    fn port(&self) -> u32 {
        PORT
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let headers: Vec<Header> = Messages::new(&datagram)
            .map(|msg| match msg {
                Ok(msg) => msg.header,
                Err(error) => panic!("a malformed request: {error}"),
            })
            .collect();
        let [first, .., last] = headers.as_slice() else {
            if let [only] = headers.as_slice() {
                self.seq = only.seq;
            }
            return Ok(datagram.len());
        };
        self.seq = first.seq;
        if core::mem::take(&mut self.fresh) && self.end_ack {
            self.answer = Some(ack(last));
        }
        Ok(datagram.len())
    }

    fn recv(&mut self, buf: &mut [u8], _wait: Wait) -> Result<Datagram, Errno> {
        if let Some(answer) = self.answer.take() {
            return Ok(put(buf, &answer, 0));
        }
        if self.fresh {
            return Err(Errno::EAGAIN);
        }
        let Some((flags, bytes)) = self.queue.front_mut() else {
            return Err(Errno::EAGAIN);
        };
        for (flag, errno) in [(LATER, Errno::EAGAIN), (LOST, Errno::ENOBUFS)] {
            if *flags & flag != 0 {
                *flags &= !flag;
                return Err(errno);
            }
        }
        let (flags, mut bytes) = (*flags, core::mem::take(bytes));
        self.queue.pop_front();
        if flags & AS_IT_IS == 0 {
            fit(&mut bytes, self.seq);
        }
        Ok(put(buf, &bytes, flags))
    }

    fn reserve(&mut self, _len: usize) -> Result<usize, Errno> {
        Ok(self.limit)
    }
}

fn put(buf: &mut [u8], bytes: &[u8], flags: u8) -> Datagram {
    let len = bytes.len().min(buf.len());
    buf[..len].copy_from_slice(&bytes[..len]);
    Datagram {
        len,
        truncated: flags & TRUNCATED != 0 || len < bytes.len(),
        sender: if flags & FOREIGN == 0 { 0 } else { 77 },
    }
}

/// Makes messages answers to the request that began with `seq`: their own sequence numbers become
/// distances from it.
fn fit(bytes: &mut [u8], seq: u32) {
    let places: Vec<(usize, Header)> = Messages::new(bytes)
        .map_while(Result::ok)
        .map(|msg| (msg.offset, msg.header))
        .collect();
    for (at, header) in places {
        let number = seq.wrapping_add(header.seq % 8);
        bytes[at + 8..at + 12].copy_from_slice(&number.to_ne_bytes());
        bytes[at + 12..at + 16].copy_from_slice(&PORT.to_ne_bytes());
    }
}

fn ack(request: &Header) -> Vec<u8> {
    let header = Header {
        len: 36,
        kind: MsgType::ERROR,
        flags: Flags::CAPPED,
        seq: request.seq,
        port: PORT,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&request.to_bytes());
    bytes
}
