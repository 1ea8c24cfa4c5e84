//! The process's rank for the kernel's out-of-memory killer.

use super::system::{self, System};

/// Sets `oom_score_adj`. Without the right to (`CAP_SYS_RESOURCE` makes a process less likely to be
/// killed) it is only logged, as kube-proxy does.
pub(super) fn adjust(system: &System, adjustment: i16) {
    let path = system.proc.join("self/oom_score_adj");
    let found = system::text(&path).and_then(|text| text.parse::<i16>().ok());
    if found == Some(adjustment) {
        return;
    }
    match system::write(&path, adjustment) {
        Ok(()) => tracing::debug!("oom_score_adj set to {adjustment}"),
        Err(error) => tracing::warn!("cannot set oom_score_adj to {adjustment}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn it_is_written_where_it_differs_and_failure_is_no_reason_to_stop() {
        let folder = tempfile::tempdir().unwrap();
        let system = System {
            proc: folder.path().to_owned(),
            sys: folder.path().to_owned(),
        };
        adjust(&system, -999);
        let file = folder.path().join("self/oom_score_adj");
        fs::create_dir(folder.path().join("self")).unwrap();
        fs::write(&file, "0\n").unwrap();
        adjust(&system, -999);
        assert_eq!(fs::read_to_string(&file).unwrap().trim(), "-999");
    }
}
