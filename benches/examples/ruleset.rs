//! Prints a cluster as nft input (`-- N M`) or as a JSON List (`-- N M json`).

use std::io::{BufWriter, Write};

use benches::cluster::Cluster;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| {
        arguments
            .get(at)
            .and_then(|word| word.parse().ok())
            .unwrap_or(1)
    };
    let cluster = Cluster {
        services: number(0),
        endpoints: number(1),
    };
    let mut out = BufWriter::new(std::io::stdout().lock());
    match arguments.get(2).map(String::as_str) {
        Some("json") => cluster.write_json(&mut out)?,
        _ => benches::ruleset::write(cluster, &mut out)?,
    }
    out.flush()
}
