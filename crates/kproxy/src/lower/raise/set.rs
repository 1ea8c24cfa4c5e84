//! Sets and maps.

use nl_codec::nft;
use nl_codec::nft::DataType as NftType;
use nl_codec::nft::set::SetFlags;
use svc_planner::plan::{DataType, Family, KeyType, Set};

use super::RaiseError;
use crate::lower::set::{data_type, key_type};

/// A set or map as the kernel lists it.
///
/// # Errors
/// [`RaiseError::Set`], [`RaiseError::Malformed`].
pub fn raise_set(family: Family, set: &nft::Set<'_>) -> Result<Set, RaiseError> {
    let name = set.name.and_then(|name| name.to_str());
    let name = name.ok_or(RaiseError::Malformed("set"))?;
    let foreign = || RaiseError::Set(name.to_owned());
    let flags = set.flags.unwrap_or(SetFlags::empty());
    let key = KEY_TYPES.into_iter().find(|key| {
        let wanted = key_type(family, *key);
        let alike = set.key_type == Some(wanted.kind) && set.key_len == Some(wanted.len);
        // Classes and groups are spelled alike.
        alike && *key != KeyType::Class
    });
    let key = key.ok_or_else(foreign)?;
    let data = if !flags.contains(SetFlags::MAP) {
        DataType::None
    } else if set.data_type == Some(NftType::VERDICT_MAP) {
        DataType::Verdict
    } else {
        let data = DATA_TYPES.into_iter().find(|data| {
            let wanted = data_type(family, *data);
            set.data_type == Some(wanted.kind) && set.data_len == Some(wanted.len)
        });
        data.ok_or_else(foreign)?
    };
    // Keys that are spelled alike are told apart by their data, and data by their keys.
    let key = match (key, data) {
        (KeyType::Group, DataType::Verdict | DataType::None) => KeyType::Class,
        (KeyType::Group, DataType::Endpoint) => KeyType::EndpointId,
        (KeyType::Slot, DataType::None) => KeyType::State,
        (KeyType::Hairpin, DataType::Route) => KeyType::Client,
        (key, _) => key,
    };
    let data = match (key, data) {
        (_, DataType::Route) if ENDPOINT_ID_MAPS.contains(&base_name(name)) => DataType::EndpointId,
        (_, DataType::Route) if !ROUTE_MAPS.contains(&base_name(name)) => DataType::List,
        (_, data) => data,
    };
    Ok(Set {
        name: name.into(),
        key,
        data,
        interval: flags.contains(SetFlags::INTERVAL),
        dynamic: flags.contains(SetFlags::EVAL),
        size: set.desc.and_then(|desc| desc.size),
    })
}

/// A set's name without the number of its generation.
pub(crate) fn base_name(name: &str) -> &str {
    match name.rsplit_once('-') {
        Some((base, number)) if number.bytes().all(|it| it.is_ascii_digit()) => base,
        _ => name,
    }
}

const KEY_TYPES: [KeyType; 7] = [
    KeyType::Address,
    KeyType::Frontend,
    KeyType::NodePort,
    KeyType::Group,
    KeyType::Slot,
    KeyType::Hairpin,
    KeyType::Source,
];
const DATA_TYPES: [DataType; 2] = [DataType::Route, DataType::Endpoint];
/// Names of the maps with [`DataType::Route`], apart from the numbers of generations; numbers of
/// lists are spelled like them.
const ROUTE_MAPS: [&str; 3] = ["services", "nodeports", "shortcuts"];
/// Likewise of those with [`DataType::EndpointId`].
const ENDPOINT_ID_MAPS: [&str; 2] = ["client-affinity", "sticky-slots"];
