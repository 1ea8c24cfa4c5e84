//! Whether the kernel said the same as in the capture.

use core::fmt;

use nft_batch::Errno;
use nl_codec::msg::MsgType;

use crate::session::{Answer, Exchange, Outcome, Reply};

/// A comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The same.
    Agrees,
    /// The capture does not hold what it said.
    NotRecorded,
    /// It was not sent then, and is not now.
    NotSent,
    /// Something else.
    Differs(Vec<Difference>),
}

/// What was said to one message, then and now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Which message of the transaction, counted from 0; `None` if it is about all of it.
    pub message: Option<usize>,
    /// Sequence number.
    pub seq: u32,
    /// Recorded: error; `None` is none.
    pub then: Option<Errno>,
    /// Here.
    pub now: Option<Errno>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |errno: Option<Errno>| {
            errno.map_or_else(|| "no error".to_owned(), |errno| errno.to_string())
        };
        match self.message {
            Some(index) => write!(f, "message {}", index + 1)?,
            None => f.write_str("the transaction")?,
        }
        write!(
            f,
            ": recorded {}, here {}",
            shown(self.then),
            shown(self.now)
        )
    }
}

impl Verdict {
    /// Compares the errors that a transaction got then and now: for which messages, and which. Acks
    /// are compared by whether all that were asked for came.
    pub(super) fn of(then: &Exchange<'_>, now: &Exchange<'_>) -> Self {
        match (then.outcome(), now.outcome()) {
            (Outcome::NotSent(_), Outcome::NotSent(_)) => return Self::NotSent,
            (Outcome::Unknown, _) => return Self::NotRecorded,
            (_, Outcome::NotSent(errno)) => {
                return Self::Differs(vec![Difference {
                    message: None,
                    seq: 0,
                    then: None,
                    now: Some(errno),
                }]);
            }
            _ => {}
        }
        let (old, new) = (said(then), said(now));
        let mut differences: Vec<Difference> = Vec::new();
        for said in &old {
            if !new.contains(said) {
                let other = new.iter().find(|other| other.place() == said.place());
                differences.push(said.differs(then, said.errno, other.and_then(|it| it.errno)));
            }
        }
        for said in &new {
            if !old.iter().any(|other| other.place() == said.place()) {
                differences.push(said.differs(then, None, said.errno));
            }
        }
        if differences.is_empty() {
            Self::Agrees
        } else {
            Self::Differs(differences)
        }
    }
}

/// What was said about a message. The frame's acks depend on the kernel's version.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Said {
    seq: u32,
    kind: MsgType,
    len: u32,
    errno: Option<Errno>,
}

impl Said {
    fn place(&self) -> (u32, MsgType, u32) {
        (self.seq, self.kind, self.len)
    }

    fn differs(
        &self,
        exchange: &Exchange<'_>,
        then: Option<Errno>,
        now: Option<Errno>,
    ) -> Difference {
        let message = exchange.messages.iter().position(|message| {
            let header = message.msg.header;
            (header.seq, header.kind, header.len) == self.place()
        });
        Difference {
            message,
            seq: self.seq,
            then,
            now,
        }
    }
}

fn said(exchange: &Exchange<'_>) -> Vec<Said> {
    let of = |reply: &Reply<'_>| match reply.answer {
        Answer::Error(refusal) => Some(Said {
            seq: reply.seq,
            kind: refusal.kind,
            len: refusal.len,
            errno: Some(refusal.errno),
        }),
        _ => None,
    };
    exchange.replies.iter().filter_map(of).collect()
}
