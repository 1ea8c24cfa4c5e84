//! Arguments as pflag and cobra take them apart: one by one, so that of several mistakes the first is told,
//! in their words; help last, and only of a command line without one.

use std::ffi::OsString;

use thiserror::Error;

/// A flag's name and shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape<'c> {
    pub(super) name: &'c str,
    pub(super) short: Option<char>,
    /// A value is behind an equals sign only, and `true` without one.
    pub(super) is_switch: bool,
}

/// What is wrong with a command line itself.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum Wrong {
    #[error("{0:?} is not UTF-8")]
    Encoding(OsString),
    #[error("bad flag syntax: {0}")]
    Syntax(String),
    #[error("unknown flag: --{0}")]
    Unknown(String),
    #[error("unknown shorthand flag: {letter:?} in -{letters}")]
    UnknownShort { letter: char, letters: String },
    #[error("flag needs an argument: --{0}")]
    NoValue(String),
    #[error("flag needs an argument: {letter:?} in -{letters}")]
    NoShortValue { letter: char, letters: String },
}

/// Hands each flag with its value to `each`, in order, and returns what is no flag.
///
/// # Errors
/// The first mistake, be it in a value.
pub(super) fn parse<'c, E: From<Wrong>>(
    shapes: &[Shape<'c>],
    arguments: impl IntoIterator<Item = OsString>,
    mut each: impl FnMut(&'c str, &str) -> Result<(), E>,
) -> Result<Vec<String>, E> {
    let mut rest = Vec::new();
    let mut only_values = false;
    let text = |it: OsString| it.into_string().map_err(Wrong::Encoding);
    let mut arguments = arguments.into_iter();
    while let Some(argument) = arguments.next() {
        let argument = text(argument)?;
        if only_values || argument.len() < 2 || !argument.starts_with('-') {
            rest.push(argument);
        } else if argument == "--" {
            only_values = true;
        } else if let Some(flag) = argument.strip_prefix("--") {
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            if name.is_empty() || name.starts_with('-') {
                return Err(Wrong::Syntax(argument).into());
            }
            let plain = name.replace('_', "-");
            let shape = shapes.iter().find(|it| it.name == plain);
            let shape = shape.ok_or_else(|| Wrong::Unknown(name.to_owned()))?;
            let value = match value {
                Some(value) => value,
                None if shape.is_switch => "true".to_owned(),
                None => match arguments.next() {
                    Some(value) => text(value)?,
                    None => return Err(Wrong::NoValue(name.to_owned()).into()),
                },
            };
            each(shape.name, &value)?;
        } else {
            let mut letters = argument.trim_start_matches('-').to_owned();
            while let Some(letter) = letters.chars().next() {
                let shape = shapes.iter().find(|it| it.short == Some(letter));
                let shape = shape.ok_or_else(|| Wrong::UnknownShort {
                    letter,
                    letters: letters.clone(),
                })?;
                let behind = letters.split_off(letter.len_utf8());
                let (value, more) =
                    if let Some(value) = behind.strip_prefix('=').filter(|it| !it.is_empty()) {
                        (value.to_owned(), String::new())
                    } else if shape.is_switch {
                        ("true".to_owned(), behind)
                    } else if !behind.is_empty() {
                        (behind, String::new())
                    } else {
                        let value = arguments
                            .next()
                            .ok_or(Wrong::NoShortValue { letter, letters })?;
                        (text(value)?, String::new())
                    };
                each(shape.name, &value)?;
                letters = more;
            }
        }
    }
    Ok(rest)
}
