//! From an error reply to what was wrong: operation, object, attribute, element.

use core::fmt;

use nl_codec::ack::{Errno, ExtAck};
use nl_codec::msg::{ATTRS_OFFSET, Family, Messages, NfMsg, NftMsg};
use nl_codec::nft::{Elem, Str};
use nl_codec::{ATTR_HEADER_LEN, Attr, Attrs};

use crate::OpId;
use crate::sealed::SealedBatch;

/// `NFTA_SET_ELEM_LIST_ELEMENTS`.
const ELEMENTS: u16 = 3;

/// One error of the kernel about a batch.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct OpError {
    /// The kernel's error number.
    pub errno: Errno,
    /// The operation, or `None` if the error is about the transaction: EPERM without
    /// `CAP_NET_ADMIN`, ENOMEM, EOPNOTSUPP without nf_tables. A commit that fails as a whole is
    /// reported by the kernel as an error of the first operation.
    pub op: Option<OpId>,
    /// Number of the message in wire order, from 0.
    pub message: Option<u32>,
    /// Kind of message.
    pub kind: Option<NftMsg>,
    /// Family of the table.
    pub family: Family,
    /// Table.
    pub table: Option<String>,
    /// Chain, set, object or flowtable; of rules their chain.
    pub object: Option<String>,
    /// Handle or set id, where the message names its object by that.
    pub number: Option<u64>,
    /// The attribute that the kernel points at, from the message inwards.
    pub attribute: Option<AttrPath>,
    /// The element, if the kernel points at one.
    pub element: Option<BadElement>,
    /// Size of the set that is full (ENFILE).
    pub set_size: Option<u32>,
    /// The kernel's own words.
    pub text: Option<String>,
}

/// An element that the kernel refused.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BadElement {
    /// Which of the operation's elements, from 0.
    pub index: u32,
    /// Its key; empty for a catch-all element.
    pub key: Vec<u8>,
}

/// Attribute types from the message inwards, e.g. `elements / 3rd entry / key`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttrPath {
    steps: Vec<(u16, u32)>,
    name: Option<&'static str>,
}

impl AttrPath {
    /// Attribute type and its position among its siblings, from the message inwards.
    #[must_use]
    pub fn steps(&self) -> &[(u16, u32)] {
        &self.steps
    }

    /// The kernel's name of the first step, e.g. `NFTA_CHAIN_NAME`.
    #[must_use]
    pub fn name(&self) -> Option<&'static str> {
        self.name
    }
}

impl fmt::Display for AttrPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (kind, position)) in self.steps.iter().enumerate() {
            match (at, self.name) {
                (0, Some(name)) => f.write_str(name)?,
                (0, None) => write!(f, "attribute {kind}")?,
                _ => write!(f, "/{kind}[{position}]")?,
            }
        }
        Ok(())
    }
}

impl OpError {
    /// Describes an error about the batch's message `wire`, or about the batch.
    pub(crate) fn locate(
        batch: &SealedBatch,
        wire: Option<u32>,
        errno: Errno,
        extended: &ExtAck<'_>,
    ) -> Self {
        let mut error = Self {
            errno,
            op: None,
            message: wire,
            kind: None,
            family: Family::UNSPEC,
            table: None,
            object: None,
            number: None,
            attribute: None,
            element: None,
            set_size: None,
            text: extended.message.map(|text| text.to_string()),
        };
        let Some(place) = wire.and_then(|wire| batch.place(wire)) else {
            return error;
        };
        error.op = Some(place.message.op);
        let bytes = place.bytes();
        let Some(Ok(msg)) = Messages::new(bytes).next() else {
            return error;
        };
        let Ok(msg) = msg.nfnetlink() else {
            return error;
        };
        error.name_object(batch, &msg);
        let offset = extended.offset.or(extended.missing_nest);
        let Some(offset) = offset.and_then(|offset| usize::try_from(offset).ok()) else {
            return error;
        };
        let path = walk(&msg, offset);
        if let [(ELEMENTS, _), (_, index), ..] = path.as_slice()
            && is_element_message(error.kind)
        {
            let element = place.message.first_element.saturating_add(*index);
            if let Some((op, index)) = place.lane.op_of_element(element) {
                error.op = Some(op);
                error.element = Some(BadElement {
                    index,
                    key: key_at(&msg, path.get(1).map_or(0, |(_, index)| *index)),
                });
            }
        }
        if let Some((kind, _)) = path.first() {
            error.attribute = Some(AttrPath {
                name: error.kind.and_then(|msg| attr_name(msg, *kind)),
                steps: path,
            });
        }
        error
    }

