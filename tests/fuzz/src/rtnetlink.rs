//! The host's addresses, as rtnetlink tells them.

use kproxy::watch::addresses_in;

pub(crate) fn run(input: &[u8]) {
    core::hint::black_box(addresses_in(input));
}
