//! The program `kproxy`; see the library.

fn main() -> std::process::ExitCode {
    kproxy::cli::main()
}
