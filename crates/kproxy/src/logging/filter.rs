//! Which events are logged.

use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::config::Logging;

/// The verbosity from which on events of a level are logged.
pub(super) const fn verbosity_of(level: Level) -> u32 {
    match level {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG => 2,
        Level::TRACE => 4,
    }
}

/// How much more verbosity the events of libraries need that are not ours, of debug and trace: as with
/// kube-proxy, requests to the API server are among them.
const OTHERS: u32 = 4;

/// Is an event of a level, module and source file logged?
pub(super) fn is_on(settings: &Logging, level: Level, module: &str, file: Option<&str>) -> bool {
    let ours = ["kproxy", "nft_batch", "svc_planner", "nl_codec"];
    let root = module.split("::").next().unwrap_or_default();
    let mut wanted = verbosity_of(level);
    if wanted > 0 && !ours.contains(&root) {
        wanted += OTHERS;
    }
    if wanted <= settings.verbosity {
        return true;
    }
    let Some(file) = file else {
        return false;
    };
    // As klog: the first pattern that fits counts.
    let mut items = settings.vmodule.iter();
    let item = items.find(|item| fits(&item.file_pattern, file));
    item.is_some_and(|item| wanted <= item.verbosity)
}

/// The least important level of which any event may be logged.
pub(super) fn most(settings: &Logging) -> LevelFilter {
    let items = settings.vmodule.iter().map(|item| item.verbosity);
    match items.fold(settings.verbosity, u32::max) {
        0 | 1 => LevelFilter::INFO,
        2 | 3 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    }
}

/// Does a pattern fit a file's name without its folders and extension? `mod` is named as its folder.
fn fits(pattern: &str, path: &str) -> bool {
    let mut parts = path.rsplit('/');
    let name = parts.next().unwrap_or_default();
    let name = name.strip_suffix(".rs").unwrap_or(name);
    let pattern = pattern.strip_suffix(".rs").unwrap_or(pattern);
    glob(pattern, name) || name == "mod" && parts.next().is_some_and(|name| glob(pattern, name))
}

/// `*` stands for any letters, `?` for one.
fn glob(pattern: &str, text: &str) -> bool {
    let Some(first) = pattern.chars().next() else {
        return text.is_empty();
    };
    let rest = pattern.get(first.len_utf8()..).unwrap_or_default();
    let mut letters = text.chars();
    match first {
        '*' => {
            let ends = text.char_indices().map(|(index, _)| index);
            let mut ends = ends.chain([text.len()]);
            ends.any(|end| glob(rest, text.get(end..).unwrap_or_default()))
        }
        '?' => letters.next().is_some() && glob(rest, letters.as_str()),
        first => letters.next() == Some(first) && glob(rest, letters.as_str()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::VmoduleItem;

    fn settings(verbosity: u32, patterns: &[(&str, u32)]) -> Logging {
        let items = patterns.iter().map(|(pattern, verbosity)| VmoduleItem {
            file_pattern: (*pattern).to_owned(),
            verbosity: *verbosity,
        });
        Logging {
            verbosity,
            vmodule: items.collect(),
            ..Logging::default()
        }
    }

    #[test]
    fn verbosity_says_what_is_logged() {
        for (verbosity, debug, trace) in [
            (0, false, false),
            (1, false, false),
            (2, true, false),
            (3, true, false),
            (4, true, true),
            (10, true, true),
        ] {
            let settings = settings(verbosity, &[]);
            assert!(is_on(&settings, Level::INFO, "kproxy", None));
            assert_eq!(
                is_on(&settings, Level::DEBUG, "kproxy::proxy", None),
                debug,
                "{verbosity}"
            );
            assert_eq!(
                is_on(&settings, Level::TRACE, "kproxy", None),
                trace,
                "{verbosity}"
            );
        }
    }

    #[test]
    fn libraries_are_quieter() {
        let on = |verbosity, level| is_on(&settings(verbosity, &[]), level, "hyper::proto", None);
        assert!(on(0, Level::WARN));
        assert!(!on(5, Level::DEBUG) && on(6, Level::DEBUG));
        assert!(!on(7, Level::TRACE) && on(8, Level::TRACE));
    }

    #[test]
    fn source_files_can_say_more() {
        let settings = settings(0, &[("fol*", 4), ("wor?er", 2), ("proxy", 4)]);
        let on = |level, file| is_on(&settings, level, "kproxy", Some(file));
        assert!(on(Level::TRACE, "src/watch/folder.rs"));
        assert!(on(Level::DEBUG, "src/conntrack/worker.rs"));
        assert!(!on(Level::TRACE, "src/conntrack/worker.rs"));
        assert!(on(Level::TRACE, "src/proxy/mod.rs"));
        assert!(!on(Level::DEBUG, "src/proxy/pace.rs"));
        assert_eq!(most(&settings), LevelFilter::TRACE);
    }
}
