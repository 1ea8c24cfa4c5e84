//! The kernel itself out of a bzImage: unpacked here rather than by the guest, which is emulated.

use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// First bytes of what a kernel may be compressed with, and the program that undoes it.
const COMPRESSIONS: [(&[u8], &str); 4] = [
    (b"\xfd7zXZ", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"\x1f\x8b", "gzip"),
    (b"\x02!L\x18", "lz4"),
];

/// The ELF file in `image` (Documentation/arch/x86/boot.rst).
pub(super) fn extract(image: &[u8]) -> Result<Vec<u8>> {
    let sectors = *image.get(0x1f1).context("too short")?;
    let sectors = if sectors == 0 {
        4
    } else {
        usize::from(sectors)
    };
    let start = (sectors + 1) * 512 + word(image, 0x248)?;
    let end = start + word(image, 0x24c)?;
    let payload = image.get(start..end).context("payload is cut short")?;
    for (magic, program) in COMPRESSIONS {
        if payload.starts_with(magic) {
            let kernel = through(program, payload)?;
            if kernel.starts_with(b"\x7fELF") {
                return Ok(kernel);
            }
        }
    }
    bail!("compressed in an unknown way")
}

fn word(image: &[u8], at: usize) -> Result<usize> {
    let bytes = image.get(at..at + 4).context("no boot header")?;
    let number = u32::from_le_bytes(bytes.try_into()?);
    Ok(usize::try_from(number)?)
}

/// What `PROGRAM -dc` makes of it. What follows the compressed data (the kernel's length) makes some
/// of them complain; the output tells.
pub(super) fn through(program: &str, data: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(program)
        .arg("-dc")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| program.to_owned())?;
    let mut stdin = child.stdin.take().context("no standard input")?;
    let output = std::thread::scope(|scope| {
        // It may stop reading at the end of the compressed data.
        scope.spawn(move || drop(stdin.write_all(data)));
        child.wait_with_output()
    });
    let output = output.with_context(|| program.to_owned())?;
    if output.stdout.is_empty() {
        bail!("{program}: {}", output.status);
    }
    Ok(output.stdout)
}
