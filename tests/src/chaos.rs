//! A socket that fails and delays on purpose, by a seed, over the real one.

use std::{
    collections::{BTreeMap, VecDeque},
    io::IoSlice,
};

use nft_batch::{Datagram, Errno, Socket, Transport, Wait};
use nl_codec::msg::{Messages, MsgType};

use crate::dice::Dice;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// `sendmsg`: EINTR, nothing was sent.
    SendInterrupted,
    /// `sendmsg`: EAGAIN, nothing was sent.
    SendAgain,
    /// `sendmsg`: ENOBUFS, nothing was sent.
    SendNoBuffer,
    /// `sendmsg`: ENOMEM, nothing was sent.
    SendNoMemory,
    /// `sendmsg` succeeds, and the kernel gets nothing.
    BatchLost,
    /// The kernel refuses a batch as a whole: ENOMEM, with the number of its first message.
    NoMemory,
    /// As before: EPERM.
    NotPermitted,
    /// As before: ERESTART.
    Restart,
    /// The commit fails: ENOMEM, with the number of the first operation.
    CommitFailed,
    /// The kernel commits or refuses; what it says of it is lost without a trace.
    AckLost,
    /// As before, and `recvmsg` says ENOBUFS.
    RepliesLost,
    /// What the kernel says of a batch comes when the next question is asked.
    RepliesLate,
    /// The datagrams of an answer come in another order.
    Reordered,
    /// Each datagram of an answer comes twice.
    Repeated,
    /// A datagram does not fit the buffer.
    Truncated,
    /// `recvmsg`: EINTR.
    RecvInterrupted,
    /// `recvmsg`: ENOBUFS, although nothing was lost.
    RecvNoBuffer,
}

/// What can become of a batch.
const OF_BATCHES: [Fault; 15] = [
    Fault::SendInterrupted,
    Fault::SendAgain,
    Fault::SendNoBuffer,
    Fault::SendNoMemory,
    Fault::BatchLost,
    Fault::NoMemory,
    Fault::NotPermitted,
    Fault::Restart,
    Fault::CommitFailed,
    Fault::AckLost,
    Fault::RepliesLost,
    Fault::RepliesLate,
    Fault::Reordered,
    Fault::Repeated,
    Fault::Truncated,
];
/// What can become of another request.
const OF_REQUESTS: [Fault; 5] = [
    Fault::SendInterrupted,
    Fault::SendAgain,
    Fault::SendNoBuffer,
    Fault::SendNoMemory,
    Fault::AckLost,
];
/// What can happen to a datagram that is to be received.
const OF_DATAGRAMS: [Fault; 3] = [
    Fault::RecvInterrupted,
    Fault::RecvNoBuffer,
    Fault::Truncated,
];
/// Longest run of ERESTART: others commit all the time.
const STORM: u64 = 12;
/// Requests and datagrams are the many, batches the few that matter.
const RARER: u64 = 8;

/// See the module.
#[derive(Debug)]
pub struct Chaos {
    socket: Socket,
    dice: Dice,
    /// One batch in so many meets a fault; none if 0.
    one_in: u64,
    /// Batches still to be refused with ERESTART.
    storm: u64,
    /// To be received before anything else.
    ready: VecDeque<Vec<u8>>,
    /// To be received after the next request.
    late: VecDeque<Vec<u8>>,
    /// Errors of `recvmsg` to come.
    errors: Vec<Errno>,
    /// The next datagram is cut.
    cut: bool,
    /// The answer to what was asked is not to come.
    mute: bool,
    happened: BTreeMap<Fault, u32>,
}

impl Chaos {
    /// A socket that fails only once it is [stirred](Self::stir).
    #[must_use]
    pub fn new(socket: Socket, seed: u64) -> Self {
        Self {
            socket,
            dice: Dice::new(seed),
            one_in: 0,
            storm: 0,
            ready: VecDeque::new(),
            late: VecDeque::new(),
            errors: Vec::new(),
            cut: false,
            mute: false,
            happened: BTreeMap::new(),
        }
    }

    /// From here on one batch in so many meets a fault, and one in eight times as many of other
    /// requests and of datagrams.
    pub fn stir(&mut self, one_in: u64) {
        self.one_in = one_in;
    }

    /// From here on nothing goes wrong any more; what is late still comes.
    pub fn calm(&mut self) {
        self.one_in = 0;
        self.storm = 0;
    }

    /// How often each fault happened.
    #[must_use]
    pub fn happened(&self) -> &BTreeMap<Fault, u32> {
        &self.happened
    }

    fn fault(&mut self, of: &[Fault], rarer: u64) -> Option<Fault> {
        if self.one_in == 0 || self.dice.below(self.one_in * rarer) != 0 {
            return None;
        }
        let count = u64::try_from(of.len()).unwrap_or(1);
        let fault = usize::try_from(self.dice.below(count))
            .ok()
            .and_then(|at| of.get(at))
            .copied();
        if let Some(fault) = fault {
            *self.happened.entry(fault).or_default() += 1;
        }
        fault
    }

