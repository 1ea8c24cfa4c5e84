//! A Kubernetes Service proxy that programs nf_tables over netlink: what reads manifests, lowers
//! plans to netlink batches and drives the kernel. The program `kproxy` is a thin layer of
//! commands over this library.
#![forbid(unsafe_code)]

pub mod api;
pub mod apiserver;
pub mod check;
pub mod cli;
pub mod config;
pub mod conntrack;
pub mod demo;
pub mod engine;
pub mod events;
pub mod explain;
pub mod family;
pub mod health;
pub mod ingest;
pub mod leftovers;
pub mod listeners;
pub mod logging;
pub mod lower;
pub mod manifest;
pub mod metrics;
pub mod netns;
pub mod node;
pub mod proxy;
pub mod startup;
pub mod statusz;
mod timestamp;
pub mod watch;
mod yaml;
