//! Recording what a program sends to nf_tables and what it is told, by running it under ptrace.
//!
//! The program is started by this one: a copy of it waits until it is traced, installs a seccomp
//! filter that stops at the calls that send and receive on sockets and at no others, and becomes the
//! program. Threads and children are followed. Of each such call on a socket of nfnetlink the
//! datagram is read from the program's memory. No privilege is needed beyond that of tracing one's
//! own children, and no kernel module.
//!
//! What it does not see: datagrams sent with `write` or io_uring, and 32-bit programs. What a setuid
//! program would gain is not given to it.

mod call;
mod memory;
mod process;
mod start;
mod stop;

pub use start::become_traced;

use core::fmt;
use std::collections::HashMap;
use std::io;
use std::process::Command;

use nix::errno::Errno as SysErrno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use thiserror::Error;

use self::call::Call;
use self::stop::Traced;
use crate::capture::Packet;

/// `PTRACE_EVENT_SECCOMP`.
const EVENT_SECCOMP: i32 = 7;

/// How a traced program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl fmt::Display for Ended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "ended with exit code {code}"),
            Self::Signal(signal) => write!(f, "was ended by signal {signal}"),
        }
    }
}

/// Why a program could not be traced.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// It cannot be started.
    #[error("cannot start {what}: {error}")]
    Start {
        /// What.
        what: String,
        /// Why.
        error: io::Error,
    },
    /// The kernel refuses.
    #[error("{call}: {errno}")]
    Ptrace {
        /// Call.
        call: &'static str,
        /// Error.
        errno: SysErrno,
    },
    /// The seccomp filter.
    #[error("seccomp filter: {0}")]
    Filter(String),
    /// It ended before it could be traced.
    #[error("the program ended before it could be traced")]
    Gone,
    /// The recording cannot be begun.
    #[error("cannot begin the recording: {0}")]
    Begin(#[source] io::Error),
    /// What was recorded cannot be written. The program went on without.
    #[error("cannot write the recording: {error}; the program {ended}")]
    Sink {
        /// Why.
        #[source]
        error: io::Error,
        /// How the program ended.
        ended: Ended,
    },
}

/// Runs `command`, whose program must call [`become_traced`], and hands every datagram of nf_tables
/// to `sink`. Returns how it ended, as soon as all of its descendants have, too. Each byte that comes out
/// of `stop` asks the program to end (SIGTERM), or what it left running once it has ended itself.
///
/// All children of the calling process are waited for. If `sink` fails, the program goes on and nothing
/// more is recorded.
///
/// # Errors
/// See [`TraceError`]. If the tracing itself ends early the program is killed: it could not go on without.
pub fn run(
    command: &mut Command,
    stop: impl io::Read + Send + 'static,
    sink: impl FnMut(Packet) -> io::Result<()>,
) -> Result<Ended, TraceError> {
    let child = command.spawn().map_err(|error| TraceError::Start {
        what: command.get_program().to_string_lossy().into_owned(),
        error,
    })?;
    let pid = i32::try_from(child.id()).map_err(|_| TraceError::Gone)?;
    let pid = Pid::from_raw(pid);
    let fail = |call| move |errno| TraceError::Ptrace { call, errno };
    match waitpid(pid, Some(WaitPidFlag::WUNTRACED)).map_err(fail("waitpid"))? {
        WaitStatus::Stopped(..) => {}
        _ => return Err(TraceError::Gone),
    }
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_TRACESECCOMP
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(pid, options).map_err(|errno| {
        // It waits for nothing else.
        let _ = kill(pid, Signal::SIGKILL);
        TraceError::Ptrace {
            call: "ptrace seize",
            errno,
        }
    })?;
    kill(pid, Signal::SIGCONT).map_err(fail("kill"))?;
    let traced = Traced::default();
    traced.insert(pid);
    stop::pass_on(stop, traced.clone(), pid);
    let mut tracer = Tracer {
        calls: HashMap::new(),
        traced,
        sink,
        failed: None,
    };
    let ended = tracer.follow(pid)?;
    tracer
        .failed
        .map_or(Ok(ended), |error| Err(TraceError::Sink { error, ended }))
}

struct Tracer<F> {
    /// Threads in a call.
    calls: HashMap<Pid, Call>,
    traced: Traced,
    sink: F,
    /// Why nothing is recorded any more.
    failed: Option<io::Error>,
}

impl<F: FnMut(Packet) -> io::Result<()>> Tracer<F> {
    fn follow(&mut self, program: Pid) -> Result<Ended, TraceError> {
        let mut ended = None;
        loop {
            match waitpid(None, Some(WaitPidFlag::__WALL)) {
                Ok(WaitStatus::Exited(pid, code)) => {
                    self.gone(pid);
                    if pid == program {
                        ended = Some(Ended::Code(code));
                    }
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) => {
                    self.gone(pid);
                    if pid == program {
                        #[allow(clippy::as_conversions, reason = "the signal's number")]
                        let number = signal as i32;
                        ended = Some(Ended::Signal(number));
                    }
                }
                Ok(WaitStatus::PtraceEvent(pid, _, EVENT_SECCOMP)) => {
                    let call = match self.failed {
                        None => Call::enter(pid),
                        Some(_) => None,
                    };
                    let watched = call.is_some();
                    if let Some(call) = call {
                        self.calls.insert(pid, call);
                    }
                    // A thread that is being killed is not there any more.
                    let _ = if watched {
                        ptrace::syscall(pid, None)
                    } else {
                        ptrace::cont(pid, None)
                    };
                }
                Ok(WaitStatus::PtraceSyscall(pid)) => {
                    if let Some(call) = self.calls.remove(&pid) {
                        let written = call.leave(pid).into_iter().try_for_each(&mut self.sink);
                        self.failed = written.err();
                    }
                    let _ = ptrace::cont(pid, None);
                }
                Ok(WaitStatus::PtraceEvent(pid, ..)) => {
                    // Its first stop is one of these.
                    self.traced.insert(pid);
                    let _ = ptrace::cont(pid, None);
                }
                Ok(WaitStatus::Stopped(pid, signal)) => {
                    let _ = ptrace::cont(pid, signal);
                }
                Ok(_) | Err(SysErrno::EINTR) => {}
                Err(SysErrno::ECHILD) => return ended.ok_or(TraceError::Gone),
                Err(errno) => {
                    let call = "waitpid";
                    return Err(TraceError::Ptrace { call, errno });
                }
            }
        }
    }

    fn gone(&mut self, pid: Pid) {
        self.calls.remove(&pid);
        self.traced.remove(pid);
    }
}