    fn name_object(&mut self, batch: &SealedBatch, msg: &NfMsg<'_>) {
        self.kind = msg.header.kind.as_nft();
        self.family = msg.nfgen.family;
        let text = |attr: &Attr<'_>| attr.value::<Str<'_>>("name").ok().map(|s| s.to_string());
        for attr in msg.attrs().flatten() {
            match (class(self.kind), attr.kind) {
                (Class::Table, 1) => {
                    self.table = text(&attr);
                    self.object = None;
                }
                (Class::Table, 4)
                | (Class::Chain, 2)
                | (Class::Rule, 3)
                | (Class::Set, 16)
                | (Class::Object, 6)
                | (Class::Flowtable, 5) => self.number = attr.value::<u64>("handle").ok(),
                (Class::Elements, 4) => {
                    let id = attr.value::<u32>("set id").ok();
                    self.number = id.map(u64::from);
                    self.object = id
                        .and_then(|id| batch.set_name(id))
                        .map(|name| name.to_string());
                }
                (Class::Other, _) => {}
                (_, 1) => self.table = text(&attr),
                (Class::Chain, 3)
                | (Class::Rule | Class::Set | Class::Elements | Class::Object, 2)
                | (Class::Flowtable, 2) => self.object = text(&attr),
                _ => {}
            }
        }
    }
}

impl fmt::Display for OpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            Some(kind) => write!(f, "{kind}")?,
            None => f.write_str("transaction")?,
        }
        if let Some(table) = &self.table {
            write!(f, " {} {table}", self.family)?;
        }
        if let Some(object) = &self.object {
            write!(f, " {object}")?;
        } else if let Some(number) = self.number {
            write!(f, " #{number}")?;
        }
        if let Some(element) = &self.element {
            write!(f, " element {} (0x", element.index)?;
            for byte in &element.key {
                write!(f, "{byte:02x}")?;
            }
            f.write_str(")")?;
        }
        write!(f, ": {}", self.errno)?;
        if let Some(hint) = hint(self) {
            write!(f, " ({hint}")?;
            if let Some(size) = self.set_size {
                write!(f, ", size {size}")?;
            }
            f.write_str(")")?;
        }
        if let Some(attribute) = &self.attribute {
            write!(f, " at {attribute}")?;
        }
        if let Some(text) = &self.text {
            write!(f, ": {text}")?;
        }
        Ok(())
    }
}

/// What a number means here that is not what it usually means.
fn hint(error: &OpError) -> Option<&'static str> {
    let class = class(error.kind);
    match error.errno {
        Errno::ENFILE if class == Class::Elements => Some("the set is full"),
        Errno::EMLINK => Some("chains nest too deep or loop"),
        Errno::ENOENT if class == Class::Rule => {
            Some("a chain, set or expression type does not exist")
        }
        Errno::EPERM if error.op.is_none() => Some("no CAP_NET_ADMIN"),
        Errno::EPERM => Some("the table has another owner"),
        Errno::EEXIST if class == Class::Elements => Some("the key exists with other data"),
        Errno::EBUSY => Some("still in use"),
        _ => None,
    }
}

/// The attributes that enclose the byte at `offset` of the message, outermost first.
fn walk(msg: &NfMsg<'_>, offset: usize) -> Vec<(u16, u32)> {
    let mut path = Vec::new();
    let mut base = ATTRS_OFFSET;
    let mut attrs = msg.attrs();
    'level: loop {
        let mut position = 0;
        for attr in attrs.by_ref() {
            let Ok(attr) = attr else { break };
            let start = base + attr.offset;
            let end = start + ATTR_HEADER_LEN + attr.payload.len();
            if (start..end).contains(&offset) {
                path.push((attr.kind, position));
                // At the header: this one is meant. Inside: one of its own attributes, if it has
                // any.
                if offset > start && attr.flags & nl_codec::NLA_F_NESTED != 0 {
                    base = start + ATTR_HEADER_LEN;
                    attrs = Attrs::new(attr.payload);
                    continue 'level;
                }
                return path;
            }
            position += 1;
        }
        return path;
    }
}

/// Key of an element in an element message.
fn key_at(msg: &NfMsg<'_>, index: u32) -> Vec<u8> {
    let elements = msg.attrs().flatten().find(|attr| attr.kind == ELEMENTS);
    let element = elements.and_then(|list| {
        list.nested()
            .flatten()
            .nth(usize::try_from(index).unwrap_or(usize::MAX))
    });
    element
        .and_then(|attr| Elem::decode_attrs(attr.nested()).ok())
        .and_then(|elem| elem.key_bytes().map(<[u8]>::to_vec))
        .unwrap_or_default()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Table,
    Chain,
    Rule,
    Set,
    Elements,
    Object,
    Flowtable,
    Other,
}

