//! Tables of somebody else, which nobody but their owner may change.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use anyhow::{Context as _, Result, ensure};

/// Names that invite mistakes: those of other families and of well-known tools.
pub const RULES: &str = "
table inet kube-proxy {
    set services { type ipv4_addr; elements = { 192.0.2.1, 192.0.2.2 }; }
    chain services { ip daddr @services counter drop; }
}
table ip filter {
    map dispatch { type inet_service : verdict; elements = { 22 : accept }; }
    chain input { type filter hook input priority 0; tcp dport vmap @dispatch; }
}
table ip6 kube-proxy-2 {
    chain nat-prerouting { type nat hook prerouting priority -90; tcp dport 1 redirect to :2; }
}
";
const TABLES: [[&str; 2]; 3] = [
    ["inet", "kube-proxy"],
    ["ip", "filter"],
    ["ip6", "kube-proxy-2"],
];

/// Loads them in the calling thread's network namespace.
///
/// # Errors
/// When `nft` is missing or refuses them.
pub fn load() -> Result<()> {
    let mut child = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("start nft")?;
    let mut input = child.stdin.take().context("nft has no input")?;
    input.write_all(RULES.as_bytes())?;
    drop(input);
    ensure!(child.wait()?.success(), "nft refuses its own rules");
    Ok(())
}

/// Lists them, handles included, in the calling thread's network namespace.
///
/// # Errors
/// When one is gone.
pub fn listing() -> Result<String> {
    let mut text = String::new();
    for [family, table] in TABLES {
        let output = Command::new("nft")
            .args(["-a", "list", "table", family, table])
            .output()
            .context("start nft")?;
        ensure!(
            output.status.success(),
            "{family} {table}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        text.push_str(&String::from_utf8(output.stdout)?);
    }
    Ok(text)
}
