//! The planner against the fake kernel: random clusters with random histories, compared with the
//! oracle, with a planner that knows only the end, and checked for what packets saw in between.

mod cluster;
mod driver;
mod properties;
mod size;
