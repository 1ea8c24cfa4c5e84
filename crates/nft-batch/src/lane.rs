//! A lane: the messages of one phase, or the deletions from or additions to one set, in the order
//! in which they were made. Lanes are what a batch sorts; messages never move once written, except
//! for one that outgrows a small buffer.

use nl_codec::msg::{Body, HEADER_LEN, Head, Message as MessageGuard, put_message};
use nl_codec::nft::elem::PutElem;
use nl_codec::{
    ATTR_HEADER_LEN, EncodeError, Encoder, MAX_ATTR_PAYLOAD, NLA_F_NESTED, SliceCursor,
};

use crate::OpId;
use crate::chunk::{Chunk, MESSAGE_ROOM, Pool};

const NFTA_SET_ELEM_LIST_ELEMENTS: u16 = 3;

/// One encoded message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Message {
    chunk: u32,
    start: u32,
    len: u32,
    /// The operation which made it; for element messages see [`Lane::op_of_element`].
    pub(crate) op: OpId,
    /// Elements of this lane in front of this message's.
    pub(crate) first_element: u32,
    /// Where the element list's attribute starts in the message, 0 if it has none.
    list: u32,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    chunks: Vec<Chunk>,
    messages: Vec<Message>,
    /// Which operation put elements from which index on.
    calls: Vec<(u32, OpId)>,
    elements: u32,
    bytes: usize,
}

