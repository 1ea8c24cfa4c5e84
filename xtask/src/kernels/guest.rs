//! One boot: an initial file system, qemu, and what the serial line said.
//!
//! The machine is emulated (TCG): KVM is often offered where it does not work, nested in another
//! virtual machine. It is some ten times slower than the host: correctness can be seen there, speed
//! cannot.

use core::time::Duration;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use super::catalogue::Kernel;
use super::cpio::Archive;
use super::job::{Job, Outcome};
use super::libraries::{loaded_by, needs_loader};

/// Where the guest finds the script that runs every command once.
pub(super) const COMMANDS: &str = "/commands.sh";

/// Seconds that a boot may take, unless told otherwise.
const LIMIT: u64 = 900;
/// timeout(1): the time was over.
const TIMED_OUT: i32 = 124;

/// The machine.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Machine {
    /// Processors; races need two
    #[arg(long, default_value_t = 2)]
    smp: u32,
    /// Memory in MiB
    #[arg(long, default_value_t = 1024)]
    memory: u32,
    /// Use KVM rather than emulation, where it is known to work
    #[arg(long)]
    kvm: bool,
    /// Added to the kernel's command line, such as ipv6.disable=1
    #[arg(long, value_name = "WORDS")]
    cmdline: Option<String>,
    /// Longest time for one boot with all that is run, in seconds; of each part of it in proportion
    #[arg(long, value_name = "SECONDS", default_value_t = LIMIT)]
    limit: u64,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            smp: 2,
            memory: 1024,
            kvm: false,
            cmdline: None,
            limit: LIMIT,
        }
    }
}

impl Machine {
    /// The same with more words on the kernel's command line.
    pub(super) fn with_cmdline(&self, words: &str) -> Self {
        let mut machine = self.clone();
        let before = machine.cmdline.take();
        let all = before.iter().map(String::as_str).chain([words]);
        machine.cmdline = Some(all.collect::<Vec<_>>().join(" "));
        machine
    }

    /// Longest time for a boot with all that is run, in seconds.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The limit of a job where boots may take longer than they do by default.
    pub(super) fn stretched(&self, limit: Duration) -> Duration {
        let factor = self.limit.div_ceil(LIMIT).max(1);
        limit.saturating_mul(u32::try_from(factor).unwrap_or(u32::MAX))
    }
}

/// What every guest gets: busybox and files of this machine, at the same paths as here, so that
/// programs that were built here find what they were built with.
pub(super) struct Files {
    archive: Vec<u8>,
}

impl Files {
    /// Packs files and folders, and the libraries of programs.
    pub(super) fn pack(paths: &[PathBuf]) -> Result<Self> {
        let mut archive = Archive::default();
        for folder in ["bin", "dev", "etc", "proc", "root", "run", "sys", "tmp"] {
            archive.folder(folder);
        }
        let busybox = fs::read("/bin/busybox").context("/bin/busybox (package busybox-static)")?;
        archive.file("bin/busybox", 0o755, &busybox)?;
        archive.link("bin/sh", "busybox")?;
        archive.file("init", 0o755, include_bytes!("init.sh"))?;
        archive.file(COMMANDS, 0o755, include_bytes!("commands.sh"))?;
        let mut files = BTreeSet::new();
        for path in paths {
            for file in files_below(path)? {
                files.extend(loaded_by(&file)?.into_iter().map(|it| it.path));
                files.insert(file);
            }
        }
        for file in files {
            let data = fs::read(&file).with_context(|| file.display().to_string())?;
            let name = file.to_str().context("a path that is not UTF-8")?;
            archive.file(name, 0o755, &data)?;
        }
        Ok(Self {
            archive: archive.finish(),
        })
    }
}

fn files_below(path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_dir() {
        return crate::apt::walk(path);
    }
    Ok(vec![path.to_path_buf()])
}

/// What became of a boot.
#[derive(Debug)]
pub(super) struct Report {
    /// As the guest's `uname -r` printed it; nothing if it did not get so far.
    pub(super) release: Option<String>,
    /// From power-on until everything was loaded, by the guest's clock.
    pub(super) boot: Option<String>,
    /// One for each job.
    pub(super) outcomes: Vec<Outcome>,
    /// How long all of it took.
    pub(super) time: Duration,
    /// What went wrong with the machine itself.
    pub(super) trouble: Option<String>,
    /// The serial line's.
    pub(super) log: PathBuf,
}

