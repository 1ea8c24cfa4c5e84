//! `cargo xtask kernels`: other kernels, booted in emulated machines, and what runs inside them.

mod build;
mod catalogue;
mod cpio;
mod guest;
mod job;
mod vmlinux;

use core::time::Duration;
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context, Result, bail, ensure};

use self::build::Built;
use self::catalogue::{Catalogue, Kernel, SERIES};
use self::guest::{Files, Machine, Report};
use self::job::{Format, Job};
use crate::apt::{cache_dir, create_dir};
use crate::packages;

/// Boots other kernels and runs programs inside them
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  cargo xtask kernels 6.12. --run kproxy:apply   a test of a crate (PACKAGE:TEST), statically built
  cargo xtask kernels 6.1. --run ./a.out -- --nocapture

A guest runs as root with busybox and the modules that Service proxies use. Files keep their paths:
a test finds its manifests (--file) and the program that it starts where they were when it was built.

Exit codes: 0 all passed, 1 something failed, or a kernel that must be had is missing.")]
pub(crate) struct Args {
    /// Beginnings of versions, such as 6.12.; the newest that starts so is taken
    prefixes: Vec<String>,
    /// Run this: a static program, or a test as PACKAGE:TEST; may be given more than once
    #[arg(long, value_name = "PROGRAM", required = true)]
    run: Vec<String>,
    /// A file or folder that the guest has as well, at the same path
    #[arg(long, value_name = "PATH", requires = "run")]
    file: Vec<PathBuf>,
    /// Arguments of what is run
    #[arg(last = true, requires = "run")]
    args: Vec<String>,
    /// What is run prints KTAP, as kselftest's programs do
    #[arg(long, requires = "run")]
    ktap: bool,
    /// Look for newer kernels than those at hand
    #[arg(long)]
    update: bool,
    /// How many guests at once
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
    /// Print what the guests print
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Boots what was asked for.
pub(crate) fn run(args: &Args) -> Result<()> {
    catalogue::check_machine()?;
    packages::ensure(guest::NEEDED)?;
    guest::check_busybox()?;
    let (files, jobs) = given(args)?;
    let (kernels, missing) = provide(args)?;
    let reports = boot(args, &kernels, &files, &jobs)?;
    let mut failed = missing;
    for (kernel, report) in kernels.iter().zip(&reports) {
        if !show(kernel, report, args.verbose) {
            failed.push(kernel.release.clone());
        }
    }
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    Ok(())
}

/// What `--run` asks for.
fn given(args: &Args) -> Result<(Files, Vec<Job>)> {
    let to_build: Vec<_> = args.run.iter().filter(|it| is_test(it)).collect();
    let built = Built::build(&to_build.iter().map(|it| it.as_str()).collect::<Vec<_>>())?;
    let mut paths = Vec::new();
    for path in &args.file {
        paths.push(absolute(path)?);
    }
    paths.extend(built.paths());
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
        });
    }
    Ok((Files::pack(&paths, &jobs)?, jobs))
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
        match catalogue.provide(&prefix) {
            Ok(Some(kernel)) => kernels.push(kernel),
            Ok(None) => {
                println!("{prefix} skipped: no package on the mirrors");
                missing.extend(must.then_some(prefix));
            }
            Err(error) => {
                println!("{prefix} skipped: {error:#}");
                missing.extend(must.then_some(prefix));
            }
        }
    }
    if kernels.is_empty() {
        bail!("no kernel to boot: {}", missing.join(", "));
    }
    Ok((kernels, missing))
}

/// Boots all, some at once.
fn boot(args: &Args, kernels: &[Kernel], files: &Files, jobs: &[Job]) -> Result<Vec<Report>> {
    let scratch = cache_dir()?.join("kernels/run");
    let one = |kernel: &Kernel| {
        let folder = scratch.join(&kernel.release);
        create_dir(&folder)?;
        guest::run(kernel, &args.machine, files, jobs, &folder)
    };
    let mut reports = Vec::new();
    for some in kernels.chunks(args.jobs.max(1)) {
        let done: Vec<Result<Report>> = thread::scope(|scope| {
            let running: Vec<_> = some
                .iter()
                .map(|kernel| scope.spawn(|| one(kernel)))
                .collect();
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
fn show(kernel: &Kernel, report: &Report, verbose: bool) -> bool {
    let boot = report.boot.as_deref().unwrap_or("-");
    let release = report.release.as_deref().unwrap_or(&kernel.release);
    let time = report.time.as_secs_f32();
    println!(
        "{:<7} {release}: booted in {boot} s, {time:.1} s in all",
        kernel.prefix
    );
    let mut good = report.trouble.is_none();
    if let Some(trouble) = &report.trouble {
        println!("        {trouble}; see {}", report.log.display());
    }
    for outcome in &report.outcomes {
        println!("        {}: {outcome}", outcome.job);
        good &= outcome.is_good();
        if verbose || !outcome.is_good() {
            println!("{}", outcome.output.trim_end());
        }
    }
    good
}
