//! Limits of histograms: kube-proxy's, so that its dashboards and alerts keep working, and ours.

use prometheus_client::metrics::histogram::Histogram;

/// Of syncs and of searches for stale connections: 1 ms, 2 ms, … 16.384 s.
pub(crate) fn syncs() -> Histogram {
    Histogram::new(doubling(0.001, 15))
}

/// Of the time from a change of a pod to the kernel: 0, 0.25 s, 0.5 s, every second up to a minute, then
/// coarser up to five.
pub(crate) fn network_programming() -> Histogram {
    let early = [0.0, 0.25, 0.5].into_iter();
    let seconds = (1..60).map(f64::from);
    let minute = (60..120).step_by(5).map(f64::from);
    let minutes = (120..=300).step_by(30).map(f64::from);
    Histogram::new(early.chain(seconds).chain(minute).chain(minutes))
}

/// Of the parts of a transaction: 50 µs, 100 µs, … 3.3 s.
pub(crate) fn transaction_parts() -> Histogram {
    Histogram::new(doubling(0.000_05, 17))
}

/// Of a transaction's length: 256 bytes, 1 KiB, … 64 MiB.
pub(crate) fn transaction_bytes() -> Histogram {
    Histogram::new(fourfold(256.0, 10))
}

/// Of a transaction's operations: 1, 4, 16, … 65,536.
pub(crate) fn transaction_operations() -> Histogram {
    Histogram::new(fourfold(1.0, 9))
}

fn doubling(first: f64, count: usize) -> impl Iterator<Item = f64> {
    core::iter::successors(Some(first), |limit| Some(limit * 2.0)).take(count)
}

fn fourfold(first: f64, count: usize) -> impl Iterator<Item = f64> {
    core::iter::successors(Some(first), |limit| Some(limit * 4.0)).take(count)
}