impl Lane {
    pub(crate) fn messages(&self) -> &[Message] {
        &self.messages
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn message_bytes(&self, message: &Message) -> &[u8] {
        self.chunks.get(index(message.chunk)).map_or(&[], |chunk| {
            chunk.bytes(index(message.start), index(message.len))
        })
    }

    pub(crate) fn message_bytes_mut(&mut self, message: usize) -> &mut [u8] {
        let Some(message) = self.messages.get(message) else {
            return &mut [];
        };
        match self.chunks.get_mut(index(message.chunk)) {
            Some(chunk) => chunk.bytes_mut(index(message.start), index(message.len)),
            None => &mut [],
        }
    }

    /// The bytes of consecutive messages, one slice per buffer.
    pub(crate) fn runs<'a>(&'a self, messages: &'a [Message]) -> impl Iterator<Item = &'a [u8]> {
        messages
            .chunk_by(|a, b| a.chunk == b.chunk)
            .filter_map(|run| {
                let (first, last) = (run.first()?, run.last()?);
                let chunk = self.chunks.get(index(first.chunk))?;
                let end = last.start.saturating_add(last.len);
                Some(chunk.bytes(index(first.start), index(end.saturating_sub(first.start))))
            })
    }

    /// The operation that put the lane's `element`th element.
    pub(crate) fn op_of_element(&self, element: u32) -> Option<(OpId, u32)> {
        let at = self.calls.partition_point(|(first, _)| *first <= element);
        let (first, op) = self.calls.get(at.checked_sub(1)?)?;
        Some((*op, element - first))
    }

    /// Appends one message.
    pub(crate) fn push<'a, B: Body<'a>>(
        &mut self,
        pool: &mut Pool,
        op: OpId,
        head: &Head,
        body: &B,
    ) -> Result<(), EncodeError> {
        self.push_with(pool, op, |cursor| {
            put_message(cursor, head, body).map(|()| 0)
        })
    }

    /// Appends the message which `encode` writes; it returns where the element list starts, or 0.
    fn push_with(
        &mut self,
        pool: &mut Pool,
        op: OpId,
        encode: impl Fn(&mut SliceCursor<'_>) -> Result<usize, EncodeError>,
    ) -> Result<(), EncodeError> {
        if self.chunks.is_empty() {
            self.chunks.push(pool.take_small());
        }
        match self.try_push(op, &encode) {
            Err(EncodeError::NoRoom { .. }) => {
                self.chunks.push(pool.take_large());
                self.try_push(op, &encode)
            }
            done => done,
        }
    }

    fn try_push(
        &mut self,
        op: OpId,
        encode: impl Fn(&mut SliceCursor<'_>) -> Result<usize, EncodeError>,
    ) -> Result<(), EncodeError> {
        let at = self.chunks.len().saturating_sub(1);
        let Some(chunk) = self.chunks.last_mut() else {
            return Ok(());
        };
        let start = chunk.used();
        let mut cursor = SliceCursor::new(chunk.tail_mut(start));
        let list = encode(&mut cursor)?;
        let len = cursor.position();
        chunk.set_used(start + len);
        self.bytes += len;
        self.messages.push(Message {
            chunk: narrow(at),
            start: narrow(start),
            len: narrow(len),
            op,
            first_element: self.elements,
            list: narrow(list),
        });
        Ok(())
    }

    /// Appends elements: to the last message as long as it is of the same kind and its list stays
    /// below 64 KiB, then to new ones that `head` and `body` begin; if `alone`, each to one of its
    /// own. Returns how many there were.
    pub(crate) fn push_elements<'a, B, T, I>(
        &mut self,
        pool: &mut Pool,
        op: OpId,
        (head, body): (&Head, &B),
        alone: bool,
        elements: I,
    ) -> Result<u32, EncodeError>
    where
        B: Body<'a>,
        T: PutElem,
        I: IntoIterator<Item = T>,
    {
        let mut elements = elements.into_iter();
        let Some(mut element) = elements.next() else {
            return Ok(0);
        };
        let before = self.elements;
        self.calls.push((before, op));
        if alone || !self.continues(head) {
            self.begin_elements(pool, op, head, body)?;
        }
        loop {
            // Fill the last message.
            match self.fill(&mut element, &mut elements, alone)? {
                Filled::All => break,
                Filled::ListFull => self.begin_elements(pool, op, head, body)?,
                Filled::BufferFull => self.relocate(pool),
            }
        }
        Ok(self.elements - before)
    }

    /// Whether the last message can take more elements of this kind.
    fn continues(&self, head: &Head) -> bool {
        self.messages.last().is_some_and(|last| {
            let bytes = self.message_bytes(last);
            last.list != 0
                && bytes.get(4..6) == Some(&head.kind.0.to_ne_bytes())
                && bytes.get(6..8) == Some(&head.flags.bits().to_ne_bytes())
        })
    }

    fn begin_elements<'a, B: Body<'a>>(
        &mut self,
        pool: &mut Pool,
        op: OpId,
        head: &Head,
        body: &B,
    ) -> Result<(), EncodeError> {
        // Behind a small first buffer every message gets room for a full list, so that it is never
        // cut short by the end of a buffer.
        let first = self.messages.is_empty();
        if !first && self.chunks.last().is_none_or(|c| c.room() < MESSAGE_ROOM) {
            self.chunks.push(pool.take_large());
        }
        self.push_with(pool, op, |cursor| {
            let mut message = MessageGuard::begin(cursor, head)?;
            body.encode_body(&mut *message)?;
            let list = message.position();
            let mut header = [0; ATTR_HEADER_LEN];
            let kind = NFTA_SET_ELEM_LIST_ELEMENTS | NLA_F_NESTED;
            header[..2].copy_from_slice(&4_u16.to_ne_bytes());
            header[2..].copy_from_slice(&kind.to_ne_bytes());
            message.put(&header)?;
            message.end()?;
            Ok(list)
        })
    }

    /// Appends `element` and those that follow it to the last message; if `alone`, only `element`.
    fn fill<T: PutElem>(
        &mut self,
        element: &mut T,
        rest: &mut impl Iterator<Item = T>,
        alone: bool,
    ) -> Result<Filled, EncodeError> {
        let Self {
            chunks,
            messages,
            elements,
            bytes,
            ..
        } = self;
        let Some(message) = messages.last_mut() else {
            return Ok(Filled::All);
        };
        let Some(chunk) = chunks.get_mut(index(message.chunk)) else {
            return Ok(Filled::All);
        };
        let (start, len, list) = (
            index(message.start),
            index(message.len),
            index(message.list),
        );
        let list_payload = list + ATTR_HEADER_LEN;
        let mut cursor = SliceCursor::new(chunk.tail_mut(start + len));
        let mut count = 0;
        let outcome = loop {
            let at = cursor.position();
            match element.put_elem(&mut cursor) {
                Ok(()) if len + cursor.position() - list_payload <= MAX_ATTR_PAYLOAD => {
                    count += 1;
                    match rest.next() {
                        Some(next) => *element = next,
                        None => break Ok(Filled::All),
                    }
                    if alone {
                        break Ok(Filled::ListFull);
                    }
                }
                // A list of one that is too long can only be a broken element: `put_elem` has
                // checked that its own length fits, but not with the list's header around it.
                Ok(()) if len + at == list_payload => {
                    cursor.truncate(at);
                    break Err(EncodeError::AttrTooLong {
                        attr: NFTA_SET_ELEM_LIST_ELEMENTS,
                        offset: list,
                        len: MAX_ATTR_PAYLOAD + 1,
                    });
                }
                Ok(()) => {
                    cursor.truncate(at);
                    break Ok(Filled::ListFull);
                }
                Err(EncodeError::NoRoom { .. }) => break Ok(Filled::BufferFull),
                Err(error) => break Err(error),
            }
        };
        let added = cursor.position();
        let new_len = len + added;
        chunk.set_used(start + new_len);
        message.len = narrow(new_len);
        let header = chunk.bytes_mut(start, HEADER_LEN);
        if let Some(wire_len) = header.get_mut(..4) {
            wire_len.copy_from_slice(&message.len.to_ne_bytes());
        }
        let list_len = u16::try_from(new_len - list).unwrap_or(u16::MAX);
        if let Some(wire_len) = chunk.bytes_mut(start + list, 2).get_mut(..2) {
            wire_len.copy_from_slice(&list_len.to_ne_bytes());
        }
        *elements = elements.saturating_add(count);
        *bytes += added;
        outcome
    }

    /// Moves the last message to a large buffer.
    fn relocate(&mut self, pool: &mut Pool) {
        let mut target = pool.take_large();
        if let Some(message) = self.messages.last_mut()
            && let Some(source) = self.chunks.get_mut(index(message.chunk))
        {
            let (start, len) = (index(message.start), index(message.len));
            target
                .bytes_mut(0, len)
                .copy_from_slice(source.bytes(start, len));
            target.set_used(len);
            source.set_used(start);
            message.chunk = narrow(self.chunks.len());
            message.start = 0;
        }
        self.chunks.push(target);
    }

    /// Empties the lane for its next use.
    pub(crate) fn recycle(&mut self, pool: &mut Pool) {
        for chunk in self.chunks.drain(..) {
            pool.put(chunk);
        }
        self.messages.clear();
        self.calls.clear();
        self.elements = 0;
        self.bytes = 0;
    }

    /// Undoes what was pushed after `mark`.
    pub(crate) fn truncate(&mut self, mark: &Mark) {
        self.messages.truncate(mark.messages);
        self.calls.truncate(mark.calls);
        self.elements = mark.elements;
        self.bytes = mark.bytes;
        if let Some(last) = mark.last {
            if let Some(message) = self.messages.last_mut() {
                // A relocated message stays where it went; only its length goes back.
                message.len = last.len;
            }
            self.patch_last();
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            messages: self.messages.len(),
            calls: self.calls.len(),
            elements: self.elements,
            bytes: self.bytes,
            last: self.messages.last().copied(),
        }
    }

    fn patch_last(&mut self) {
        let Some(message) = self.messages.last().copied() else {
            return;
        };
        let (start, len, list) = (
            index(message.start),
            index(message.len),
            index(message.list),
        );
        let Some(chunk) = self.chunks.get_mut(index(message.chunk)) else {
            return;
        };
        chunk.set_used(start + len);
        if let Some(wire_len) = chunk.bytes_mut(start, HEADER_LEN).get_mut(..4) {
            wire_len.copy_from_slice(&message.len.to_ne_bytes());
        }
        if list != 0 {
            let list_len = u16::try_from(len - list).unwrap_or(u16::MAX);
            chunk
                .bytes_mut(start + list, 2)
                .copy_from_slice(&list_len.to_ne_bytes());
        }
    }
}

/// A lane's state to go back to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    messages: usize,
    calls: usize,
    elements: u32,
    bytes: usize,
    last: Option<Message>,
}

enum Filled {
    All,
    ListFull,
    BufferFull,
}

/// Buffer positions are below 2^20; they are kept in 32 bits.
fn narrow(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

fn index(position: u32) -> usize {
    usize::try_from(position).unwrap_or(usize::MAX)
}
