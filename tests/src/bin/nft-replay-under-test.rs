//! The program `nft-replay`, built with the tests so that they find it, and never an old one.

fn main() -> std::process::ExitCode {
    nft_replay::cli::main()
}
