//! apimachinery/pkg/apis/meta/v1: `Status`.

use core::time::Duration;

use super::wire::{ProtobufError, Value};
use super::{Message, Unknown, read};
use crate::apiserver::Refusal;

/// Reads a `Status` with its envelope.
pub(in crate::apiserver) fn status(bytes: &[u8]) -> Result<Refusal, ProtobufError> {
    let envelope = Unknown::read(bytes)?;
    read(envelope.raw)
}

impl<'a> Message<'a> for Refusal {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        match number {
            3 => value.str(number)?.clone_into(&mut self.message),
            4 => value.str(number)?.clone_into(&mut self.reason),
            5 => {
                let mut details = Details::default();
                value.merge(number, &mut details)?;
                self.retry_after = details.retry_after;
            }
            6 => self.code = u16::try_from(value.int(number)?).unwrap_or_default(),
            _ => {}
        }
        Ok(())
    }
}

/// `StatusDetails`.
#[derive(Default)]
struct Details {
    retry_after: Option<Duration>,
}

impl<'a> Message<'a> for Details {
    fn field(&mut self, number: u32, value: Value<'a>) -> Result<(), ProtobufError> {
        if number == 5 {
            let seconds = u64::try_from(value.int(number)?).unwrap_or_default();
            self.retry_after = (seconds > 0).then(|| Duration::from_secs(seconds));
        }
        Ok(())
    }
}
