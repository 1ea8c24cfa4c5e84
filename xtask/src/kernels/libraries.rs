//! What programs are loaded with.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A library that a program is loaded with.
pub(super) struct Library {
    /// By which the program asks for it; the loader is `ld.so`.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// The libraries that a program needs, by ldd(1), its loader among them; none if it is static or no
/// program.
pub(super) fn loaded_by(program: &Path) -> Result<Vec<Library>> {
    let bytes = std::fs::read(program).with_context(|| program.display().to_string())?;
    if needs_loader(&bytes) != Some(true) {
        return Ok(Vec::new());
    }
    let shown = Command::new("ldd").arg(program).output().context("ldd")?;
    ensure!(shown.status.success(), "ldd {}", program.display());
    Ok(String::from_utf8_lossy(&shown.stdout)
        .lines()
        .filter_map(library)
        .collect())
}

/// One of a line: `libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x…)` or
/// `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn library(line: &str) -> Option<Library> {
    let words: Vec<_> = line.split_whitespace().collect();
    let (name, path) = match *words.as_slice() {
        [name, "=>", path, _] => (name, path),
        [path, _] if path.starts_with('/') => ("ld.so", path),
        _ => return None,
    };
    Some(Library {
        name: name.to_owned(),
        path: path.into(),
    })
}

/// Whether a 64-bit ELF file names an interpreter (`PT_INTERP`, elf(5)); `None` if it is none.
pub(super) fn needs_loader(elf: &[u8]) -> Option<bool> {
    const PT_INTERP: u32 = 3;
    let half = |at: usize| {
        let bytes = elf.get(at..at + 2)?.try_into().ok()?;
        Some(usize::from(u16::from_le_bytes(bytes)))
    };
    if !elf.starts_with(b"\x7fELF\x02") {
        return None;
    }
    let table = u64::from_le_bytes(elf.get(32..40)?.try_into().ok()?);
    let (size, count) = (half(54)?, half(56)?);
    let mut headers = elf
        .get(usize::try_from(table).ok()?..)?
        .chunks(size.max(4))
        .take(count);
    Some(headers.any(|header| header.starts_with(&PT_INTERP.to_le_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_loader_are_found() {
        let found = |line: &str| library(line).map(|it| (it.name, it.path));
        let libc = "/lib/x86_64-linux-gnu/libc.so.6";
        assert_eq!(
            found(&format!("\tlibc.so.6 => {libc} (0x00007f)")),
            Some(("libc.so.6".to_owned(), libc.into()))
        );
        let loader = "/lib64/ld-linux-x86-64.so.2";
        assert_eq!(
            found(&format!("\t{loader} (0x00007f)")),
            Some(("ld.so".to_owned(), loader.into()))
        );
        assert_eq!(found("\tlinux-vdso.so.1 (0x00007f)"), None);
    }
}
