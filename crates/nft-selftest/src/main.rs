//! The program `nft-selftest`.

fn main() -> std::process::ExitCode {
    nft_selftest::cli::main()
}
