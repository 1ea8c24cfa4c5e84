//! What others change, as the kernel tells it.

use nft_batch::{EventError, Events};

use crate::wire::Wire;

pub(crate) fn run(input: &[u8]) {
    let mut events = Events::new(Wire::listening(input));
    if input.first().is_some_and(|kernel| kernel & 4 != 0) {
        events = events.only("kube-proxy", Some(7));
    }
    let mut idle = false;
    for _ in 0..input.len() + 8 {
        match events.try_next_group() {
            Ok(group) => {
                idle = false;
                for msg in group.iter() {
                    core::hint::black_box(format!("{msg:?}"));
                }
            }
            // Once may be for now.
            Err(EventError::TimedOut) if idle => return,
            Err(error) => idle = error == EventError::TimedOut,
        }
    }
    panic!("no end of {} bytes", input.len());
}
