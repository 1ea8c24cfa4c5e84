//! component-base's JSON: `ts` in milliseconds since 1970, `caller`, `msg`, `v` of what is no error, and
//! the event's fields, of which `err` is the error.

use core::fmt;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value as Json};
use tracing::Level;

use super::{Record, Value, verbosity_of};

/// Writes one event as an object on one line, without its end.
pub(super) fn write(line: &mut String, record: &Record<'_>, now: SystemTime) -> fmt::Result {
    let mut object = Map::new();
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    // Tenths of microseconds, as zap has them.
    let milliseconds = since.as_secs_f64() * 1e3;
    object.insert("ts".to_owned(), ((milliseconds * 1e4).round() / 1e4).into());
    object.insert(
        "caller".to_owned(),
        format!("{}:{}", record.file, record.line).into(),
    );
    object.insert("msg".to_owned(), record.message.as_str().into());
    if record.level != Level::ERROR {
        object.insert("v".to_owned(), verbosity_of(record.level).into());
    }
    if record.level <= Level::WARN {
        let level = record.level.as_str().to_lowercase();
        object.insert("level".to_owned(), level.into());
    }
    for (name, value) in &record.fields {
        let value = match value {
            Value::Bool(value) => Json::from(*value),
            Value::Signed(value) => Json::from(*value),
            Value::Unsigned(value) => Json::from(*value),
            Value::Float(value) => Json::from(*value),
            Value::Text(value) => Json::from(value.as_str()),
        };
        object.entry(*name).or_insert(value);
    }
    line.push_str(&Json::Object(object).to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn record(level: Level) -> Json {
        let mut line = String::new();
        let record = Record {
            level,
            file: "proxy/mod.rs",
            line: 183,
            message: "it \"is\" so\n".to_owned(),
            fields: vec![
                ("err", Value::Text("no".to_owned())),
                ("rows", Value::Signed(-3)),
            ],
        };
        let now = UNIX_EPOCH + Duration::from_nanos(1_796_043_674_845_224_600);
        write(&mut line, &record, now).unwrap();
        assert!(!line.contains('\n'));
        serde_json::from_str(&line).unwrap()
    }

    #[test]
    fn events_are_objects_as_component_base_writes_them() {
        let debug = record(Level::DEBUG);
        let expected = serde_json::json!({
            "ts": 1_796_043_674_845.224_6, "caller": "proxy/mod.rs:183", "msg": "it \"is\" so\n",
            "v": 2, "err": "no", "rows": -3,
        });
        assert_eq!(debug, expected);
        let error = record(Level::ERROR);
        assert_eq!(error["level"], "error");
        assert!(error.get("v").is_none());
        assert_eq!(record(Level::WARN)["level"], "warn");
    }
}
