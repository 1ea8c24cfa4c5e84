//! Parts of a capture, put together as captures of their own.

use std::collections::HashSet;

use nft_batch::record::Direction;
use nl_codec::msg::{ATTRS_OFFSET, MsgType, NftMsg};
use nl_codec::{ATTR_HEADER_LEN, Attrs, align};

use super::is_transaction;
use crate::capture::{Capture, Packet};
use crate::session::{Exchange, Session};

/// `NFTA_SET_ELEM_LIST_ELEMENTS`.
const ELEMENTS: u16 = 3;

/// Transactions, with messages that have a number each.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    pub(super) transactions: Vec<Part>,
}

/// What is left of a transaction.
#[derive(Debug, Clone)]
pub(super) struct Part {
    /// In the capture.
    pub(super) number: usize,
    packet: Packet,
    begin: Vec<u8>,
    end: Vec<u8>,
    messages: Vec<(usize, Vec<u8>)>,
    /// The questions before it, and their answers: handles are learnt from them.
    before: Vec<Packet>,
    /// What the kernel echoed of it.
    replies: Vec<Packet>,
}

/// An element of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Element {
    message: usize,
    index: usize,
}

impl Draft {
    pub(super) fn new(session: &Session<'_>) -> Self {
        let mut transactions = Vec::new();
        let mut id = 0;
        let mut before = Vec::new();
        for exchange in &session.exchanges {
            if !is_transaction(exchange) {
                before.push(exchange.packet.clone());
                before.extend(replies(exchange));
                continue;
            }
            let crate::session::Kind::Transaction(transaction) = exchange.kind else {
                continue;
            };
            let mut part = Part {
                number: transaction.number,
                packet: exchange.packet.clone(),
                begin: Vec::new(),
                end: Vec::new(),
                messages: Vec::new(),
                before: core::mem::take(&mut before),
                replies: replies(exchange),
            };
            let mut walk = nl_codec::msg::Messages::new(&exchange.packet.bytes);
            while let Some(Ok(msg)) = walk.next() {
                let end = exchange.packet.bytes.len() - walk.rest().len();
                let wire = exchange.packet.bytes.get(msg.offset..end);
                let wire = wire.unwrap_or_default().to_vec();
                match msg.header.kind {
                    MsgType::BATCH_BEGIN => part.begin = wire,
                    MsgType::BATCH_END => {
                        part.end = wire;
                        break;
                    }
                    _ if msg.nfnetlink().is_ok() => {
                        part.messages.push((id, wire));
                        id += 1;
                    }
                    _ => {}
                }
            }
            transactions.push(part);
        }
        Self { transactions }
    }

    pub(super) fn messages(&self) -> usize {
        self.transactions
            .iter()
            .map(|part| part.messages.len())
            .sum()
    }

    /// Numbers of the messages that are there.
    pub(super) fn ids(&self) -> impl Iterator<Item = usize> {
        self.transactions
            .iter()
            .flat_map(|part| part.messages.iter().map(|(id, _)| *id))
    }

    /// Number of a message by its place.
    pub(super) fn id(&self, transaction: usize, message: usize) -> Option<usize> {
        let part = self.transactions.get(transaction)?;
        part.messages.get(message).map(|(id, _)| *id)
    }

    /// Some of the transactions, and the one that is `last`.
    pub(super) fn with_transactions(&self, kept: &[usize], last: usize) -> Self {
        let kept = kept.iter().chain([&last]);
        Self {
            transactions: kept
                .filter_map(|index| self.transactions.get(*index).cloned())
                .collect(),
        }
    }

    /// Some of the messages, and `always`. The last transaction stays, whatever is in it.
    pub(super) fn with_messages(&self, kept: &[usize], always: Option<usize>) -> Self {
        let kept: HashSet<usize> = kept.iter().copied().chain(always).collect();
        let last = self.transactions.len().saturating_sub(1);
        let mut draft = self.clone();
        for part in &mut draft.transactions {
            part.messages.retain(|(id, _)| kept.contains(id));
        }
        let mut index = 0;
        draft.transactions.retain(|part| {
            index += 1;
            !part.messages.is_empty() || index - 1 == last
        });
        draft
    }

