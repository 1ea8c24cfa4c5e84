//! What a case comes to.

use core::fmt;

/// Why a case did not come to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The kernel does something else.
    Fail(String),
    /// It cannot be asked here, and why.
    Skip(String),
}

/// What the function of a case returns.
pub type Verdict = Result<(), Stop>;

impl Stop {
    /// The kernel, or the machine, lacks something.
    pub fn skip(reason: impl Into<String>) -> Self {
        Self::Skip(reason.into())
    }
}

/// Whatever goes wrong on the way is a failure of the case. (`Stop` itself is no error for this
/// reason: the two would clash.)
impl<E: core::error::Error> From<E> for Stop {
    fn from(error: E) -> Self {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            if !text.contains(&cause_text) {
                text = format!("{text}: {cause_text}");
            }
            source = cause.source();
        }
        Self::Fail(text)
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fail(text) => f.write_str(text),
            Self::Skip(reason) => write!(f, "skipped: {reason}"),
        }
    }
}

/// Fails the case unless the condition holds.
macro_rules! check {
    ($condition:expr $(,)?) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::Stop::Fail(format!(
                "{}:{}: not so: {}",
                file!(),
                line!(),
                stringify!($condition)
            )));
        }
    };
    ($condition:expr, $($text:tt)+) => {
        let holds: bool = $condition;
        if !holds {
            return Err($crate::Stop::Fail(format!(
                "{}:{}: {}",
                file!(),
                line!(),
                format_args!($($text)+)
            )));
        }
    };
}

/// Fails the case unless both are equal.
macro_rules! check_eq {
    ($left:expr, $right:expr $(,)?) => {
        match (&$left, &$right) {
            (left, right) => {
                if !(*left == *right) {
                    return Err($crate::Stop::Fail(format!(
                        "{}:{}: {} is {left:?}, not {right:?}",
                        file!(),
                        line!(),
                        stringify!($left)
                    )));
                }
            }
        }
    };
}

pub(crate) use {check, check_eq};
