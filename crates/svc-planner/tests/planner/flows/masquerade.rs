//! Who is masqueraded.

use super::*;

/// Who is masqueraded, with and without a detector and masquerade-all: 2 for both endpoints, 1 for
/// the local one, m for masqueraded.
#[test]
fn internal_and_external_masquerade() {
    let cases: [(&str, &str, [&str; 4]); 27] = [
        (POD, "172.30.0.41:80", ["2n", "2n", "2m", "2m"]),
        (POD, "192.168.0.2:3001", ["2m", "2m", "2m", "2m"]),
        (POD, "1.2.3.4:80", ["2m", "2m", "2m", "2m"]),
        (NODE_IP, "172.30.0.41:80", ["2m", "2n", "2m", "2m"]),
        (NODE_IP, "192.168.0.2:3001", ["2m", "2m", "2m", "2m"]),
        (NODE_IP, "1.2.3.4:80", ["2m", "2m", "2m", "2m"]),
        (EXTERNAL, "172.30.0.41:80", ["2m", "2n", "2m", "2m"]),
        (EXTERNAL, "192.168.0.2:3001", ["2m", "2m", "2m", "2m"]),
        (EXTERNAL, "1.2.3.4:80", ["2m", "2m", "2m", "2m"]),
        (POD, "172.30.0.42:80", ["2n", "2n", "2m", "2m"]),
        (POD, "192.168.0.2:3002", ["2n", "1n", "2n", "1n"]),
        (POD, "5.6.7.8:80", ["2n", "1n", "2n", "1n"]),
        (NODE_IP, "172.30.0.42:80", ["2m", "2n", "2m", "2m"]),
        (NODE_IP, "192.168.0.2:3002", ["2m", "2m", "2m", "2m"]),
        (NODE_IP, "5.6.7.8:80", ["2m", "2m", "2m", "2m"]),
        (EXTERNAL, "172.30.0.42:80", ["2m", "2n", "2m", "2m"]),
        (EXTERNAL, "192.168.0.2:3002", ["1n", "1n", "1n", "1n"]),
        (EXTERNAL, "5.6.7.8:80", ["1n", "1n", "1n", "1n"]),
        (POD, "172.30.0.43:80", ["1n", "1n", "1m", "1m"]),
        (POD, "192.168.0.2:3003", ["2m", "2m", "2m", "2m"]),
        (POD, "9.10.11.12:80", ["2m", "2m", "2m", "2m"]),
        (NODE_IP, "172.30.0.43:80", ["1m", "1n", "1m", "1m"]),
        (NODE_IP, "192.168.0.2:3003", ["2m", "2m", "2m", "2m"]),
        (NODE_IP, "9.10.11.12:80", ["2m", "2m", "2m", "2m"]),
        (EXTERNAL, "172.30.0.43:80", ["1m", "1n", "1m", "1m"]),
        (EXTERNAL, "192.168.0.2:3003", ["2m", "2m", "2m", "2m"]),
        (EXTERNAL, "9.10.11.12:80", ["2m", "2m", "2m", "2m"]),
    ];
    let no_detector = LocalDetector::None;
    let configs = [
        config(),
        Config {
            local: no_detector.clone(),
            ..config()
        },
        Config {
            masquerade_all: true,
            ..config()
        },
        Config {
            masquerade_all: true,
            local: no_detector,
            ..config()
        },
    ];
    for (column, config) in configs.into_iter().enumerate() {
        let mut driver = cluster(config);
        for (number, balancer) in [(1, "1.2.3.4"), (2, "5.6.7.8"), (3, "9.10.11.12")] {
            let text = format!("svc{number}");
            let mut service = balanced(&format!("172.30.0.4{number}"), 3000 + number, balancer);
            service.name = name(&text);
            match number {
                2 => service.external_policy = TrafficPolicy::Local,
                3 => service.internal_policy = TrafficPolicy::Local,
                _ => {}
            }
            driver.change(Change::Service(service));
            let pods = format!("10.180.0.{number}@L 10.180.1.{number}@R");
            driver.change(endpoints(HTTP, &text, &pods));
        }
        for (from, to, expected) in cases {
            let number = match to.split(':').next_back().unwrap() {
                "3001" => 1,
                "3002" => 2,
                "3003" => 3,
                _ => match to {
                    "172.30.0.41:80" | "1.2.3.4:80" => 1,
                    "172.30.0.42:80" | "5.6.7.8:80" => 2,
                    _ => 3,
                },
            };
            let here = format!("10.180.0.{number}:80");
            let there = format!("10.180.1.{number}:80");
            let expected = match expected[column] {
                "2n" => format!("{here} {there}"),
                "2m" => format!("{here} {there} masq"),
                "1n" => here,
                "1m" => format!("{here} masq"),
                other => panic!("{other}?"),
            };
            flow(&mut driver, from, to, &expected);
        }
    }
}