impl Report {
    /// Whether the machine ended as it should, and all jobs did.
    pub(super) fn is_good(&self) -> bool {
        self.trouble.is_none() && self.outcomes.iter().all(Outcome::is_good)
    }
}

/// Boots `kernel` and waits for its end.
pub(super) fn run(
    kernel: &Kernel,
    machine: &Machine,
    files: &Files,
    jobs: &[Job],
    scratch: &Path,
) -> Result<Report> {
    let initrd = scratch.join("initrd");
    let log = scratch.join("log");
    let mut list = Archive::default();
    let lines: String = jobs.iter().map(Job::line).collect();
    list.file("jobs", 0o644, lines.as_bytes())?;
    // Archives may follow each other.
    let mut bytes = files.archive.clone();
    bytes.extend(list.finish());
    let modules = kernel.folder.join("modules.cpio");
    bytes.extend(fs::read(&modules).with_context(|| modules.display().to_string())?);
    fs::write(&initrd, bytes).with_context(|| initrd.display().to_string())?;
    File::create(&log)?;
    let started = Instant::now();
    let mut qemu = command(kernel, machine, &initrd, &log);
    let status = qemu.status().context("qemu-system-x86_64")?;
    let time = started.elapsed();
    fs::remove_file(&initrd)?;
    // Whatever a broken guest sends.
    let text = String::from_utf8_lossy(&fs::read(&log)?).replace('\r', "");
    let trouble = match status.code() {
        Some(TIMED_OUT) => Some(format!("no end after {} s", machine.limit)),
        _ if !status.success() => Some(format!("qemu: {status}")),
        _ if !text.contains("\n@@ DONE") => Some("stopped early".to_owned()),
        _ => None,
    };
    let ready = text.lines().find_map(|line| line.strip_prefix("@@ READY "));
    let mut words = ready.into_iter().flat_map(str::split_whitespace);
    Ok(Report {
        release: words.next().map(str::to_owned),
        boot: words.next().map(str::to_owned),
        outcomes: jobs.iter().map(|job| job.outcome(&text)).collect(),
        time,
        trouble,
        log,
    })
}

fn command(kernel: &Kernel, machine: &Machine, initrd: &Path, log: &Path) -> Command {
    let (accel, cpu) = if machine.kvm {
        ("kvm", "host")
    } else {
        ("tcg,thread=multi", "max")
    };
    // A panic ends the machine. On a busy host the emulated timer comes too late for its check.
    let mut cmdline =
        "console=ttyS0 quiet loglevel=3 panic=-1 mitigations=off no_timer_check nowatchdog"
            .to_owned();
    if let Some(words) = &machine.cmdline {
        cmdline.push(' ');
        cmdline.push_str(words);
    }
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=5", &machine.limit.to_string()])
        .arg("qemu-system-x86_64")
        .args(["-accel", accel, "-machine", "q35", "-cpu", cpu])
        .args(["-smp", &machine.smp.to_string()])
        .args(["-m", &machine.memory.to_string()])
        .args(["-nodefaults", "-no-user-config", "-no-reboot"])
        .args(["-display", "none", "-serial"])
        .arg(format!("file:{}", log.display()))
        .arg("-kernel")
        .arg(kernel.folder.join("vmlinux"))
        .arg("-initrd")
        .arg(initrd)
        .args(["-append", &cmdline])
        .stdin(Stdio::null());
    command
}

/// The programs that this takes, and their packages.
pub(super) const NEEDED: &[(&str, &str)] = &[
    ("qemu-system-x86_64", "qemu-system-x86"),
    ("busybox", "busybox-static"),
    ("depmod", "kmod"),
    ("modprobe", "kmod"),
    ("dpkg-deb", "dpkg"),
    ("lz4", "lz4"),
    ("zstd", "zstd"),
    ("xz", "xz-utils"),
];

/// The busybox at hand must run without libraries.
pub(super) fn check_busybox() -> Result<()> {
    let bytes = fs::read("/bin/busybox").context("/bin/busybox (package busybox-static)")?;
    if needs_loader(&bytes).context("/bin/busybox is no program of this machine")? {
        bail!("/bin/busybox needs libraries: install busybox-static");
    }
    Ok(())
}
