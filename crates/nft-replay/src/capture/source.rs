//! A file read front to back, with its offset.

use std::io::{ErrorKind, Read};

use super::Fault;

/// Blocks are read in pieces of this size, so that a length out of thin air costs no memory.
const PIECE: usize = 64 << 10;

#[derive(Debug)]
pub(super) struct Source<R> {
    input: R,
    offset: u64,
}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        Self { input, offset: 0 }
    }

    /// Bytes read so far.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let mut bytes = [0; N];
        if self.fill(&mut bytes)? == N {
            Ok(bytes)
        } else {
            Err(Fault::Truncated)
        }
    }

    /// As [`array`](Self::array); `None` at the end of the file.
    pub(super) fn array_or_end<const N: usize>(&mut self) -> Result<Option<[u8; N]>, Fault> {
        let mut bytes = [0; N];
        match self.fill(&mut bytes)? {
            0 => Ok(None),
            n if n == N => Ok(Some(bytes)),
            _ => Err(Fault::Truncated),
        }
    }

    pub(super) fn bytes(&mut self, len: usize, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.clear();
        while out.len() < len {
            let at = out.len();
            out.resize(len.min(at + PIECE), 0);
            let piece = out.get_mut(at..).unwrap_or_default();
            let wanted = piece.len();
            if self.fill(piece)? < wanted {
                return Err(Fault::Truncated);
            }
        }
        Ok(())
    }

    /// Fills `buf` as far as the file goes.
    fn fill(&mut self, buf: &mut [u8]) -> Result<usize, Fault> {
        let mut filled = 0;
        while let Some(rest) = buf.get_mut(filled..)
            && !rest.is_empty()
        {
            match self.input.read(rest) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(Fault::Io(error.kind())),
            }
        }
        self.offset += u64::try_from(filled).unwrap_or(u64::MAX);
        Ok(filled)
    }
}

/// Byte order of a file's own numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Host,
    Swapped,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> Option<u16> {
        let value = u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(match self {
            Self::Host => value,
            Self::Swapped => value.swap_bytes(),
        })
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let value = u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?);
        Some(match self {
            Self::Host => value,
            Self::Swapped => value.swap_bytes(),
        })
    }
}
