//! Whether the folder for state can be written.

use std::path::Path;

use rustix::fs::{Access, access};

use super::{Check, Finding, Level, finding};

pub(super) fn look(folder: &Path) -> Finding {
    // It is made when it is needed: what counts is where.
    let existing = folder.ancestors().find(|it| it.exists());
    let existing = existing.unwrap_or_else(|| Path::new("/"));
    let writable = if existing.is_dir() {
        access(existing, Access::WRITE_OK | Access::EXEC_OK)
    } else {
        Err(rustix::io::Errno::NOTDIR)
    };
    match writable {
        Ok(()) => finding(
            Check::StateDir,
            Level::Ok,
            format!("{} can be written", folder.display()),
        ),
        Err(error) => finding(
            Check::StateDir,
            Level::Problem,
            format!(
                "{}: {error}: every start programs everything anew",
                existing.display()
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_to_be_made_are_fine_and_files_are_not() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(look(&folder.path().join("a/b")).level, Level::Ok);
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert_eq!(look(&file).level, Level::Problem);
        assert_eq!(look(&file.join("below")).level, Level::Problem);
    }
}
