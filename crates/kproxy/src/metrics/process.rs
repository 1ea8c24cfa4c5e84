//! `process_*`, as Prometheus' Go client has them, read from `/proc/self`. What cannot be read is left out.

use core::fmt;
use std::fs;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// See the module.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
        let network = fs::read_to_string("/proc/self/net/netstat").unwrap_or_default();
        let page = f64::from(u32::try_from(rustix::param::page_size()).unwrap_or(4096));
        let stat = Stat::parse(&stat);
        let mut to = Writer(&mut encoder);
        to.counter(
            "process_cpu_seconds",
            "User and system CPU time spent",
            stat.as_ref().map(|it| it.cpu_ticks / ticks_per_second()),
        )?;
        to.gauge(
            "process_open_fds",
            "Open file descriptors",
            // The folder itself is read through one.
            fs::read_dir("/proc/self/fd")
                .ok()
                .map(|fds| count(fds.count().saturating_sub(1))),
        )?;
        to.gauge(
            "process_max_fds",
            "File descriptors that may be open",
            limit(&limits, "Max open files"),
        )?;
        to.gauge(
            "process_virtual_memory_bytes",
            "Virtual memory",
            stat.as_ref().map(|it| it.virtual_bytes),
        )?;
        to.gauge(
            "process_virtual_memory_max_bytes",
            "Virtual memory that there may be; -1 if there is no limit",
            limit(&limits, "Max address space"),
        )?;
        to.gauge(
            "process_resident_memory_bytes",
            "Resident memory",
            stat.as_ref().map(|it| it.resident_pages * page),
        )?;
        to.start_time(stat.as_ref())?;
        to.counter(
            "process_network_receive_bytes",
            "Bytes received in the network namespace",
            octets(&network, "InOctets"),
        )?;
        to.counter(
            "process_network_transmit_bytes",
            "Bytes sent in the network namespace",
            octets(&network, "OutOctets"),
        )
    }
}

/// When the process was started, alone.
pub(super) fn start_time(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    Writer(encoder).start_time(Stat::parse(&stat).as_ref())
}

fn ticks_per_second() -> f64 {
    f64::from(u32::try_from(rustix::param::clock_ticks_per_second()).unwrap_or(100))
}

struct Writer<'w, 'e>(&'w mut DescriptorEncoder<'e>);

impl Writer<'_, '_> {
    fn counter(&mut self, name: &str, help: &str, number: Option<f64>) -> fmt::Result {
        let Some(number) = number else {
            return Ok(());
        };
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        ConstCounter::new(number).encode(metric)
    }

    fn start_time(&mut self, stat: Option<&Stat>) -> fmt::Result {
        let boot = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.gauge(
            "process_start_time_seconds",
            "When the process was started",
            stat.and_then(|it| Some(boot_time(&boot)? + it.started_ticks / ticks_per_second())),
        )
    }

    fn gauge(&mut self, name: &str, help: &str, number: Option<f64>) -> fmt::Result {
        let Some(number) = number else {
            return Ok(());
        };
        let metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(number).encode(metric)
    }
}

/// Fields of `/proc/self/stat` (proc_pid_stat(5)).
#[derive(Debug, PartialEq)]
struct Stat {
    cpu_ticks: f64,
    /// After the system's boot.
    started_ticks: f64,
    virtual_bytes: f64,
    resident_pages: f64,
}

impl Stat {
    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name, in parentheses, and may hold any byte.
        let (_, rest) = text.rsplit_once(')')?;
        let mut fields = rest.split_ascii_whitespace();
        // The first of them is number 3.
        let mut field = |skip: usize| fields.nth(skip)?.parse::<f64>().ok();
        let user = field(11)?;
        let system = field(0)?;
        Some(Self {
            cpu_ticks: user + system,
            started_ticks: field(6)?,
            virtual_bytes: field(0)?,
            resident_pages: field(0)?,
        })
    }
}

/// When the system was booted, in seconds since the epoch.
fn boot_time(text: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    line.trim().parse().ok()
}

/// A soft limit.
fn limit(text: &str, name: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    match line.split_ascii_whitespace().next()? {
        "unlimited" => Some(-1.0),
        number => number.parse().ok(),
    }
}

/// A number of the IpExt lines: the first names what the second holds.
fn octets(text: &str, name: &str) -> Option<f64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let names = lines.next()?.split_ascii_whitespace();
    let numbers = lines.next()?.split_ascii_whitespace();
    let number = names.zip(numbers).find(|(it, _)| *it == name)?.1;
    number.parse().ok()
}

fn count(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_whatever_the_name() {
        let text = "7 (a) b) S 1 7 7 0 -1 4194560 100 200 3 4 150 50 5 6 20 0 9 0 4242 1048576 300 \
                    18446744073709551615 1 1";
        let stat = Stat::parse(text).unwrap();
        let expected = Stat {
            cpu_ticks: 200.0,
            started_ticks: 4242.0,
            virtual_bytes: 1_048_576.0,
            resident_pages: 300.0,
        };
        assert_eq!(stat, expected);
        assert_eq!(Stat::parse(""), None);
    }

    #[test]
    fn limits_and_tables() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units\n\
                      Max open files            1024                 1048576              files\n\
                      Max address space         unlimited            unlimited            bytes\n";
        assert_eq!(limit(limits, "Max open files"), Some(1024.0));
        assert_eq!(limit(limits, "Max address space"), Some(-1.0));
        assert_eq!(limit(limits, "Max nice"), None);
        let netstat =
            "TcpExt: A B\nTcpExt: 1 2\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 5 6 7\n";
        assert_eq!(octets(netstat, "OutOctets"), Some(7.0));
        assert_eq!(octets(netstat, "B"), None);
        assert_eq!(boot_time("cpu 1\nbtime 1700000000\n"), Some(1.7e9));
    }
}
