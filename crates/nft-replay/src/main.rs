//! The program `nft-replay`; see the library.

fn main() -> std::process::ExitCode {
    nft_replay::cli::main()
}
