//! `cargo xtask kernels`: other kernels, booted in emulated machines, and what runs inside them.

mod build;
mod catalogue;
mod cpio;
mod guest;
mod job;
mod kube_proxy;
mod libraries;
mod report;
mod suite;
mod vmlinux;

use core::time::Duration;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use self::build::Built;
use self::catalogue::{Catalogue, Kernel, SERIES};
use self::guest::{Files, Machine, Report};
use self::job::{Format, Job};
use self::suite::Suite;
use crate::apt::{cache_dir, create_dir, remove_dir};
use crate::packages;

/// Boots other kernels and runs programs inside them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask kernels                            all series: nft-selftest, packets, commands
  cargo xtask kernels 6.12. --selftest           the newest 6.12, nft-selftest alone
  cargo xtask kernels --record                   and write the results into docs/KERNEL.md
  cargo xtask kernels 6.12. --run kproxy:apply   a test of a crate instead (PACKAGE:TEST)
  cargo xtask kernels 6.1. --run ./a.out -- --nocapture

A guest runs as root with busybox and the modules that Service proxies use. Files keep their paths:
a test finds its manifests (--file), its libraries and the program that it starts where they were
when it was built.

Exit codes: 0 all passed, 1 something failed, or a kernel that must be had is missing.")]
pub(crate) struct Args {
    /// Beginnings of versions, such as 6.12.; the newest that starts so is taken
    prefixes: Vec<String>,
    /// nft-selftest alone
    #[arg(long, conflicts_with = "run")]
    selftest: bool,
    /// Run this instead: a program, or a test as PACKAGE:TEST; may be given more than once
    #[arg(long, value_name = "PROGRAM")]
    run: Vec<String>,
    /// A file or folder that the guest has as well, at the same path
    #[arg(long, value_name = "PATH", requires = "run")]
    file: Vec<PathBuf>,
    /// The guest has the real kube-proxy as well, with iptables and ipset
    #[arg(long, requires = "run")]
    kube_proxy: bool,
    /// What is run prints KTAP, as kselftest's programs do
    #[arg(long, requires = "run")]
    ktap: bool,
    /// Arguments of what is run
    #[arg(last = true, requires = "run")]
    args: Vec<String>,
    /// Look for newer kernels than those at hand
    #[arg(long)]
    update: bool,
    /// Write the results into docs/KERNEL.md
    #[arg(long, conflicts_with = "run")]
    record: bool,
    /// How many guests at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Print what the guests print
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    machine: Machine,
}

/// One boot.
struct Boot {
    kernel: Kernel,
    /// What is special about it.
    about: &'static str,
    machine: Machine,
    jobs: Vec<Job>,
}

/// What nft-selftest found on the running kernel.
struct Direct {
    release: String,
    /// Passed, failed, skipped.
    counts: [usize; 3],
}

