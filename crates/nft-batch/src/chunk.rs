//! Pooled buffers that messages are encoded into.

/// Room for the headers of an element message and one full element list (65,535 bytes).
pub(crate) const MESSAGE_ROOM: usize = 68 << 10;
/// A lane's first buffer: most transactions are small.
const SMALL: usize = 4 << 10;
/// Later buffers: four full element messages. A datagram is at most 1,024 of them (`UIO_MAXIOV`).
const LARGE: usize = 4 * MESSAGE_ROOM;
/// What a recycled batch keeps, so that one huge transaction does not hold memory for ever:
/// 64 small (256 KiB) and 16 large (4.25 MiB) buffers.
const KEEP_SMALL: usize = 64;
const KEEP_LARGE: usize = 16;

/// A buffer filled from the front with whole messages.
#[derive(Debug)]
pub(crate) struct Chunk {
    buf: Box<[u8]>,
    used: usize,
}

impl Chunk {
    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn room(&self) -> usize {
        self.buf.len().saturating_sub(self.used)
    }

    /// Bytes `start..start + len`; empty when out of range.
    pub(crate) fn bytes(&self, start: usize, len: usize) -> &[u8] {
        self.buf
            .get(start..start.saturating_add(len))
            .unwrap_or_default()
    }

    pub(crate) fn bytes_mut(&mut self, start: usize, len: usize) -> &mut [u8] {
        self.buf
            .get_mut(start..start.saturating_add(len))
            .unwrap_or_default()
    }

    /// Everything behind `start`, used or not.
    pub(crate) fn tail_mut(&mut self, start: usize) -> &mut [u8] {
        self.buf.get_mut(start..).unwrap_or_default()
    }

    pub(crate) fn set_used(&mut self, used: usize) {
        self.used = used.min(self.buf.len());
    }
}

/// Free buffers, in two sizes.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    small: Vec<Box<[u8]>>,
    large: Vec<Box<[u8]>>,
}

impl Pool {
    pub(crate) fn take_small(&mut self) -> Chunk {
        Chunk {
            buf: self.small.pop().unwrap_or_else(|| zeroed(SMALL)),
            used: 0,
        }
    }

    pub(crate) fn take_large(&mut self) -> Chunk {
        Chunk {
            buf: self.large.pop().unwrap_or_else(|| zeroed(LARGE)),
            used: 0,
        }
    }

    pub(crate) fn put(&mut self, chunk: Chunk) {
        let (list, keep) = if chunk.buf.len() == SMALL {
            (&mut self.small, KEEP_SMALL)
        } else {
            (&mut self.large, KEEP_LARGE)
        };
        if list.len() < keep {
            list.push(chunk.buf);
        }
    }
}

fn zeroed(len: usize) -> Box<[u8]> {
    vec![0; len].into_boxed_slice()
}
