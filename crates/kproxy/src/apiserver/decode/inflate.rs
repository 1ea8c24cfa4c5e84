//! gzip, as it comes in.
//!
//! From 1.37 on each event of a watch that began with a streaming list is a gzip member of its own
//! (KEP-5116's compression; apiserver/pkg/endpoints/handlers/watch.go: `perFlushGzipWriter`); a list's
//! body is one.

use std::io::{self, ErrorKind};

use flate2::{Decompress, FlushDecompress, Status};

use super::DecodeError;

/// So much comes out at a time.
const PIECE: usize = 32 << 10;
/// RFC 1952: what every member begins with, method 8 (deflate).
const MAGIC: [u8; 3] = [0x1f, 0x8b, 8];
/// RFC 1952, FLG: nothing but a comment on the data; no optional field is set.
const PLAIN: u8 = 0x01;
/// Length of a header without optional fields, which nobody sends here (Go's writer sets none that is
/// not asked for).
const HEADER: usize = 10;
/// Checksum and length behind the data. TLS and TCP have sums of their own.
const TRAILER: usize = 8;

/// See the module. flate2 has a decoder of members, which makes its buffers anew for each.
#[derive(Debug)]
pub(in crate::apiserver) struct Inflate {
    raw: Decompress,
    at: At,
    out: Box<[u8]>,
}

#[derive(Debug, Clone, Copy)]
enum At {
    /// So many bytes of the header were seen.
    Header(usize),
    Data,
    /// So many bytes of the trailer were seen.
    Trailer(usize),
}

impl Inflate {
    pub(in crate::apiserver) fn new() -> Self {
        Self {
            raw: Decompress::new(false),
            at: At::Header(0),
            out: vec![0; PIECE].into(),
        }
    }

    /// Takes the next bytes; `on_bytes` gets everything that they hold.
    pub(in crate::apiserver) fn push(
        &mut self,
        mut bytes: &[u8],
        mut on_bytes: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        // A full buffer may hide more that has been read already.
        let mut more = false;
        let mut idle = false;
        while !bytes.is_empty() || more {
            more = false;
            let taken = match self.at {
                At::Header(seen) => {
                    self.header(seen, bytes)?;
                    1
                }
                At::Trailer(seen) => {
                    self.at = if seen + 1 == TRAILER {
                        At::Header(0)
                    } else {
                        At::Trailer(seen + 1)
                    };
                    1
                }
                At::Data => {
                    let (before_in, before_out) = (self.raw.total_in(), self.raw.total_out());
                    let status = self
                        .raw
                        .decompress(bytes, &mut self.out, FlushDecompress::None)
                        .map_err(|error| DecodeError::Gzip(error.into()))?;
                    let out = length(self.raw.total_out() - before_out);
                    let taken = length(self.raw.total_in() - before_in);
                    if out > 0 {
                        on_bytes(self.out.get(..out).unwrap_or_default())?;
                    }
                    let was_idle = core::mem::replace(&mut idle, out == 0 && taken == 0);
                    match status {
                        Status::StreamEnd => {
                            self.raw.reset(false);
                            self.at = At::Trailer(0);
                        }
                        _ if out == self.out.len() => more = true,
                        // Neither taken nor given twice: the rest is beyond reading. Once may be, after
                        // a call with no input at the end of miniz_oxide's own buffer.
                        _ if idle && was_idle && !bytes.is_empty() => {
                            return Err(wrong("no deflate data"));
                        }
                        _ => {}
                    }
                    taken
                }
            };
            bytes = bytes.get(taken..).unwrap_or_default();
        }
        Ok(())
    }

    /// Looks at one byte of a header.
    fn header(&mut self, seen: usize, bytes: &[u8]) -> Result<(), DecodeError> {
        let byte = bytes.first().copied().unwrap_or_default();
        match MAGIC.get(seen) {
            Some(expected) if byte != *expected => return Err(wrong("no gzip member")),
            None if seen == MAGIC.len() && byte & !PLAIN != 0 => {
                return Err(wrong("a gzip header with optional fields"));
            }
            _ => {}
        }
        self.at = if seen + 1 == HEADER {
            At::Data
        } else {
            At::Header(seen + 1)
        };
        Ok(())
    }
}

fn length(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn wrong(what: &'static str) -> DecodeError {
    DecodeError::Gzip(io::Error::new(ErrorKind::InvalidData, what))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn each_member_is_out_as_soon_as_it_is_in() {
        let mut inflate = Inflate::new();
        for round in 0..3_u8 {
            let text = vec![b'a' + round; 100_000];
            let mut out = Vec::new();
            inflate
                .push(&member(&text), |bytes| {
                    out.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
            assert_eq!(out, text);
        }
    }

    /// In pieces of HTTP/2's size, of which some end where the decoder's own buffer does.
    #[test]
    fn long_texts_come_out_whole() {
        let mut state = 88_172_645_463_325_252_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % 255
        };
        let mut text = Vec::new();
        while text.len() < 300_000 {
            let [b, c, d] = [random(), random(), random()];
            text.extend(format!("\"10.{b}.{c}.{d}\", node-b shop 4be3f0c2-53f3").into_bytes());
        }
        for length in (150_000..300_000).step_by(25_000) {
            let text = &text[..length];
            let members = [member(text), member(text)].concat();
            let mut inflate = Inflate::new();
            let mut out = Vec::new();
            for piece in members.chunks(16 << 10) {
                let take = |bytes: &[u8]| {
                    out.extend_from_slice(bytes);
                    Ok(())
                };
                inflate.push(piece, take).unwrap();
            }
            assert!(out == [text, text].concat(), "{length}");
        }
    }

    #[test]
    fn pieces_do_not_matter() {
        let text: Vec<u8> = (0..50_000_u32)
            .flat_map(|it| it.to_string().into_bytes())
            .collect();
        let members = [member(&text), member(b"x"), member(&text)].concat();
        let mut inflate = Inflate::new();
        let mut out = Vec::new();
        for byte in members.chunks(1) {
            inflate
                .push(byte, |bytes| {
                    out.extend_from_slice(bytes);
                    Ok(())
                })
                .unwrap();
        }
        assert_eq!(out, [&text[..], b"x", &text].concat());
        assert!(
            Inflate::new()
                .push(b"no gzip at all, not even a header", |_| Ok(()))
                .is_err()
        );
    }
}
