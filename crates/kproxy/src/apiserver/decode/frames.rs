//! The frames of a protobuf watch: a length in four bytes, big-endian, then as many bytes
//! (apimachinery/pkg/util/framer: `lengthDelimitedFrame`).

use super::DecodeError;
use crate::apiserver::gather::{Gathered, MOST};

#[derive(Debug, Default)]
pub(super) struct Frames(Gathered);

impl Frames {
    /// Takes the next bytes; `on_frame` gets each frame that is complete.
    pub(super) fn push(
        &mut self,
        bytes: &[u8],
        mut on_frame: impl FnMut(&[u8]) -> Result<(), DecodeError>,
    ) -> Result<(), DecodeError> {
        self.0.push(bytes, |rest| {
            let Some((length, rest)) = rest.split_first_chunk() else {
                return Ok(None);
            };
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(usize::MAX);
            if length > MOST {
                return Err(DecodeError::TooLong);
            }
            let Some(frame) = rest.get(..length) else {
                return Ok(None);
            };
            on_frame(frame)?;
            Ok(Some(4 + length))
        })
    }

    /// Whether the last frame was complete.
    pub(super) fn is_complete(&self) -> bool {
        self.0.is_empty()
    }
}
