//! A filter for system calls: those that the proxy makes are allowed, all others are not.
//!
//! A call outside of the list fails with EPERM by default and does not end the process: what gets there
//! by way of a bug or of a newer C library is an error message, and no node without Services. Who takes
//! the process over gains as little by either. Tests run with [`OnForbidden::Kill`], so that nothing that
//! is missing from the list goes unnoticed.

mod calls;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter,
};

use self::calls::Only;
use super::StartupError;

/// What becomes of a system call that is not on the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnForbidden {
    /// It fails with EPERM.
    Refuse,
    /// The process is killed (SIGSYS), and the kernel logs which call it was.
    Kill,
}

/// Filters the calls of this thread and of all that it will start, for good.
pub(super) fn install(
    on_forbidden: OnForbidden,
    enter_namespaces: bool,
) -> Result<(), StartupError> {
    let wrong = |error: &dyn core::fmt::Display| StartupError::Seccomp(error.to_string());
    for program in programs(on_forbidden, enter_namespaces).map_err(|error| wrong(&error))? {
        apply_filter(&program).map_err(|error| wrong(&error))?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// The filters in the order in which they are installed. All judge each call, and the strictest decides.
fn programs(
    on_forbidden: OnForbidden,
    enter_namespaces: bool,
) -> Result<[BpfProgram; 2], seccompiler::BackendError> {
    let forbidden = match on_forbidden {
        OnForbidden::Refuse => SeccompAction::Errno(EPERM),
        OnForbidden::Kill => SeccompAction::KillProcess,
    };
    let namespaces = enter_namespaces.then_some((calls::ENTER_NAMESPACE, Vec::new()));
    // A call on none of whose arguments anything depends.
    let whole = |call: &i64| (*call, Vec::new());
    let calls = calls::ALLOWED.iter().chain(calls::ABSENT);
    let mut allowed: Rules = calls.map(whole).collect();
    allowed.extend(namespaces);
    for (call, only) in calls::LIMITED {
        allowed.insert(*call, rules(only)?);
    }
    let allow = SeccompFilter::new(allowed, forbidden, SeccompAction::Allow, arch()?)?;
    // What tells a thread from a process and from namespaces is behind a pointer there, where no filter
    // looks; C libraries do with the older call where the kernel seems not to have it.
    let absent: Rules = calls::ABSENT.iter().map(whole).collect();
    let absent = SeccompFilter::new(
        absent,
        SeccompAction::Allow,
        SeccompAction::Errno(ENOSYS),
        arch()?,
    )?;
    // Under the list nothing more can be installed.
    Ok([absent.try_into()?, allow.try_into()?])
}

fn arch() -> Result<TargetArch, seccompiler::BackendError> {
    TargetArch::try_from(std::env::consts::ARCH)
}

/// A rule for each value that is allowed.
fn rules(only: &Only) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let Only { argument, values } = only;
    values
        .iter()
        .map(|(mask, value)| {
            let compare = SeccompCmpOp::MaskedEq(u64::from(*mask));
            let length = SeccompCmpArgLen::Dword;
            let condition = SeccompCondition::new(*argument, length, compare, (*value).into())?;
            SeccompRule::new(vec![condition])
        })
        .collect()
}

/// `asm-generic/errno-base.h`.
const EPERM: u32 = 1;
/// `asm-generic/errno.h`.
const ENOSYS: u32 = 38;

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io;
    use std::process::Command;
    use std::thread;

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketType, socket};

    use super::*;

    /// Runs `test` on a thread of its own under the filter.
    fn confined<T: Send + 'static>(
        enter_namespaces: bool,
        test: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let confined = thread::spawn(move || {
            install(OnForbidden::Refuse, enter_namespaces).unwrap();
            test()
        });
        confined.join().unwrap()
    }

    #[test]
    fn what_the_proxy_never_does_is_refused() {
        confined(false, || {
            let error = Command::new("true").status().unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied, "processes");
            let namespace = File::open("/proc/thread-self/ns/net").unwrap();
            let entered = rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                None,
            );
            assert_eq!(entered, Err(Errno::PERM), "setns");
            let packet = socket(AddressFamily::PACKET, SocketType::RAW, None);
            assert_eq!(packet.unwrap_err(), Errno::PERM, "AF_PACKET");
            assert_eq!(rustix::process::chroot("/"), Err(Errno::PERM), "chroot");
            let user = nix::sched::unshare(nix::sched::CloneFlags::CLONE_NEWUSER);
            assert_eq!(user, Err(nix::errno::Errno::EPERM), "unshare");
        });
    }

    #[test]
    fn what_it_does_is_allowed() {
        confined(true, || {
            let namespace = File::open("/proc/thread-self/ns/net").unwrap();
            // Not EPERM of the filter: it is entered, or the kernel itself says no.
            let entered = rustix::thread::move_into_link_name_space(
                std::os::fd::AsFd::as_fd(&namespace),
                None,
            );
            assert!(
                entered.is_ok() || nix::unistd::geteuid().as_raw() != 0,
                "{entered:?}"
            );
            thread::spawn(|| ()).join().unwrap();
            for family in [
                AddressFamily::INET,
                AddressFamily::INET6,
                AddressFamily::UNIX,
            ] {
                socket(family, SocketType::STREAM, None).unwrap();
            }
            let folder = tempfile::tempdir().unwrap();
            std::fs::write(folder.path().join("file"), "text").unwrap();
            std::fs::rename(folder.path().join("file"), folder.path().join("other")).unwrap();
        });
    }

    #[test]
    fn filters_are_small() {
        for program in programs(OnForbidden::Kill, true).unwrap() {
            // linux/bpf_common.h: BPF_MAXINSNS.
            assert!(program.len() < 4096, "{}", program.len());
        }
    }
}
