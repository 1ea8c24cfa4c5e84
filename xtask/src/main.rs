//! Repository tasks, run as `cargo xtask <task>`.

mod apt;
mod arrows;
mod bench;
mod ci;
mod control_plane;
mod differential;
mod fuzz;
mod image;
mod kernels;
mod nft_versions;
mod packages;
mod permalinks;
mod policy;
mod promtool;
mod sh;
mod static_binary;
mod test;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Repository tasks",
    disable_help_subcommand = true
)]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run the whole test suite; needs root for the kernel tests
    Test(test::Args),
    /// Measure, in pairs: ours beside a floor or a peer
    Bench(bench::Args),
    /// Everything that must hold before landing: fmt, clippy, docs, checks, tests
    Ci,
    /// Check that crates depend on each other in one direction only
    CheckArrows,
    /// Check licences, banned crates and sources of all dependencies against deny.toml
    CheckPolicy,
    /// Check that links into the kernel's source lead to the functions they name
    CheckPermalinks(permalinks::Args),
    /// Fetch the nft releases that listings are tested with, into a cache outside the tree
    NftVersions,
    /// A real etcd, kube-apiserver and kube-proxy, which some tests run beside kproxy
    ControlPlane(control_plane::Args),
    /// Build kproxy as one static file, as in the image, and run it alone (as root)
    Static(static_binary::Args),
    /// Make the image of deploy/Dockerfile without docker (as root)
    Image(image::Args),
    /// Compare kproxy with the real kube-proxy, probe by probe (as root)
    Differential(differential::Args),
    /// Boot other kernels and run the tests inside them
    Kernels(kernels::Args),
    /// Look for inputs that break something, with libFuzzer (needs nightly)
    Fuzz(fuzz::Args),
}

fn main() -> anyhow::Result<()> {
    match Cli::parse().task {
        Task::Test(args) => test::run(&args),
        Task::Bench(args) => bench::run(&args),
        Task::Ci => ci::run(),
        Task::CheckArrows => arrows::check(),
        Task::CheckPolicy => policy::check(),
        Task::CheckPermalinks(args) => permalinks::check(&args),
        Task::NftVersions => nft_versions::run(),
        Task::ControlPlane(args) => control_plane::run(&args),
        Task::Static(args) => static_binary::run(&args),
        Task::Image(args) => image::run(&args),
        Task::Differential(args) => differential::run(&args),
        Task::Kernels(args) => kernels::run(&args),
        Task::Fuzz(args) => fuzz::run(&args),
    }
}
