//! What the benchmarks share: generated clusters, the same clusters as nft text, medians.

pub mod apiserver;
pub mod changes;
pub mod cluster;
pub mod codec;
pub mod memory;
pub mod ruleset;
pub mod stats;
pub mod sync;
