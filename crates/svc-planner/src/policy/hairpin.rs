//! Hairpins: a pod that reaches itself through a Service must see another source address, or it
//! would answer itself directly. One row per endpoint of this node.

use super::endpoint_selection::Selection;
use crate::model::address::LocalTarget;
use crate::object::Protocol;

/// The rows a Service port needs, sorted.
pub(crate) fn wanted(endpoints: &Selection, protocol: Protocol) -> Box<[LocalTarget]> {
    let local = endpoints.on_this_node.iter();
    let mut wanted: Vec<_> = local
        .map(|&target| LocalTarget { target, protocol })
        .collect();
    wanted.sort_unstable_by_key(|local| local.target);
    wanted.into_boxed_slice()
}
