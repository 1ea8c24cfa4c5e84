//! Hairpins: a pod that reaches itself through a Service must see another source address, or it
//! would answer itself directly. One row per endpoint of this node.

use super::endpoint_selection::Selection;
use crate::model::address::LocalTarget;
use crate::object::Protocol;

/// The rows a Service port needs, sorted; `wanted` is overwritten.
pub(crate) fn list(endpoints: &Selection, protocol: Protocol, wanted: &mut Vec<LocalTarget>) {
    let local = endpoints.on_this_node.iter();
    wanted.clear();
    wanted.extend(local.map(|&target| LocalTarget { target, protocol }));
    wanted.sort_unstable_by_key(|local| local.target);
}
