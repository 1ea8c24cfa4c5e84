//! The way from this program to the traced one.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::libc;
use nix::sys::signal::{Signal, raise};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

use super::TraceError;

/// Waits until a tracer has attached, then becomes the program `words`. Returns only on failure.
#[must_use]
pub fn become_traced(words: &[OsString]) -> TraceError {
    let Some((program, args)) = words.split_first() else {
        return TraceError::Gone;
    };
    if let Err(errno) = raise(Signal::SIGSTOP) {
        let call = "raise";
        return TraceError::Ptrace { call, errno };
    }
    let filter = match filter() {
        Ok(filter) => filter,
        Err(error) => return TraceError::Filter(error),
    };
    if let Err(error) = seccompiler::apply_filter(&filter) {
        return TraceError::Filter(error.to_string());
    }
    TraceError::Start {
        what: program.to_string_lossy().into_owned(),
        error: Command::new(program).args(args).exec(),
    }
}

/// Stops at what sends and receives.
fn filter() -> Result<BpfProgram, String> {
    let calls = [
        libc::SYS_sendto,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_recvfrom,
        libc::SYS_recvmsg,
        libc::SYS_recvmmsg,
    ];
    let arch: TargetArch = std::env::consts::ARCH
        .try_into()
        .map_err(|error: seccompiler::BackendError| error.to_string())?;
    let filter = SeccompFilter::new(
        calls.into_iter().map(|call| (call, Vec::new())).collect(),
        SeccompAction::Allow,
        SeccompAction::Trace(0),
        arch,
    );
    let filter = filter.map_err(|error| error.to_string())?;
    filter
        .try_into()
        .map_err(|error: seccompiler::BackendError| error.to_string())
}
