//! Configuration files: refused in one line, or completed, judged and written so that they read the
//! same.

use kproxy::config::decode;
use svc_planner::Config;
use svc_planner::plan::Family;

pub(crate) fn run(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    let decoded = match decode(&text) {
        Ok(decoded) => decoded,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    if let Some(strictness) = decoded.strictness {
        assert!(!strictness.to_string().is_empty());
    }
    let mut config = decoded.config;
    config.set_defaults();
    config.settle();
    if let Err(invalid) = config.validate() {
        assert!(!invalid.to_string().is_empty());
        return;
    }
    // What is valid can be used and written.
    for family in [Family::Ipv4, Family::Ipv6] {
        core::hint::black_box(config.planner(family, Config::default()));
    }
    core::hint::black_box((config.periods(), config.sites()));
    let yaml = match config.to_yaml() {
        Ok(yaml) => yaml,
        Err(error) => panic!("cannot be written: {error}"),
    };
    match decode(&yaml) {
        Ok(again) => assert_eq!(again.strictness, None, "{yaml}"),
        Err(error) => panic!("cannot be read again: {error}\n{yaml}"),
    }
}
