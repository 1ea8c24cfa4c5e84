//! One system call of a traced thread.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use nft_batch::Errno;
use nft_batch::record::Direction;
use nix::libc;
use nix::unistd::Pid;
use nl_codec::msg::{Header, MsgType, Subsystem};

use super::memory::{self, MMSGHDR};
use super::process::{nfnetlink_port, process_of};
use crate::capture::Packet;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    SendTo,
    SendMsg,
    SendMMsg,
    RecvFrom,
    RecvMsg,
    RecvMMsg,
}

/// A call that a thread is in.
#[derive(Debug)]
pub(super) struct Call {
    kind: Kind,
    args: [u64; 6],
    process: Pid,
    when: SystemTime,
    started: Instant,
    /// What is being sent.
    sent: Vec<Vec<u8>>,
}

impl Call {
    /// Looks at the call that the thread is about to make; `None` if it is of no interest.
    pub(super) fn enter(pid: Pid) -> Option<Self> {
        let registers = memory::registers(pid)?;
        let kind = match i64::try_from(registers.number).ok()? {
            libc::SYS_sendto => Kind::SendTo,
            libc::SYS_sendmsg => Kind::SendMsg,
            libc::SYS_sendmmsg => Kind::SendMMsg,
            libc::SYS_recvfrom => Kind::RecvFrom,
            libc::SYS_recvmsg => Kind::RecvMsg,
            libc::SYS_recvmmsg => Kind::RecvMMsg,
            _ => return None,
        };
        let args = registers.args;
        let process = process_of(pid);
        nfnetlink_port(pid, process, args[0])?;
        let sent = match kind {
            Kind::SendTo => vec![memory::bytes(pid, args[1], usize::try_from(args[2]).ok()?)?],
            Kind::SendMsg => vec![memory::message(pid, args[1], usize::MAX)?],
            Kind::SendMMsg => (0..args[2].min(1024))
                .map_while(|index| memory::message(pid, element(args[1], index)?, usize::MAX))
                .collect(),
            Kind::RecvFrom | Kind::RecvMsg | Kind::RecvMMsg => Vec::new(),
        };
        Some(Self {
            kind,
            args,
            process,
            when: SystemTime::now(),
            started: Instant::now(),
            sent,
        })
    }

    /// The datagrams that the call has sent or received.
    pub(super) fn leave(self, pid: Pid) -> Vec<Packet> {
        let took = self.started.elapsed();
        let Some(registers) = memory::registers(pid) else {
            return Vec::new();
        };
        let Some(port) = nfnetlink_port(pid, self.process, self.args[0]) else {
            return Vec::new();
        };
        let datagrams = match self.kind {
            Kind::SendTo | Kind::SendMsg | Kind::SendMMsg => {
                return self.sent(registers.result, port, pid, took);
            }
            Kind::RecvFrom | Kind::RecvMsg | Kind::RecvMMsg => self.received(registers.result, pid),
        };
        let now = since_epoch(SystemTime::now());
        let datagrams = datagrams
            .into_iter()
            .filter(|(bytes, _)| is_ours(bytes, true));
        datagrams
            .map(|(bytes, len)| {
                let mut packet = Packet::new(Direction::ToUser, bytes);
                packet.len = packet.len.max(len);
                self.describe(packet, port, pid, now)
            })
            .collect()
    }

    fn sent(mut self, result: i64, port: u32, pid: Pid, took: Duration) -> Vec<Packet> {
        // What is interrupted is begun again, or never was.
        let error = match result.checked_neg() {
            Some(512..=516 | 4 | 11) => return Vec::new(),
            Some(errno @ 1..) => i32::try_from(errno).ok().map(Errno),
            _ => None,
        };
        let count = match (self.kind, error) {
            (Kind::SendMMsg, None) => usize::try_from(result).unwrap_or_default(),
            (Kind::SendMMsg, Some(_)) => 1,
            _ => self.sent.len(),
        };
        let when = since_epoch(self.when);
        let sent = core::mem::take(&mut self.sent);
        let sent = sent
            .into_iter()
            .take(count)
            .filter(|bytes| is_ours(bytes, false));
        sent.map(|bytes| {
            let packet = Packet::new(Direction::ToKernel, bytes);
            let mut packet = self.describe(packet, port, pid, when);
            packet.took = Some(took);
            packet.send_error = error;
            packet
        })
        .collect()
    }

    /// Datagrams, and their lengths before they were cut off.
    fn received(&self, result: i64, pid: Pid) -> Vec<(Vec<u8>, usize)> {
        let Ok(result) = usize::try_from(result) else {
            return Vec::new();
        };
        let flags = match self.kind {
            Kind::RecvMsg => self.args[2],
            _ => self.args[3],
        };
        // What is only looked at is received later.
        let peek = u64::try_from(libc::MSG_PEEK).unwrap_or_default();
        if flags & peek != 0 {
            return Vec::new();
        }
        let room = usize::try_from(self.args[2]).unwrap_or_default();
        let read = match self.kind {
            Kind::RecvFrom => vec![(memory::bytes(pid, self.args[1], result.min(room)), result)],
            Kind::RecvMsg => vec![(memory::message(pid, self.args[1], result), result)],
            _ => (0..u64::try_from(result).unwrap_or_default())
                .filter_map(|index| {
                    let at = element(self.args[1], index)?;
                    let len = memory::message_len(pid, at)?;
                    Some((memory::message(pid, at, len), len))
                })
                .collect(),
        };
        read.into_iter()
            .filter_map(|(bytes, len)| Some((bytes?, len)))
            .collect()
    }

    fn describe(&self, mut packet: Packet, port: u32, pid: Pid, when: Duration) -> Packet {
        packet.when = when;
        packet.port = Some(port);
        packet.process = u32::try_from(self.process.as_raw()).unwrap_or_default();
        packet.thread = u32::try_from(pid.as_raw()).unwrap_or_default();
        packet
    }
}

/// Where the element of an array of `mmsghdr`s is.
fn element(base: u64, index: u64) -> Option<u64> {
    base.checked_add(index.checked_mul(u64::try_from(MMSGHDR).ok()?)?)
}

fn since_epoch(time: SystemTime) -> Duration {
    time.duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whether a datagram is about nf_tables. Errors and ends of dumps say nothing of that.
fn is_ours(bytes: &[u8], reply: bool) -> bool {
    Header::decode(bytes).is_ok_and(|header| {
        let kind = header.kind;
        kind == MsgType::BATCH_BEGIN
            || [Subsystem::NFTABLES, Subsystem::NFT_COMPAT].contains(&kind.subsystem())
            || (reply && kind.is_control())
    })
}
