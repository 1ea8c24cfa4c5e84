//! Logs as kube-proxy's (k8s.io/klog, k8s.io/component-base/logs): one line an event, as text or JSON,
//! as much of it as `-v` and `--vmodule` say, and all that while the process runs to be changed.
//!
//! | `-v` | what is logged |
//! |---|---|
//! | 0, 1 | errors, warnings, what begins and ends |
//! | 2, 3 | each sync, and what is good to know when something is odd (debug) |
//! | 4 … | details (trace) |

mod filter;
mod json;
mod progress;
mod repeats;
mod text;

pub use progress::Progress;
pub(crate) use repeats::Repeats;

use core::cell::RefCell;
use core::fmt::{self, Write as _};
use std::io::{self, Write as _};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use self::filter::verbosity_of;
use crate::config::Logging;

/// The logs of this process, once they are started.
#[derive(Debug, Clone)]
pub struct Logs(Arc<RwLock<Logging>>);

impl Logs {
    /// Logs from now on as `settings` say, which were checked.
    #[must_use]
    pub fn start(settings: Logging) -> Self {
        let logs = Self(Arc::new(RwLock::new(settings)));
        let lines = Lines(Arc::clone(&logs.0));
        // Fails only if a subscriber is set already, which then stays.
        let _ = tracing_subscriber::registry().with(lines).try_init();
        logs
    }

    /// Logs from now on as other settings say.
    pub fn change(&self, settings: Logging) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
        tracing::callsite::rebuild_interest_cache();
    }
}

/// Writes events as lines.
struct Lines(Arc<RwLock<Logging>>);

impl Lines {
    fn read<T>(&self, look: impl FnOnce(&Logging) -> T) -> T {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber> Layer<S> for Lines {
    fn enabled(&self, metadata: &Metadata<'_>, _: Context<'_, S>) -> bool {
        self.read(|settings| {
            let module = metadata.target();
            filter::is_on(settings, *metadata.level(), module, metadata.file())
        })
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.read(filter::most))
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        thread_local! {
            static LINE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        let (is_json, split) = self.read(|settings| match &*settings.format {
            "json" => (true, settings.options.json.split_stream),
            _ => (false, settings.options.text.split_stream),
        });
        LINE.with_borrow_mut(|line| {
            line.clear();
            let record = Record::of(event);
            // Writing to a string cannot fail.
            let _ = if is_json {
                json::write(line, &record, SystemTime::now())
            } else {
                text::write(line, &record, SystemTime::now())
            };
            line.push('\n');
            // There is nowhere to complain when the log cannot be written.
            let _ = if split && record.level > Level::WARN {
                io::stdout().lock().write_all(line.as_bytes())
            } else {
                io::stderr().lock().write_all(line.as_bytes())
            };
        });
    }
}

/// What an event says.
struct Record<'e> {
    level: Level,
    /// Folder and file, and line.
    file: &'e str,
    line: u32,
    message: String,
    fields: Vec<(&'static str, Value)>,
}

/// What a field holds.
enum Value {
    Bool(bool),
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
}

impl<'e> Record<'e> {
    fn of(event: &Event<'e>) -> Self {
        let metadata = event.metadata();
        let mut record = Self {
            level: *metadata.level(),
            file: metadata.file().map_or("", short),
            line: metadata.line().unwrap_or_default(),
            message: String::new(),
            fields: Vec::new(),
        };
        event.record(&mut record);
        record
    }
}

impl Visit for Record<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if field.name() == "message" {
            // Writing to a string cannot fail.
            let _ = write!(self.message, "{value:?}");
        } else {
            let text = format!("{value:?}");
            self.fields.push((field.name(), Value::Text(text)));
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "message" {
            self.message.push_str(value);
        } else {
            let text = value.to_owned();
            self.fields.push((field.name(), Value::Text(text)));
        }
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.fields.push((field.name(), Value::Bool(value)));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.fields.push((field.name(), Value::Signed(value)));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.fields.push((field.name(), Value::Unsigned(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.fields.push((field.name(), Value::Float(value)));
    }
}

/// A source file's path from its last folder on.
fn short(path: &str) -> &str {
    let mut slashes = path.rmatch_indices('/').map(|(index, _)| index);
    slashes
        .nth(1)
        .and_then(|index| path.get(index + 1..))
        .unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_with_their_folder() {
        assert_eq!(short("crates/kproxy/src/proxy/mod.rs"), "proxy/mod.rs");
        assert_eq!(short("src/main.rs"), "src/main.rs");
        assert_eq!(short("main.rs"), "main.rs");
    }
}
