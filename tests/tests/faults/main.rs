//! Whatever goes wrong between the loop and the kernel, in the end the kernel holds what is wanted, in
//! bounded time, and nobody else's tables have changed. `KPROXY_SEED` repeats a run.

mod cluster;
mod editor;
mod memory;
mod socket;
