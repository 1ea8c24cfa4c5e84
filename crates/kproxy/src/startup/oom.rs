//! The process's rank for the kernel's out-of-memory killer.

use std::io;

use super::system::{self, System};

/// Sets `oom_score_adj`, if it is another.
///
/// # Errors
/// EACCES without the right to: `CAP_SYS_RESOURCE` makes a process less likely to be killed.
pub(super) fn adjust(system: &System, adjustment: i16) -> io::Result<()> {
    let path = system.proc.join("self/oom_score_adj");
    let found = system::text(&path).and_then(|text| text.parse::<i16>().ok());
    if found == Some(adjustment) {
        return Ok(());
    }
    system::write(&path, adjustment)?;
    tracing::debug!("oom_score_adj set to {adjustment}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_written_where_it_differs() {
        let folder = tempfile::tempdir().unwrap();
        let system = System {
            proc: folder.path().to_owned(),
            sys: folder.path().to_owned(),
        };
        assert!(adjust(&system, -999).is_err());
        let file = folder.path().join("self/oom_score_adj");
        fs::create_dir(folder.path().join("self")).unwrap();
        fs::write(&file, "0\n").unwrap();
        adjust(&system, -999).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), "-999");
    }
}
