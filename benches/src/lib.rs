//! Support code of the benchmarks.
