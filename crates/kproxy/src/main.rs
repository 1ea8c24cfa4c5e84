//! kproxy command line.

fn main() {}
