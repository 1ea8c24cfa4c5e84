//! Which handle here is which one in the capture.

use std::collections::{HashMap, HashSet};

use nl_codec::msg::{NfMsg, NftMsg};

use super::names::{attribute, handles_in, own_handle, table_of};
use crate::session::{Answer, Exchange, Kind, Session};

/// What a handle belongs to: tables have their own numbers, everything in a table shares one row of
/// numbers.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Name {
    family: u8,
    /// `None` for a table's own handle.
    table: Option<Box<[u8]>>,
    handle: u64,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Handles {
    /// Handles that transactions of the capture refer to.
    wanted: HashSet<Name>,
    known: HashMap<Name, u64>,
}

impl Handles {
    pub(super) fn for_session(session: &Session<'_>) -> Self {
        let mut handles = Self::default();
        for (_, exchange) in session.transactions() {
            for message in &exchange.messages {
                let used = handles_in(&message.msg).into_iter();
                let names = used.map(|(_, handle)| name(&message.msg, handle));
                handles.wanted.extend(names);
            }
        }
        handles
    }

    /// Whether a question's answer told a handle that is used.
    pub(super) fn wants(&self, exchange: &Exchange<'_>) -> bool {
        !self.wanted.is_empty()
            && objects(exchange).any(|msg| {
                own_handle(msg).is_some_and(|handle| self.wanted.contains(&name(msg, handle)))
            })
    }

    /// The handle here of what a message refers to.
    pub(super) fn here(&self, msg: &NfMsg<'_>, handle: u64) -> Option<u64> {
        self.known.get(&name(msg, handle)).copied()
    }

    /// Compares what was told then and what is told now, to the same request.
    pub(super) fn learn(&mut self, then: &Exchange<'_>, now: &Exchange<'_>) {
        if self.wanted.is_empty() {
            return;
        }
        let mut left: Vec<&NfMsg<'_>> = objects(now).collect();
        let recorded: Vec<&NfMsg<'_>> = objects(then).collect();
        let aligned = recorded.len() == left.len();
        // By what they are called or made of; rules that are alike are so in order.
        let mut unmatched = Vec::new();
        for msg in &recorded {
            let twin = left.iter().position(|other| alike(msg, other, then));
            match twin {
                Some(at) => {
                    let other = left.remove(at);
                    self.pair(msg, other);
                }
                None => unmatched.push(*msg),
            }
        }
        // What is made of different things, such as counters, is at the same place.
        if aligned {
            for (msg, other) in unmatched.into_iter().zip(left) {
                self.pair(msg, other);
            }
        }
    }

    fn pair(&mut self, then: &NfMsg<'_>, now: &NfMsg<'_>) {
        if let (Some(then_handle), Some(now_handle)) = (own_handle(then), own_handle(now)) {
            self.known.insert(name(then, then_handle), now_handle);
        }
    }
}

fn objects<'s, 'c>(exchange: &'s Exchange<'c>) -> impl Iterator<Item = &'s NfMsg<'c>> {
    let dump = matches!(exchange.kind, Kind::Query(_));
    exchange.replies.iter().filter_map(move |reply| {
        match &reply.answer {
            // Elements have no handles, and there may be many.
            Answer::Object(msg) if own_handle(msg).is_some() || !dump => Some(msg),
            _ => None,
        }
    })
}

fn name(msg: &NfMsg<'_>, handle: u64) -> Name {
    let is_table = matches!(
        msg.header.kind.as_nft(),
        Some(NftMsg::NEW_TABLE | NftMsg::GET_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE)
    );
    Name {
        family: msg.nfgen.family.0,
        table: (!is_table).then(|| table_of(msg).unwrap_or_default().into()),
        handle,
    }
}

/// Whether two replies tell of the same object: same type, family and table; of rules the same chain,
/// expressions and userdata; of others the same name. Echoes must answer the same message, too.
fn alike(then: &NfMsg<'_>, now: &NfMsg<'_>, asked: &Exchange<'_>) -> bool {
    let same = |kind| {
        let (a, b) = (attribute(then, kind), attribute(now, kind));
        a.map(|(_, payload)| payload) == b.map(|(_, payload)| payload)
    };
    let echo = matches!(asked.kind, Kind::Transaction(_));
    let kind = then.header.kind;
    kind == now.header.kind
        && then.nfgen.family == now.nfgen.family
        && (!echo || then.header.seq == now.header.seq)
        && same(1)
        && match kind.as_nft() {
            Some(NftMsg::NEW_TABLE) => true,
            Some(NftMsg::NEW_RULE) => same(2) && same(4) && same(7),
            Some(NftMsg::NEW_CHAIN) => same(3),
            Some(NftMsg::NEW_OBJ) => same(2) && same(3),
            _ => same(2),
        }
}