    /// The elements of messages that have several.
    pub(super) fn elements(&self) -> Vec<Element> {
        let mut elements = Vec::new();
        for (id, wire) in self.transactions.iter().flat_map(|part| &part.messages) {
            let count = list(wire).map_or(0, |(_, list)| {
                Attrs::new(list).map_while(Result::ok).count()
            });
            if count > 1 {
                elements.extend((0..count).map(|index| Element {
                    message: *id,
                    index,
                }));
            }
        }
        elements
    }

    /// Some of these elements. A message keeps one at least: without any it would mean all.
    pub(super) fn with_elements(&self, kept: &[Element]) -> Self {
        let touched: HashSet<usize> = self.elements().iter().map(|it| it.message).collect();
        let kept: HashSet<Element> = kept.iter().copied().collect();
        let mut draft = self.clone();
        for part in &mut draft.transactions {
            for (id, wire) in &mut part.messages {
                if touched.contains(id) {
                    let keep = |index| {
                        kept.contains(&Element {
                            message: *id,
                            index,
                        })
                    };
                    if let Some(shorter) = with_elements(wire, keep) {
                        *wire = shorter;
                    }
                }
            }
        }
        draft
    }

    /// As a capture, with the questions that the transactions which are left had before.
    pub(super) fn capture(&self) -> Capture {
        let mut capture = Capture::default();
        for part in &self.transactions {
            capture.packets.extend(part.before.iter().cloned());
            let mut packet = part.packet.clone();
            packet.bytes.clone_from(&part.begin);
            for (_, wire) in &part.messages {
                packet.bytes.extend_from_slice(wire);
            }
            packet.bytes.extend_from_slice(&part.end);
            packet.len = packet.bytes.len();
            capture.packets.push(packet);
            capture.packets.extend(part.replies.iter().cloned());
        }
        capture
    }
}

/// The objects that an exchange was answered with, as datagrams of one message each.
fn replies(exchange: &Exchange<'_>) -> Vec<Packet> {
    let objects = exchange.replies.iter().filter_map(|reply| {
        let crate::session::Answer::Object(msg) = reply.answer else {
            return None;
        };
        let mut bytes = msg.header.to_bytes().to_vec();
        bytes.extend(msg.nfgen.to_bytes());
        bytes.extend_from_slice(msg.attrs);
        let mut packet = Packet::new(Direction::ToUser, bytes);
        packet.when = exchange.packet.when;
        packet.port = exchange.port;
        Some(packet)
    });
    objects.collect()
}

/// Where the list of an element message begins, and what is in it.
fn list(wire: &[u8]) -> Option<(usize, &[u8])> {
    let header = nl_codec::msg::Header::decode(wire).ok()?;
    match header.kind.as_nft()? {
        NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM => {}
        _ => return None,
    }
    let mut attrs = Attrs::new(wire.get(ATTRS_OFFSET..)?).map_while(Result::ok);
    let attr = attrs.find(|attr| attr.kind == ELEMENTS)?;
    Some((ATTRS_OFFSET + attr.offset, attr.payload))
}

/// A message with some of its elements; `None` if that cannot be, or would be none.
fn with_elements(wire: &[u8], keep: impl Fn(usize) -> bool) -> Option<Vec<u8>> {
    let (start, elements) = list(wire)?;
    let mut kept = Vec::new();
    for (index, attr) in Attrs::new(elements).map_while(Result::ok).enumerate() {
        if keep(index) {
            let end = attr.offset + align(ATTR_HEADER_LEN + attr.payload.len());
            kept.extend_from_slice(elements.get(attr.offset..end)?);
        }
    }
    if kept.is_empty() {
        let first = Attrs::new(elements).next()?.ok()?;
        let end = align(ATTR_HEADER_LEN + first.payload.len());
        kept.extend_from_slice(elements.get(..end)?);
    }
    let head = wire.get(start..start + ATTR_HEADER_LEN)?;
    let old_end = start + align(ATTR_HEADER_LEN + elements.len());
    let mut out = wire.get(..start)?.to_vec();
    let len = u16::try_from(ATTR_HEADER_LEN + kept.len()).ok()?;
    out.extend(len.to_ne_bytes());
    out.extend_from_slice(head.get(2..)?);
    out.extend_from_slice(&kept);
    out.extend_from_slice(wire.get(old_end..).unwrap_or_default());
    let total = u32::try_from(out.len()).ok()?.to_ne_bytes();
    out.get_mut(..4)?.copy_from_slice(&total);
    Some(out)
}
