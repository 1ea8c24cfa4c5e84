//! What packets' comments say, see `nft_batch::record::NOTE`. Others' comments say nothing.

use core::time::Duration;

use nft_batch::Errno;
use nft_batch::record::NOTE;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) port: Option<u32>,
    pub(super) took: Option<Duration>,
    pub(super) send_error: Option<Errno>,
    /// Where the bytes are in a datagram that is several packets.
    pub(super) offset: Option<usize>,
    /// Length of that datagram.
    pub(super) of: Option<usize>,
}

impl Note {
    pub(super) fn merge(&mut self, other: Self) {
        self.port = other.port.or(self.port);
        self.took = other.took.or(self.took);
        self.send_error = other.send_error.or(self.send_error);
        self.offset = other.offset.or(self.offset);
        self.of = other.of.or(self.of);
    }
}

pub(super) fn parse(comment: &[u8]) -> Note {
    let mut note = Note::default();
    let text = core::str::from_utf8(comment).unwrap_or_default();
    let Some(text) = text.strip_prefix(NOTE) else {
        return note;
    };
    for (key, value) in text.split(' ').filter_map(|word| word.split_once('=')) {
        match key {
            "port" => note.port = value.parse().ok(),
            "took_ns" => note.took = value.parse().ok().map(Duration::from_nanos),
            "send_error" => note.send_error = errno(value),
            "offset" => note.offset = value.parse().ok(),
            "of" => note.of = value.parse().ok(),
            _ => {}
        }
    }
    note
}

/// By name, or by number where it has none.
fn errno(word: &str) -> Option<Errno> {
    word.parse().ok().map(Errno).or_else(|| {
        (1..=133)
            .map(Errno)
            .find(|errno| errno.name() == Some(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_read_and_the_rest_is_skipped() {
        let note = parse(b"nft-replay: port=7 took_ns=5 new=1 send_error=EMSGSIZE offset=x of=9");
        assert_eq!(note.port, Some(7));
        assert_eq!(note.took, Some(Duration::from_nanos(5)));
        assert_eq!(note.send_error, Some(Errno::EMSGSIZE));
        assert_eq!((note.offset, note.of), (None, Some(9)));
        assert_eq!(
            parse(b"nft-replay: send_error=71").send_error,
            Some(Errno(71))
        );
        assert_eq!(parse(b"port=7"), Note::default());
        assert_eq!(parse(b"nft-replay:\xff"), Note::default());
    }
}