    fn batch(&mut self, datagram: &[u8]) -> Result<usize, Errno> {
        if self.storm > 0 {
            self.storm -= 1;
            return Ok(self.refuse(datagram, 0, Errno::ERESTART));
        }
        let fault = self.fault(&OF_BATCHES, 1);
        match fault {
            None => {}
            Some(Fault::BatchLost) => return Ok(datagram.len()),
            Some(Fault::NoMemory) => return Ok(self.refuse(datagram, 0, Errno::ENOMEM)),
            Some(Fault::NotPermitted) => return Ok(self.refuse(datagram, 0, Errno::EPERM)),
            Some(Fault::CommitFailed) => return Ok(self.refuse(datagram, 1, Errno::ENOMEM)),
            Some(Fault::Restart) => {
                self.storm = self.dice.below(STORM);
                return Ok(self.refuse(datagram, 0, Errno::ERESTART));
            }
            Some(fault) => {
                if let Some(errno) = of_sending(fault) {
                    return Err(errno);
                }
            }
        }
        let sent = self.socket.send(&[IoSlice::new(datagram)])?;
        if let Some(fault) = fault {
            // By now the kernel has said all that it has to say.
            let answer = self.received();
            match fault {
                Fault::RepliesLost => self.errors.push(Errno::ENOBUFS),
                Fault::RepliesLate => self.late.extend(answer),
                Fault::Reordered => self.ready.extend(answer.into_iter().rev()),
                Fault::Repeated => {
                    let twice = answer.into_iter().flat_map(|it| [it.clone(), it]);
                    self.ready.extend(twice);
                }
                Fault::Truncated => {
                    self.cut = true;
                    self.ready.extend(answer);
                }
                // The acknowledgement is lost.
                _ => {}
            }
        }
        Ok(sent)
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        let mut buf = vec![0; 1 << 16];
        while let Ok(datagram) = self.socket.recv(&mut buf, Wait::No) {
            all.push(buf.get(..datagram.len).unwrap_or_default().to_vec());
        }
        all
    }

    /// Answers as the kernel would, with the number of the nth message of the batch.
    fn refuse(&mut self, datagram: &[u8], message: usize, errno: Errno) -> usize {
        if let Some(Ok(message)) = Messages::new(datagram).nth(message) {
            let mut answer = Vec::new();
            answer.extend_from_slice(&36_u32.to_ne_bytes());
            answer.extend_from_slice(&MsgType::ERROR.0.to_ne_bytes());
            answer.extend_from_slice(&0x100_u16.to_ne_bytes());
            answer.extend_from_slice(&message.header.seq.to_ne_bytes());
            answer.extend_from_slice(&self.port().to_ne_bytes());
            answer.extend_from_slice(&(-errno.0).to_ne_bytes());
            answer.extend_from_slice(&message.header.to_bytes());
            self.ready.push_back(answer);
        }
        datagram.len()
    }
}

impl Transport for Chaos {
    fn port(&self) -> u32 {
        self.socket.port()
    }

    fn send(&mut self, parts: &[IoSlice<'_>]) -> Result<usize, Errno> {
        let datagram: Vec<u8> = parts.iter().flat_map(|part| part.iter().copied()).collect();
        let first = Messages::new(&datagram).next();
        let is_batch =
            first.is_some_and(|msg| msg.is_ok_and(|msg| msg.header.kind == MsgType::BATCH_BEGIN));
        self.mute = false;
        let late = core::mem::take(&mut self.late);
        self.ready.extend(late);
        if is_batch {
            return self.batch(&datagram);
        }
        match self.fault(&OF_REQUESTS, RARER) {
            Some(Fault::AckLost) => self.mute = true,
            Some(fault) => {
                if let Some(errno) = of_sending(fault) {
                    return Err(errno);
                }
            }
            None => {}
        }
        self.socket.send(&[IoSlice::new(&datagram)])
    }

    fn recv(&mut self, buf: &mut [u8], wait: Wait) -> Result<Datagram, Errno> {
        if let Some(error) = self.errors.pop() {
            return Err(error);
        }
        let mut cut = core::mem::take(&mut self.cut);
        match self.fault(&OF_DATAGRAMS, RARER) {
            Some(Fault::RecvInterrupted) => return Err(Errno::EINTR),
            Some(Fault::RecvNoBuffer) => return Err(Errno::ENOBUFS),
            Some(_) => cut = true,
            None => {}
        }
        if self.mute {
            drop(self.received());
        }
        let mut datagram = match self.ready.pop_front() {
            Some(answer) => {
                let len = answer.len().min(buf.len());
                if let (Some(to), Some(from)) = (buf.get_mut(..len), answer.get(..len)) {
                    to.copy_from_slice(from);
                }
                Datagram {
                    len,
                    truncated: len < answer.len(),
                    sender: 0,
                }
            }
            None => self.socket.recv(buf, wait)?,
        };
        if cut {
            datagram.len /= 2;
            datagram.truncated = true;
        }
        Ok(datagram)
    }

    fn reserve(&mut self, len: usize) -> Result<usize, Errno> {
        self.socket.reserve(len)
    }
}

/// What `sendmsg` says.
const fn of_sending(fault: Fault) -> Option<Errno> {
    match fault {
        Fault::SendInterrupted => Some(Errno::EINTR),
        Fault::SendAgain => Some(Errno::EAGAIN),
        Fault::SendNoBuffer => Some(Errno::ENOBUFS),
        Fault::SendNoMemory => Some(Errno::ENOMEM),
        _ => None,
    }
}
