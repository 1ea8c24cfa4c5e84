//! The program `kproxy`, built with the tests so that they find it, and never an old one.

fn main() -> std::process::ExitCode {
    kproxy::cli::main()
}
