//! The nft releases that rulesets are listed with, and what they send.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::{fs, io};

use crate::skip;

/// Releases to test with, oldest first; `cargo xtask nft-versions` provides them.
pub const RELEASES: [&str; 4] = ["0.9.8", "1.0.6", "1.1.3", "1.1.7"];

/// One nft program.
#[derive(Debug, Clone)]
pub struct Nft {
    /// Its release, such as "1.0.6".
    pub version: String,
    /// The program, or the script that starts it.
    pub path: PathBuf,
}

/// All of [`RELEASES`], oldest first. A missing one is skipped by name.
#[must_use]
pub fn versions() -> Vec<Nft> {
    let releases = RELEASES.into_iter();
    releases
        .filter_map(|version| {
            let found = release(version);
            if found.is_none() {
                skip(&format!("no nft {version}: run `cargo xtask nft-versions`"));
            }
            found
        })
        .collect()
}

/// One release: from the cache, or this machine's own if it is that one. The cache may hold a later
/// release in place of the newest.
#[must_use]
pub fn release(version: &str) -> Option<Nft> {
    let cached = cache_dir().map(|dir| dir.join("nft").join(version).join("nft"));
    let from_cache = cached.and_then(installed);
    from_cache.or_else(|| installed("nft".into()).filter(|nft| nft.version == version))
}

/// The program at `path`, if it runs.
fn installed(path: PathBuf) -> Option<Nft> {
    let mut nft = Nft {
        version: String::new(),
        path,
    };
    let shown = nft.command(&["--version"]).output().ok()?;
    // "nftables v1.0.6 (Lester Gooch #5)"
    let text = String::from_utf8_lossy(&shown.stdout);
    nft.version = text
        .split_whitespace()
        .nth(1)?
        .strip_prefix('v')?
        .to_owned();
    Some(nft)
}

pub(crate) fn cache_dir() -> Option<PathBuf> {
    let chosen = std::env::var_os("KPROXY_CACHE").map(PathBuf::from);
    chosen.or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".cache/kproxy")))
}

impl Nft {
    /// Runs in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn run(&self, args: &[&str]) -> io::Result<Output> {
        self.command(args).output()
    }

    /// Runs `script` (`nft -f -`) in the calling thread's network namespace.
    ///
    /// # Errors
    /// When the program cannot be started or fed.
    pub fn load(&self, script: &str) -> io::Result<Output> {
        feed(&mut self.command(&["-f", "-"]), script)
    }

    /// Runs `script` under `strace` and returns the netlink datagrams it sent, byte for byte,
    /// with nft's own outcome. (`nft --debug=mnl` prints the same messages but leaves out half of
    /// the header's flags.)
    ///
    /// # Errors
    /// When `strace` cannot be started or its output cannot be read.
    pub fn record(&self, script: &str) -> io::Result<(Vec<Vec<u8>>, Output)> {
        let name = format!("kproxy-strace-{:?}", std::thread::current().id());
        let trace = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        let mut command = Command::new("strace");
        command.args(["-f", "-e", "trace=sendmsg,sendto", "-e", "write=all", "-o"]);
        command.arg(&trace).arg(&self.path).args(["-f", "-"]);
        let out = feed(&mut command, script)?;
        let text = fs::read_to_string(&trace);
        fs::remove_file(&trace)?;
        Ok((datagrams(&text?), out))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.path);
        command.args(args).stdin(Stdio::null());
        command
    }
}

fn feed(command: &mut Command, script: &str) -> io::Result<Output> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(script.as_bytes())?;
    }
    child.wait_with_output()
}

/// What was sent, from the hex dumps that follow each call in strace's output.
fn datagrams(trace: &str) -> Vec<Vec<u8>> {
    let mut sent: Vec<Vec<u8>> = Vec::new();
    for line in trace.lines() {
        if let Some(dump) = line.strip_prefix(" | ") {
            // "00000  14 00 00 00 10 00 01 00  00 00 00 00 00 00 00 00  ........ |"
            let hex = dump.get(7..56).unwrap_or_default();
            let bytes = hex
                .split_whitespace()
                .filter_map(|b| u8::from_str_radix(b, 16).ok());
            if let Some(last) = sent.last_mut() {
                last.extend(bytes);
            }
        } else if line.contains("sendmsg(") || line.contains("sendto(") {
            sent.push(Vec::new());
        }
    }
    sent.retain(|datagram| !datagram.is_empty());
    sent
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strace_dumps_are_read() {
        let trace = "\
9  sendto(3, [{nlmsg_len=20}], 20, 0, NULL, 0) = 20
 | 00000  14 00 00 00 10 0a 01 00  00 00 00 00 00 00 00 00  ................ |
 | 00010  00 00 00 00                                       ....             |
9  sendmsg(3, {}, 0) = 18
 * 18 bytes in buffer 0
 | 00000  61 62 63 20 64 65 20 7c  61 62 63 20 64 65 20 7c  abc de |abc de | |
 | 00010  61 62                                             ab               |
9  +++ exited with 0 +++
";
        let sent = datagrams(trace);
        assert_eq!(sent.len(), 2);
        assert_eq!(sent[0].len(), 20);
        assert_eq!(sent[1], b"abc de |abc de |ab");
    }
}
