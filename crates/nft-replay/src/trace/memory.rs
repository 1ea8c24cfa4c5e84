//! Reading the memory and registers of a stopped thread.

use std::io::IoSliceMut;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;

/// Longer datagrams are not sent (`sock_setsockopt`: the send buffer's limit is half of `INT_MAX`,
/// doubled).
const DATAGRAM_MAX: usize = 1 << 30;
/// `UIO_MAXIOV`.
const PIECES_MAX: usize = 1024;
/// Bytes of `struct msghdr` on a 64-bit machine.
pub(super) const MSGHDR: usize = 56;
/// Bytes of `struct mmsghdr`.
pub(super) const MMSGHDR: usize = 64;
const IOVEC: usize = 16;

/// Registers of a system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Registers {
    pub(super) number: u64,
    pub(super) args: [u64; 6],
    /// At the end of the call.
    pub(super) result: i64,
}

#[cfg(target_arch = "x86_64")]
pub(super) fn registers(pid: Pid) -> Option<Registers> {
    let regs = nix::sys::ptrace::getregs(pid).ok()?;
    Some(Registers {
        number: regs.orig_rax,
        args: [regs.rdi, regs.rsi, regs.rdx, regs.r10, regs.r8, regs.r9],
        result: i64::from_ne_bytes(regs.rax.to_ne_bytes()),
    })
}

#[cfg(target_arch = "aarch64")]
pub(super) fn registers(pid: Pid) -> Option<Registers> {
    let regs = nix::sys::ptrace::getregs(pid).ok()?.regs;
    Some(Registers {
        number: regs[8],
        args: [regs[0], regs[1], regs[2], regs[3], regs[4], regs[5]],
        result: i64::from_ne_bytes(regs[0].to_ne_bytes()),
    })
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) fn registers(_: Pid) -> Option<Registers> {
    None
}

/// Reads `len` bytes at `base`.
pub(super) fn bytes(pid: Pid, base: u64, len: usize) -> Option<Vec<u8>> {
    if len > DATAGRAM_MAX {
        return None;
    }
    let mut out = vec![0; len];
    let mut filled = 0;
    while let Some(rest) = out.get_mut(filled..)
        && !rest.is_empty()
    {
        let remote = RemoteIoVec {
            base: usize::try_from(base).ok()?.checked_add(filled)?,
            len: rest.len(),
        };
        let read = process_vm_readv(pid, &mut [IoSliceMut::new(rest)], &[remote]).ok()?;
        if read == 0 {
            return None;
        }
        filled += read;
    }
    Some(out)
}

/// What the `iovec`s of a `msghdr` at `base` point at, at most `len` bytes of it.
pub(super) fn message(pid: Pid, base: u64, len: usize) -> Option<Vec<u8>> {
    let header = bytes(pid, base, MSGHDR)?;
    let pieces = usize::try_from(word(&header, 24)?).ok()?.min(PIECES_MAX);
    let pieces = bytes(pid, word(&header, 16)?, pieces * IOVEC)?;
    let mut out = Vec::new();
    for piece in pieces.chunks_exact(IOVEC) {
        let wanted = len - out.len();
        let size = usize::try_from(word(piece, 8)?).ok()?.min(wanted);
        if size == 0 {
            continue;
        }
        if out.len() + size > DATAGRAM_MAX {
            return None;
        }
        out.extend(bytes(pid, word(piece, 0)?, size)?);
    }
    Some(out)
}

/// Length in the `mmsghdr` at `base`.
pub(super) fn message_len(pid: Pid, base: u64) -> Option<usize> {
    let len = bytes(pid, base.checked_add(56)?, 4)?;
    usize::try_from(u32::from_ne_bytes(*len.first_chunk()?)).ok()
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}
