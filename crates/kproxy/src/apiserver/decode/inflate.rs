//! gzip, as it comes in.
//!
//! From 1.37 on each event of a watch that began with a streaming list is a gzip member of its own
//! (KEP-5116's compression; apiserver/pkg/endpoints/handlers/watch.go: `perFlushGzipWriter`); a list's
//! body is one.

use std::io::Write as _;

use flate2::write::MultiGzDecoder;

use super::DecodeError;

/// So much is decompressed at a time; it may become a thousand times as long.
const PIECE: usize = 1 << 10;

/// See the module.
#[derive(Debug)]
pub(in crate::apiserver) struct Inflate(MultiGzDecoder<Vec<u8>>);

impl Inflate {
    pub(in crate::apiserver) fn new() -> Self {
        Self(MultiGzDecoder::new(Vec::new()))
    }

    /// Takes the next bytes; `on_bytes` gets everything that they hold.
    pub(in crate::apiserver) fn push(
        &mut self,
        bytes: &[u8],
        mut on_bytes: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        for piece in bytes.chunks(PIECE) {
            self.0.write_all(piece).map_err(DecodeError::Gzip)?;
            self.0.flush().map_err(DecodeError::Gzip)?;
            let out = self.0.get_mut();
            if !out.is_empty() {
                on_bytes(out)?;
                out.clear();
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
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
