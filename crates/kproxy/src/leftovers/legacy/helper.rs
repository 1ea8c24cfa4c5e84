//! The process that removes legacy rules when it is told to.
//!
//! ```text
//! to it      ip\n | ip6\n               remove that family's leftovers
//! from it    removed\n | nothing\n       done
//!            unseen\n                  there is no program that shows them
//!            failed REASON\n
//! ```

use std::env;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use svc_planner::plan::Family;

use super::{Legacy, look};

/// The hidden command that it is started with.
pub(crate) const COMMAND: &str = "remove-legacy-leftovers";

/// See the module. Ends when dropped.
#[derive(Debug)]
pub(in crate::leftovers) struct Helper {
    child: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Helper {
    /// Starts one in the calling thread's network namespace.
    ///
    /// # Errors
    /// Of finding and starting this program again.
    pub(in crate::leftovers) fn start() -> io::Result<Self> {
        let mut child = Command::new(env::current_exe()?)
            .arg(COMMAND)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (to, from) = pipes.ok_or(io::ErrorKind::BrokenPipe)?;
        Ok(Self {
            child,
            to: Some(to),
            from: BufReader::new(from),
        })
    }

    /// Has it remove a family's leftovers; whether there were any, or `None` if it cannot see that.
    ///
    /// # Errors
    /// What it says.
    pub(in crate::leftovers) fn remove(&mut self, family: Family) -> Result<Option<bool>, String> {
        let broken = |error: io::Error| format!("the helper for legacy rules: {error}");
        let Some(to) = &mut self.to else {
            return Err(broken(io::ErrorKind::BrokenPipe.into()));
        };
        writeln!(to, "{family}").map_err(broken)?;
        let mut reply = String::new();
        self.from.read_line(&mut reply).map_err(broken)?;
        match reply.trim_end().split_once(' ') {
            Some(("failed", reason)) => Err(reason.to_owned()),
            _ => match reply.trim_end() {
                "removed" => Ok(Some(true)),
                "nothing" => Ok(Some(false)),
                "unseen" => Ok(None),
                _ => Err(broken(io::ErrorKind::UnexpectedEof.into())),
            },
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.to = None;
        // It has nothing to do any more, whatever it says.
        let _ = self.child.wait();
    }
}

/// What it does: answers until its input ends.
///
/// # Errors
/// Of reading and writing.
pub(in crate::leftovers) fn serve() -> io::Result<()> {
    for line in io::stdin().lines() {
        let reply = match line?.as_str() {
            "ip" => answer(Family::Ipv4),
            "ip6" => answer(Family::Ipv6),
            other => format!("failed no family {other:?}"),
        };
        let mut out = io::stdout().lock();
        writeln!(out, "{reply}")?;
        out.flush()?;
    }
    Ok(())
}

fn answer(family: Family) -> String {
    let program = match look(family) {
        Legacy::None => return "nothing".to_owned(),
        Legacy::Unseen => return "unseen".to_owned(),
        Legacy::Program(program) => program,
    };
    match program.remove() {
        Ok(true) => "removed".to_owned(),
        Ok(false) => "nothing".to_owned(),
        Err(error) => format!("failed {error}"),
    }
}