/// Boots what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    prepare()?;
    let (kernels, missing) = provide(args)?;
    if kernels.is_empty() {
        bail!("no kernel to boot: {}", missing.join(", "));
    }
    let mut failed = missing;
    let mut running = None;
    let (files, boots) = if args.run.is_empty() {
        let suite = Suite::build(!args.selftest)?;
        if args.prefixes.is_empty() {
            let (totals, is_good) = directly(&suite)?;
            failed.extend((!is_good).then(|| "the running kernel".to_owned()));
            running = Some(totals);
        }
        (Files::pack(&suite.paths())?, plan(args, &suite, kernels))
    } else {
        given(args, kernels)?
    };
    let reports = boot(&boots, &files, args.jobs)?;
    for (boot, report) in boots.iter().zip(&reports) {
        if !show(boot, report, args.verbose) {
            failed.push(boot.kernel.release.clone());
        }
    }
    if args.record {
        report::record(&boots, &reports, running.as_ref())?;
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// Series before kproxy's first, on which it must say so.
const TOO_OLD: &str = "5.10.";
/// On a busy host an emulated kernel now and then dies while it patches its own code at boot, before anything
/// of ours runs.
const ATTEMPTS: u32 = 3;
/// The series that is booted without IPv6, too.
const WITHOUT_IPV6: &str = "6.12.";

fn prepare() -> Result<()> {
    catalogue::check_machine()?;
    packages::ensure(guest::NEEDED)?;
    guest::check_busybox()
}

/// Runs nft-selftest on the running kernel; what came of it, and whether all is well.
fn directly(suite: &Suite) -> Result<(Direct, bool)> {
    let mut command = Command::new(suite.selftest());
    let output = command.output().context("nft-selftest")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let totals = text.lines().last().unwrap_or_default();
    println!("running kernel: {}", totals.trim_start_matches("# "));
    for line in text.lines().filter(|line| line.starts_with("not ok")) {
        println!("        {line}");
    }
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").context("the release")?;
    let direct = Direct {
        // What follows the version says where it was built.
        release: release
            .trim()
            .split('-')
            .next()
            .unwrap_or_default()
            .to_owned(),
        counts: job::ktap(&text),
    };
    Ok((direct, output.status.success()))
}

/// What is run on each kernel when nothing else is asked for.
fn plan(args: &Args, suite: &Suite, kernels: Vec<Kernel>) -> Vec<Boot> {
    let mut boots = Vec::new();
    for kernel in kernels {
        let old = kernel.prefix == TOO_OLD;
        let (about, mut jobs) = if old {
            ("too old", suite.refusals())
        } else {
            ("", suite.jobs())
        };
        stretch(&mut jobs, &args.machine);
        boots.push(Boot {
            kernel: kernel.clone(),
            about,
            machine: args.machine.clone(),
            jobs,
        });
        if kernel.prefix == WITHOUT_IPV6 && !args.selftest {
            let mut jobs = suite.without_ipv6();
            stretch(&mut jobs, &args.machine);
            boots.push(Boot {
                kernel,
                about: "without IPv6",
                machine: args.machine.with_cmdline("ipv6.disable=1"),
                jobs,
            });
        }
    }
    boots
}

fn stretch(jobs: &mut [Job], machine: &Machine) {
    for job in jobs {
        job.limit = machine.stretched(job.limit);
    }
}

/// What `--run` asks for.
fn given(args: &Args, kernels: Vec<Kernel>) -> Result<(Files, Vec<Boot>)> {
    let to_build: Vec<_> = args.run.iter().filter(|it| is_test(it)).collect();
    let built = Built::build(&to_build.iter().map(|it| it.as_str()).collect::<Vec<_>>())?;
    let mut paths = Vec::new();
    for path in &args.file {
        paths.push(absolute(path)?);
    }
    paths.extend(built.paths());
    if args.kube_proxy {
        paths.push(kube_proxy::folder()?);
    }
    let mut jobs = Vec::new();
    for (number, program) in args.run.iter().enumerate() {
        let path = if is_test(program) {
            built.program(program)?.to_path_buf()
        } else {
            let path = absolute(Path::new(program))?;
            paths.push(path.clone());
            path
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let words = [path.display().to_string()]
            .into_iter()
            .chain(args.args.iter().cloned());
        let words: Vec<_> = words.map(|word| quoted(&word)).collect();
        let folder = path.parent().unwrap_or_else(|| Path::new("/"));
        jobs.push(Job {
            name: format!("{number}-{name}"),
            command: format!(
                "cd {} && {}",
                quoted(&folder.display().to_string()),
                words.join(" ")
            ),
            limit: Duration::from_secs(args.machine.limit()),
            format: match program {
                _ if args.ktap => Format::Ktap,
                _ if is_test(program) => Format::Libtest,
                _ => Format::Text,
            },
            expected: 0,
        });
    }
    let boots = kernels.into_iter().map(|kernel| Boot {
        kernel,
        about: "",
        machine: args.machine.clone(),
        jobs: jobs.clone(),
    });
    Ok((Files::pack(&paths)?, boots.collect()))
}

/// Whether it names a test of a crate, not a file.
fn is_test(program: &str) -> bool {
    program.contains(':') && !Path::new(program).exists()
}

fn absolute(path: &Path) -> Result<PathBuf> {
    path.canonicalize()
        .with_context(|| path.display().to_string())
}

/// For a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// The kernels, and the beginnings of versions for which there is none though there must be.
fn provide(args: &Args) -> Result<(Vec<Kernel>, Vec<String>)> {
    let mut catalogue = Catalogue::open(args.update)?;
    let wanted: Vec<(String, bool)> = if args.prefixes.is_empty() {
        let all = SERIES.into_iter();
        all.map(|(prefix, must)| (prefix.to_owned(), must))
            .collect()
    } else {
        args.prefixes.iter().map(|it| (it.clone(), true)).collect()
    };
    let (mut kernels, mut missing) = (Vec::new(), Vec::new());
    for (prefix, must) in wanted {
        let reason = match catalogue.provide(&prefix) {
            Ok(Some(kernel)) => {
                kernels.push(kernel);
                continue;
            }
            Ok(None) => "no package on the mirrors".to_owned(),
            Err(error) => format!("{error:#}"),
        };
        println!("{prefix} skipped: {reason}");
        missing.extend(must.then_some(prefix));
    }
    Ok((kernels, missing))
}

/// Boots all, some at once.
fn boot(boots: &[Boot], files: &Files, at_once: usize) -> Result<Vec<Report>> {
    let scratch = cache_dir()?.join("kernels/run");
    let one = |(number, boot): (usize, &Boot)| {
        let process = std::process::id();
        let folder = scratch.join(format!("{process}-{number}-{}", boot.kernel.release));
        create_dir(&folder)?;
        let start = || guest::run(&boot.kernel, &boot.machine, files, &boot.jobs, &folder);
        let mut report = start()?;
        for _ in 1..ATTEMPTS {
            if report.release.is_some() {
                break;
            }
            println!("{:<7} did not boot: once more", boot.kernel.prefix);
            report = start()?;
        }
        if report.is_good() {
            remove_dir(&folder)?;
        }
        Ok(report)
    };
    let numbered: Vec<_> = boots.iter().enumerate().collect();
    let mut reports = Vec::new();
    for some in numbered.chunks(at_once.max(1)) {
        let done: Vec<Result<Report>> = thread::scope(|scope| {
            let running: Vec<_> = some.iter().map(|boot| scope.spawn(|| one(*boot))).collect();
            let joined = running.into_iter().map(thread::ScopedJoinHandle::join);
            joined
                .map(|it| it.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        for report in done {
            reports.push(report?);
        }
    }
    Ok(reports)
}

/// Prints what became of a boot; whether all was well.
fn show(boot: &Boot, report: &Report, verbose: bool) -> bool {
    let (kernel, about) = (&boot.kernel, boot.about);
    let booted = report.boot.as_deref().unwrap_or("-");
    let release = report.release.as_deref().unwrap_or(&kernel.release);
    let time = report.time.as_secs_f32();
    println!(
        "{:<7} {release} {about}: booted in {booted} s, {time:.1} s in all",
        kernel.prefix
    );
    if let Some(trouble) = &report.trouble {
        println!("        {trouble}; see {}", report.log.display());
    }
    for outcome in &report.outcomes {
        println!("        {}: {outcome}", outcome.job);
        if verbose || !outcome.is_good() {
            println!("{}", outcome.output.trim_end());
        }
    }
    report.is_good()
}
