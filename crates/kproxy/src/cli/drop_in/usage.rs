//! What is wrong with a command line, in the words of pflag and cobra and with kube-proxy's exit code: whoever
//! starts kube-proxy may look for either.

use std::process::ExitCode;

use thiserror::Error;

use super::pflag::Wrong;
use crate::cli::Exit;
use crate::config::FlagError;

/// See the module.
#[derive(Debug, Error)]
pub(super) enum UsageError {
    #[error(transparent)]
    Wrong(#[from] Wrong),
    #[error(transparent)]
    Flag(#[from] FlagError),
    #[error("\"kproxy\" does not take any arguments, got [{}]", quoted(.0))]
    Arguments(Vec<String>),
    /// One of our own options, in clap's words.
    #[error("{}", .0.to_string().trim_start_matches("error: ").trim_end())]
    Own(#[from] clap::Error),
}

/// As Go prints a list with `%q`.
fn quoted(words: &[String]) -> String {
    let words: Vec<_> = words.iter().map(|it| format!("{it:?}")).collect();
    words.join(" ")
}

/// Prints why arguments are wrong.
pub(super) fn tell(error: &UsageError) -> ExitCode {
    eprintln!(
        "Error: {error}\n\nFor all flags: kproxy help {}",
        super::NAME
    );
    Exit::Failed.into()
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::super::Asked;

    #[test]
    fn wrong_command_lines_are_refused_in_pflags_words() {
        for (line, expected) in [
            ("--bogus", "unknown flag: --bogus"),
            ("--bogus_flag=1", "unknown flag: --bogus_flag"),
            ("--no-masquerade-all", "unknown flag: --no-masquerade-all"),
            ("-x", "unknown shorthand flag: 'x' in -x"),
            ("-hx", "unknown shorthand flag: 'x' in -x"),
            ("--config", "flag needs an argument: --config"),
            ("-v", "flag needs an argument: 'v' in -v"),
            ("--v=1 --v", "flag needs an argument: --v"),
            ("---x", "bad flag syntax: ---x"),
            ("--=x", "bad flag syntax: --=x"),
            ("extra --bogus -h", "unknown flag: --bogus"),
            (
                "extra --v=1 more",
                "\"kproxy\" does not take any arguments, got [\"extra\" \"more\"]",
            ),
            (
                "-- --bogus -",
                "\"kproxy\" does not take any arguments, got [\"--bogus\" \"-\"]",
            ),
            (
                "--oom-score-adj=x --bogus",
                "invalid argument \"x\" for \"--oom-score-adj\" flag: strconv.ParseInt: parsing \"x\": \
                 invalid syntax",
            ),
            (
                "--strict-config=maybe",
                "invalid argument \"maybe\" for \"--strict-config\" flag: strconv.ParseBool: parsing \
                 \"maybe\": invalid syntax",
            ),
            (
                "--help=foo",
                "invalid argument \"foo\" for \"-h, --help\" flag: strconv.ParseBool: parsing \"foo\": \
                 invalid syntax",
            ),
        ] {
            let asked = Asked::by(line.split(' ').map(OsString::from));
            assert_eq!(asked.unwrap_err().to_string(), expected, "{line}");
        }
        for line in ["--seccomp=what", "--record-limit=3", "--source=x"] {
            let error = Asked::by(line.split(' ').map(OsString::from)).unwrap_err();
            let option = line.split('=').next().unwrap();
            assert!(error.to_string().contains(option), "{error}");
        }
    }

    #[test]
    fn help_is_for_a_command_line_without_mistakes() {
        let asked = |line: &str| Asked::by(line.split(' ').map(OsString::from)).unwrap();
        for line in [
            "-h",
            "--help",
            "--help=true",
            "extra -h",
            "-hv2",
            "--v=2 -h",
        ] {
            assert!(matches!(asked(line), Asked::Help), "{line}");
        }
        for line in [
            "",
            "--help=false",
            "-h --help=0",
            "--strict-config --strict-config=false",
        ] {
            assert!(
                matches!(asked(line), Asked::Run { own, .. } if !own.strict_config),
                "{line}"
            );
        }
        assert!(matches!(asked("--strict_config=T"), Asked::Run { own, .. } if own.strict_config));
    }
}
