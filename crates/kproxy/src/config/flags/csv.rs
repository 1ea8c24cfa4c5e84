//! A list of texts as pflag reads it: one record of Go's `encoding/csv`.

/// The fields of a record, which may be in quotes.
///
/// # Errors
/// In Go's words.
pub(super) fn fields(text: &str) -> Result<Vec<String>, String> {
    let mut fields = Vec::new();
    if text.is_empty() {
        return Ok(fields);
    }
    let mut rest = text;
    loop {
        let column = |rest: &str| text.len() - rest.len() + 1;
        if let Some(quoted) = rest.strip_prefix('"') {
            let (field, after) = quoted_field(quoted)
                .ok_or_else(|| error(column(""), "extraneous or missing \" in quoted-field"))?;
            fields.push(field);
            match after.strip_prefix(',') {
                Some(more) => rest = more,
                None if after.is_empty() => return Ok(fields),
                None => {
                    return Err(error(
                        column(after) - 1,
                        "extraneous or missing \" in quoted-field",
                    ));
                }
            }
            continue;
        }
        let (field, more) = match rest.split_once(',') {
            Some((field, more)) => (field, Some(more)),
            None => (rest, None),
        };
        if let Some(quote) = field.find('"') {
            return Err(error(column(rest) + quote, "bare \" in non-quoted-field"));
        }
        fields.push(field.to_owned());
        match more {
            Some(more) => rest = more,
            None => return Ok(fields),
        }
    }
}

fn error(column: usize, what: &str) -> String {
    format!("parse error on line 1, column {column}: {what}")
}

/// The text up to the closing quote, and what follows; two quotes stand for one.
fn quoted_field(mut rest: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    loop {
        let (part, after) = rest.split_once('"')?;
        field.push_str(part);
        match after.strip_prefix('"') {
            Some(more) => {
                field.push('"');
                rest = more;
            }
            None => return Some((field, after)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_read_as_go_reads_them() {
        for (text, expected) in [
            ("", &[][..]),
            (",", &["", ""]),
            ("a", &["a"]),
            ("a,b", &["a", "b"]),
            ("a,,b,", &["a", "", "b", ""]),
            ("\"a\",\"b,c\"", &["a", "b,c"]),
            ("\"a\"\"b\"", &["a\"b"]),
        ] {
            assert_eq!(fields(text).unwrap(), expected, "{text}");
        }
        for (text, expected) in [
            ("\"a", "column 3: extraneous"),
            ("\"a\"b", "column 3: extraneous"),
            ("a\"b", "column 2: bare"),
        ] {
            let error = fields(text).unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
