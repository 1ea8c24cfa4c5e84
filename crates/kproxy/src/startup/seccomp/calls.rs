//! The system calls, by what they are for. Derived from traces of a whole run (docs/STARTUP.md says how),
//! and from what the C libraries may call instead.

use libc::{c_long, c_uint};

/// One argument of a call, and the values it may have: of each the bits that count, and what they are.
#[derive(Debug)]
pub(super) struct Only {
    pub(super) argument: u8,
    pub(super) values: &'static [(c_uint, c_uint)],
}

const ALL_BITS: c_uint = c_uint::MAX;

/// Allowed whatever their arguments.
pub(super) const ALLOWED: &[c_long] = &[
    // Memory.
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    // Threads, signals, the end. Children are waited for, not made.
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_futex,
    libc::SYS_gettid,
    libc::SYS_membarrier,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_set_robust_list,
    libc::SYS_set_tid_address,
    libc::SYS_sigaltstack,
    libc::SYS_tgkill,
    libc::SYS_wait4,
    libc::SYS_waitid,
    // Files and folders: manifests, configuration, credentials, state, /proc and /sys.
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_fcntl,
    libc::SYS_fdatasync,
    libc::SYS_flock,
    libc::SYS_fstat,
    libc::SYS_fstatfs,
    libc::SYS_fsync,
    libc::SYS_ftruncate,
    libc::SYS_getcwd,
    libc::SYS_getdents64,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_rm_watch,
    libc::SYS_lseek,
    libc::SYS_mkdirat,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_pipe2,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_read,
    libc::SYS_readlinkat,
    libc::SYS_readv,
    libc::SYS_renameat,
    libc::SYS_renameat2,
    libc::SYS_statx,
    libc::SYS_unlinkat,
    libc::SYS_write,
    libc::SYS_writev,
    // Waiting and time.
    libc::SYS_clock_getres,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_ppoll,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    // Sockets; which kinds, see below.
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_getpeername,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_listen,
    libc::SYS_recvfrom,
    libc::SYS_recvmmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_setsockopt,
    libc::SYS_shutdown,
    libc::SYS_socketpair,
    // Who and where we are, and randomness.
    libc::SYS_getegid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getrandom,
    libc::SYS_getrusage,
    libc::SYS_getuid,
    libc::SYS_prlimit64,
    libc::SYS_sysinfo,
    libc::SYS_uname,
    // Older forms, which newer architectures do not have.
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_dup2,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_epoll_wait,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_getrlimit,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_mkdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_pipe,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rmdir,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
];

/// Allowed with some arguments.
pub(super) const LIMITED: &[(c_long, Only)] = &[
    // Threads, and neither processes nor namespaces.
    (
        libc::SYS_clone,
        Only {
            argument: 0,
            values: &[(CLONE_THREAD | CLONE_NEW, CLONE_THREAD)],
        },
    ),
    // TCP, UDP, what resolvers and credential helpers use, and netlink.
    (
        libc::SYS_socket,
        Only {
            argument: 0,
            values: &[
                (ALL_BITS, AF_UNIX),
                (ALL_BITS, AF_INET),
                (ALL_BITS, AF_INET6),
                (ALL_BITS, AF_NETLINK),
            ],
        },
    ),
    // Whether it is a terminal, how wide it is, how much there is to read; not what is typed there.
    (
        libc::SYS_ioctl,
        Only {
            argument: 1,
            values: &[
                (ALL_BITS, TCGETS),
                (ALL_BITS, TIOCGWINSZ),
                (ALL_BITS, FIONREAD),
                (ALL_BITS, FIONBIO),
                (ALL_BITS, FIOCLEX),
            ],
        },
    ),
    // Names of threads and of memory, and what the kernel told the process at its start (rustix asks).
    (
        libc::SYS_prctl,
        Only {
            argument: 0,
            values: &[
                (ALL_BITS, PR_SET_NAME),
                (ALL_BITS, PR_GET_AUXV),
                (ALL_BITS, PR_SET_VMA),
            ],
        },
    ),
];

/// With `--netns` only.
pub(super) const ENTER_NAMESPACE: c_long = libc::SYS_setns;

/// As if the kernel did not have them.
pub(super) const ABSENT: &[c_long] = &[libc::SYS_clone3];

// linux/sched.h.
const CLONE_THREAD: c_uint = 0x0001_0000;
/// `CLONE_NEWTIME`, `CLONE_NEWNS`, and `CLONE_NEWCGROUP` to `CLONE_NEWNET`.
const CLONE_NEW: c_uint = 0x0000_0080 | 0x0002_0000 | 0x7e00_0000;
// linux/socket.h.
const AF_UNIX: c_uint = 1;
const AF_INET: c_uint = 2;
const AF_INET6: c_uint = 10;
const AF_NETLINK: c_uint = 16;
// asm-generic/ioctls.h.
const TCGETS: c_uint = 0x5401;
const TIOCGWINSZ: c_uint = 0x5413;
const FIONREAD: c_uint = 0x541b;
const FIONBIO: c_uint = 0x5421;
const FIOCLEX: c_uint = 0x5451;
// linux/prctl.h.
const PR_SET_NAME: c_uint = 15;
const PR_GET_AUXV: c_uint = 0x4155_5856;
const PR_SET_VMA: c_uint = 0x5356_4d41;
