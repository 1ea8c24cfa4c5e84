//! What is wrong with a command line, in pflag's words and with kube-proxy's exit code: whoever starts
//! kube-proxy may look for either.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::cli::Exit;

/// Prints why arguments are wrong, or the help that they ask for.
pub(super) fn tell(error: &clap::Error) -> ExitCode {
    match words(error) {
        Some(words) => {
            eprintln!(
                "Error: {words}\n\nFor all flags: kproxy help {}",
                super::NAME
            );
            Exit::Failed.into()
        }
        None => {
            let _ = error.print();
            if error.use_stderr() {
                Exit::Failed.into()
            } else {
                Exit::Done.into()
            }
        }
    }
}

/// pflag's words, if it has any.
fn words(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let argument = text(ContextKind::InvalidArg)?;
    match error.kind() {
        ErrorKind::UnknownArgument | ErrorKind::InvalidSubcommand => Some(unknown(argument)),
        // `--v <LEVEL>`, without a value.
        ErrorKind::InvalidValue if text(ContextKind::InvalidValue) == Some("") => {
            let flag = argument.split(' ').next().unwrap_or(argument);
            Some(format!("flag needs an argument: {flag}"))
        }
        _ => None,
    }
}

fn unknown(argument: &str) -> String {
    if let Some(name) = argument.strip_prefix("--") {
        return match name.chars().next() {
            None | Some('-' | '=') => format!("bad flag syntax: {argument}"),
            Some(_) => {
                let name = name.split('=').next().unwrap_or(name);
                format!("unknown flag: --{name}")
            }
        };
    }
    match argument.strip_prefix('-').and_then(|it| it.chars().next()) {
        Some(letter) => format!("unknown shorthand flag: {letter:?} in {argument}"),
        None => format!("\"kproxy\" does not take any arguments, got [{argument:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    #[test]
    fn wrong_command_lines_are_refused_in_pflags_words() {
        for (line, expected) in [
            ("--bogus", "unknown flag: --bogus"),
            ("--bogus=1", "unknown flag: --bogus"),
            ("--no-masquerade-all", "unknown flag: --no-masquerade-all"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("--config", "flag needs an argument: --config"),
            ("--v=1 --v", "flag needs an argument: --v"),
            ("---x", "bad flag syntax: ---x"),
            (
                "--v=1 extra",
                "\"kproxy\" does not take any arguments, got [\"extra\"]",
            ),
        ] {
            let words = core::iter::once("kproxy").chain(line.split(' '));
            let error = super::super::command()
                .try_get_matches_from(words.map(OsString::from))
                .unwrap_err();
            assert_eq!(super::words(&error).as_deref(), Some(expected), "{line}");
        }
    }
}
