//! Sets and maps, with the data types and byte orders that let nft show their rows.

use nft_batch::Batch;
use nl_codec::nft::dtype::{ByteOrder, DataType};
use nl_codec::nft::set::{SetDesc, SetField, SetFlags};
use nl_codec::nft::udata::SetInfo;
use nl_codec::nft::{self, List};
use smallvec::{SmallVec, smallvec};
use svc_planner::plan::{self, Family, KeyType};

use super::{LowerError, nf_family};

/// Creates a set or map.
pub(super) fn add(
    batch: &mut Batch,
    family: Family,
    table: &str,
    set: &plan::Set,
) -> Result<(), LowerError> {
    let key = key_type(family, set.key);
    let mut flags = SetFlags::empty();
    flags.set(SetFlags::INTERVAL, set.interval);
    flags.set(SetFlags::EVAL | SetFlags::TIMEOUT, set.dynamic);
    flags.set(SetFlags::MAP, set.data != plan::DataType::None);
    let mut info = SetInfo::default();
    info.key_byte_order = Some(key_order(set.key));

    let mut body = nft::Set::named(table, &set.name);
    body.key_type = Some(key.kind);
    body.key_len = Some(key.len);
    match set.data {
        plan::DataType::None => {}
        plan::DataType::Verdict => body.data_type = Some(DataType::VERDICT_MAP),
        data => {
            let data = data_type(family, data);
            body.data_type = Some(data.kind);
            body.data_len = Some(data.len);
            info.data_byte_order = Some(data.order);
        }
    }
    let mut desc = SetDesc::default();
    desc.size = set.size;
    // Elements of such sets name both ends of their ranges; one field alone is a tree of ends.
    let parts = key_parts(family, set.key);
    let fields: Vec<_> = parts
        .iter()
        .map(|part| SetField::new(part.key_len().unwrap_or_default()))
        .collect();
    if set.interval && fields.len() > 1 {
        flags |= SetFlags::CONCAT;
        desc.concat = Some(List::new(&fields));
    }
    if desc.size.is_some() || desc.concat.is_some() {
        body.desc = Some(desc);
    }
    body.flags = Some(flags);
    let userdata = info.encode()?;
    body.userdata = Some(userdata.as_bytes());
    batch.add_set(nf_family(family), &body)?;
    Ok(())
}

pub(super) struct Type {
    pub(super) kind: DataType,
    pub(super) len: u32,
    order: ByteOrder,
}

/// Type and length of a key.
pub(super) fn key_type(family: Family, key: KeyType) -> Type {
    concat(&key_parts(family, key), key_order(key))
}

/// Types of a key's fields.
fn key_parts(family: Family, key: KeyType) -> SmallVec<[DataType; 4]> {
    let address = address(family);
    match key {
        KeyType::Address => smallvec![address],
        KeyType::Frontend => smallvec![address, DataType::INET_PROTO, DataType::INET_SERVICE],
        KeyType::NodePort => smallvec![DataType::INET_PROTO, DataType::INET_SERVICE],
        KeyType::Class | KeyType::Group | KeyType::EndpointId => smallvec![DataType::CLASSID],
        KeyType::Slot | KeyType::State => smallvec![DataType::CLASSID, DataType::MARK],
        KeyType::Hairpin | KeyType::Client => smallvec![
            address,
            address,
            DataType::INET_PROTO,
            DataType::INET_SERVICE,
        ],
        KeyType::Source => smallvec![DataType::CLASSID, address],
        _ => smallvec![],
    }
}

/// Without it nft takes numbers of the host's order for the network's.
fn key_order(key: KeyType) -> ByteOrder {
    match key {
        KeyType::Class
        | KeyType::Group
        | KeyType::Slot
        | KeyType::State
        | KeyType::Source
        | KeyType::EndpointId => ByteOrder::HOST,
        KeyType::Address => ByteOrder::NETWORK,
        _ => ByteOrder::INVALID,
    }
}

/// Type and length of a datum.
pub(super) fn data_type(family: Family, data: plan::DataType) -> Type {
    match data {
        plan::DataType::Route | plan::DataType::List | plan::DataType::EndpointId => {
            concat(&[DataType::CLASSID], ByteOrder::HOST)
        }
        plan::DataType::Endpoint => concat(
            &[address(family), DataType::INET_SERVICE],
            ByteOrder::INVALID,
        ),
        _ => concat(&[], ByteOrder::INVALID),
    }
}

fn concat(parts: &[DataType], order: ByteOrder) -> Type {
    let kind = DataType::concat(parts).unwrap_or(DataType(0));
    Type {
        kind,
        len: kind.key_len().unwrap_or_default(),
        order,
    }
}

const fn address(family: Family) -> DataType {
    match family {
        Family::Ipv4 => DataType::IPV4_ADDR,
        Family::Ipv6 => DataType::IPV6_ADDR,
    }
}
