//! What sets hold, so that their elements can be shown: learnt from the messages that make sets, and
//! from those that tell of them.

use std::collections::HashMap;

use nl_codec::msg::{Family, NfMsg, NftMsg};
use nl_codec::nft::dtype::ByteOrder;
use nl_codec::nft::set::SetFlags;
use nl_codec::nft::udata::SetInfo;
use nl_codec::nft::{DataType, Set};

/// Types of a set's keys and data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SetShape {
    /// Type of the key.
    pub key: DataType,
    /// Its length in bytes.
    pub key_len: usize,
    /// Byte order of a plain key, where the set's userdata say it.
    pub key_order: Option<ByteOrder>,
    /// Type of a map's data.
    pub data: Option<DataType>,
    /// Byte order of plain data.
    pub data_order: Option<ByteOrder>,
    /// Flags.
    pub flags: SetFlags,
}

impl SetShape {
    /// What a set's definition says.
    #[must_use]
    pub fn of(set: &Set<'_>) -> Self {
        let info = SetInfo::decode(set.userdata.unwrap_or_default()).unwrap_or_default();
        let flags = set.flags.unwrap_or(SetFlags::empty());
        Self {
            key: set.key_type.unwrap_or(DataType(0)),
            key_len: usize::try_from(set.key_len.unwrap_or_default()).unwrap_or_default(),
            key_order: info.key_byte_order,
            data: set.data_type.filter(|_| flags.contains(SetFlags::MAP)),
            data_order: info.data_byte_order,
            flags,
        }
    }
}

/// Family, table and name.
type SetName = (u8, Box<[u8]>, Box<[u8]>);

/// The sets that are known.
#[derive(Debug, Clone, Default)]
pub struct Catalog {
    named: HashMap<SetName, SetShape>,
    /// Of the transaction that is looked at.
    ids: HashMap<u32, SetShape>,
}

impl Catalog {
    /// Forgets what belongs to one transaction.
    pub fn begin(&mut self) {
        self.ids.clear();
    }

    /// Takes a message in.
    pub fn learn(&mut self, msg: &NfMsg<'_>) {
        if msg.header.kind.as_nft() != Some(NftMsg::NEW_SET) {
            return;
        }
        let Ok(set) = msg.body::<Set<'_>>() else {
            return;
        };
        let shape = SetShape::of(&set);
        if let (Some(table), Some(name)) = (set.table, set.name) {
            let key = key(msg.nfgen.family, table.as_bytes(), name.as_bytes());
            self.named.insert(key, shape);
        }
        if let Some(id) = set.id {
            self.ids.insert(id, shape);
        }
    }

    /// The set of this name, else the one of this id.
    #[must_use]
    pub fn find(
        &self,
        family: Family,
        table: &[u8],
        name: Option<&[u8]>,
        id: Option<u32>,
    ) -> Option<SetShape> {
        let named = name.and_then(|name| self.named.get(&key(family, table, name)));
        // Templates of anonymous sets are no names.
        let by_id = id.and_then(|id| self.ids.get(&id));
        by_id.or(named).copied()
    }
}

fn key(family: Family, table: &[u8], name: &[u8]) -> SetName {
    (family.0, table.into(), name.into())
}
