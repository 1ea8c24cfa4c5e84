//! The program `nft-replay`; see the library.

fn main() {}