fn class(kind: Option<NftMsg>) -> Class {
    let Some(kind) = kind else {
        return Class::Other;
    };
    match kind {
        NftMsg::NEW_TABLE | NftMsg::DEL_TABLE | NftMsg::DESTROY_TABLE => Class::Table,
        NftMsg::NEW_CHAIN | NftMsg::DEL_CHAIN | NftMsg::DESTROY_CHAIN => Class::Chain,
        NftMsg::NEW_RULE | NftMsg::DEL_RULE | NftMsg::DESTROY_RULE => Class::Rule,
        NftMsg::NEW_SET | NftMsg::DEL_SET | NftMsg::DESTROY_SET => Class::Set,
        NftMsg::NEW_SETELEM | NftMsg::DEL_SETELEM | NftMsg::DESTROY_SETELEM => Class::Elements,
        NftMsg::NEW_OBJ | NftMsg::DEL_OBJ | NftMsg::DESTROY_OBJ => Class::Object,
        NftMsg::NEW_FLOWTABLE | NftMsg::DEL_FLOWTABLE | NftMsg::DESTROY_FLOWTABLE => {
            Class::Flowtable
        }
        _ => Class::Other,
    }
}

fn is_element_message(kind: Option<NftMsg>) -> bool {
    class(kind) == Class::Elements
}

/// Names of `include/uapi/linux/netfilter/nf_tables.h`.
fn attr_name(msg: NftMsg, attr: u16) -> Option<&'static str> {
    Some(match (class(Some(msg)), attr) {
        (Class::Table, 1) => "NFTA_TABLE_NAME",
        (Class::Table, 2) => "NFTA_TABLE_FLAGS",
        (Class::Table, 4) => "NFTA_TABLE_HANDLE",
        (Class::Table, 6) => "NFTA_TABLE_USERDATA",
        (Class::Chain, 1) => "NFTA_CHAIN_TABLE",
        (Class::Chain, 2) => "NFTA_CHAIN_HANDLE",
        (Class::Chain, 3) => "NFTA_CHAIN_NAME",
        (Class::Chain, 4) => "NFTA_CHAIN_HOOK",
        (Class::Chain, 5) => "NFTA_CHAIN_POLICY",
        (Class::Chain, 7) => "NFTA_CHAIN_TYPE",
        (Class::Chain, 10) => "NFTA_CHAIN_FLAGS",
        (Class::Chain, 11) => "NFTA_CHAIN_ID",
        (Class::Chain, 12) => "NFTA_CHAIN_USERDATA",
        (Class::Rule, 1) => "NFTA_RULE_TABLE",
        (Class::Rule, 2) => "NFTA_RULE_CHAIN",
        (Class::Rule, 3) => "NFTA_RULE_HANDLE",
        (Class::Rule, 4) => "NFTA_RULE_EXPRESSIONS",
        (Class::Rule, 6) => "NFTA_RULE_POSITION",
        (Class::Rule, 7) => "NFTA_RULE_USERDATA",
        (Class::Rule, 9) => "NFTA_RULE_ID",
        (Class::Rule, 10) => "NFTA_RULE_POSITION_ID",
        (Class::Rule, 11) => "NFTA_RULE_CHAIN_ID",
        (Class::Set, 1) => "NFTA_SET_TABLE",
        (Class::Set, 2) => "NFTA_SET_NAME",
        (Class::Set, 3) => "NFTA_SET_FLAGS",
        (Class::Set, 4) => "NFTA_SET_KEY_TYPE",
        (Class::Set, 5) => "NFTA_SET_KEY_LEN",
        (Class::Set, 6) => "NFTA_SET_DATA_TYPE",
        (Class::Set, 7) => "NFTA_SET_DATA_LEN",
        (Class::Set, 8) => "NFTA_SET_POLICY",
        (Class::Set, 9) => "NFTA_SET_DESC",
        (Class::Set, 10) => "NFTA_SET_ID",
        (Class::Set, 13) => "NFTA_SET_USERDATA",
        (Class::Set, 16) => "NFTA_SET_HANDLE",
        (Class::Elements, 1) => "NFTA_SET_ELEM_LIST_TABLE",
        (Class::Elements, 2) => "NFTA_SET_ELEM_LIST_SET",
        (Class::Elements, 3) => "NFTA_SET_ELEM_LIST_ELEMENTS",
        (Class::Elements, 4) => "NFTA_SET_ELEM_LIST_SET_ID",
        (Class::Object, 1) => "NFTA_OBJ_TABLE",
        (Class::Object, 2) => "NFTA_OBJ_NAME",
        (Class::Object, 3) => "NFTA_OBJ_TYPE",
        (Class::Object, 4) => "NFTA_OBJ_DATA",
        (Class::Object, 6) => "NFTA_OBJ_HANDLE",
        (Class::Flowtable, 1) => "NFTA_FLOWTABLE_TABLE",
        (Class::Flowtable, 2) => "NFTA_FLOWTABLE_NAME",
        (Class::Flowtable, 3) => "NFTA_FLOWTABLE_HOOK",
        (Class::Flowtable, 5) => "NFTA_FLOWTABLE_HANDLE",
        _ => return None,
    })
}
