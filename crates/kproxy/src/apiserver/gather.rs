//! Bytes that come in pieces, and things that may begin in one and end in another.

/// The longest object, and the most that is held of what is not complete yet. The API server takes
/// objects of 3 MiB at most (etcd's and its own limits), in a protobuf that JSON makes up to thrice
/// as long.
pub(in crate::apiserver) const MOST: usize = 16 << 20;

/// What has come in of something that is not complete yet.
#[derive(Debug, Default)]
pub(in crate::apiserver) struct Gathered(Vec<u8>);

impl Gathered {
    /// Takes the next piece. `take` gets all that is there and says how much of it it is done with,
    /// `None` if it needs more. Whole things are not copied.
    pub(in crate::apiserver) fn push<E>(
        &mut self,
        piece: &[u8],
        mut take: impl FnMut(&[u8]) -> Result<Option<usize>, E>,
    ) -> Result<(), E> {
        if self.0.is_empty() {
            let done = drive(piece, &mut take)?;
            self.0
                .extend_from_slice(piece.get(done..).unwrap_or_default());
        } else {
            self.0.extend_from_slice(piece);
            let done = drive(&self.0, &mut take)?;
            self.0.drain(..done);
        }
        // One long object leaves no long buffer behind.
        if self.0.len() < KEEP && self.0.capacity() > 4 * KEEP {
            self.0.shrink_to(KEEP);
        }
        Ok(())
    }

    pub(in crate::apiserver) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

const KEEP: usize = 64 << 10;

fn drive<E>(
    bytes: &[u8],
    take: &mut impl FnMut(&[u8]) -> Result<Option<usize>, E>,
) -> Result<usize, E> {
    let mut done = 0;
    loop {
        let rest = bytes.get(done..).unwrap_or_default();
        match take(rest)? {
            Some(length) => done += length.min(rest.len()),
            None => return Ok(done),
        }
    }
}
