//! klog's text: `I1130 13:01:12.269440   32090 proxy/mod.rs:183] message key="value"`.

use core::fmt::{self, Write};
use std::time::SystemTime;

use tracing::Level;

use super::{Record, Value};
use crate::timestamp::Timestamp;

/// Writes one event as a line, without its end. Times are in UTC.
pub(super) fn write(line: &mut String, record: &Record<'_>, now: SystemTime) -> fmt::Result {
    let letter = match record.level {
        Level::ERROR => 'E',
        Level::WARN => 'W',
        _ => 'I',
    };
    let (month, day) = Timestamp(now).month_and_day();
    let time = Timestamp(now).time_of_day();
    write!(
        line,
        "{letter}{month:02}{day:02} {time} {:7} {}:{}] ",
        std::process::id(),
        record.file,
        record.line
    )?;
    // One event, one line, and nothing that a terminal obeys: names and errors come from others.
    for letter in record.message.chars() {
        match letter {
            '\n' => line.push_str("; "),
            letter if letter.is_control() => write!(line, "{}", letter.escape_default())?,
            letter => line.push(letter),
        }
    }
    for (name, value) in &record.fields {
        match value {
            Value::Bool(value) => write!(line, " {name}={value}")?,
            Value::Signed(value) => write!(line, " {name}={value}")?,
            Value::Unsigned(value) => write!(line, " {name}={value}")?,
            Value::Float(value) => write!(line, " {name}={value}")?,
            Value::Text(value) => write!(line, " {name}={value:?}")?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn lines_are_as_klog_writes_them() {
        let mut line = String::new();
        let record = Record {
            level: Level::WARN,
            file: "proxy/mod.rs",
            line: 183,
            message: "two\nlines\r\x1b[31mé".to_owned(),
            fields: vec![
                ("err", Value::Text("a \"b\"".to_owned())),
                ("count", Value::Unsigned(3)),
            ],
        };
        let now = SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_043_672_269_440);
        write(&mut line, &record, now).unwrap();
        let expected = format!(
            "W1130 13:01:12.269440 {:7} proxy/mod.rs:183] two; lines\\r\\u{{1b}}[31mé err=\"a \\\"b\\\"\" count=3",
            std::process::id()
        );
        assert_eq!(line, expected);
    }
}
