//! Headless Chromium, which draws pages in the network namespace of the calling thread.
#![allow(dead_code, reason = "each test file uses its own part")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "in tests a panic is a verdict"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Width and height of a phone's screen.
pub(crate) const PHONE: (u32, u32) = (390, 844);
/// And of one on a desk.
pub(crate) const DESK: (u32, u32) = (1280, 900);

/// See the module.
pub(crate) struct Browser {
    program: &'static str,
    profile: PathBuf,
    /// Where pictures are kept.
    folder: PathBuf,
}

impl Browser {
    /// Its profile is in `folder`, and so are its pictures, if `KPROXY_SCREENSHOTS` does not say where
    /// they are kept. `None` if there is no browser.
    pub(crate) fn find(folder: &Path) -> Option<Self> {
        let program = ["chromium", "chromium-browser", "google-chrome"]
            .into_iter()
            .find(|name| Command::new(name).arg("--version").output().is_ok())?;
        let kept = std::env::var_os("KPROXY_SCREENSHOTS");
        Some(Self {
            program,
            profile: folder.join("browser"),
            folder: kept.map_or_else(|| folder.to_owned(), PathBuf::from),
        })
    }

    /// Draws a page on a screen of this size; it is not empty.
    pub(crate) fn draw(&self, name: &str, url: &str, (width, height): (u32, u32), dark: bool) {
        let scheme = if dark { "dark" } else { "light" };
        let file = self.folder.join(format!("{name}-{width}-{scheme}.png"));
        let mut chromium = Command::new(self.program);
        chromium
            .args([
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--hide-scrollbars",
            ])
            .arg(format!("--user-data-dir={}", self.profile.display()))
            .arg(format!("--window-size={width},{height}"))
            .arg(format!("--screenshot={}", file.display()));
        if dark {
            chromium.arg("--blink-settings=preferredColorScheme=0");
        }
        let output = chromium.arg(url).output().unwrap();
        let picture = fs::read(&file).unwrap_or_else(|_| panic!("{output:?}"));
        // PNG: width and height follow the first chunk's name.
        assert!(picture.starts_with(b"\x89PNG"), "{output:?}");
        let number = |at: usize| u32::from_be_bytes(picture[at..at + 4].try_into().unwrap());
        assert_eq!((number(16), number(20)), (width, height));
        // An empty page packs into far less.
        assert!(picture.len() > 8_000, "{name}: {} bytes", picture.len());
    }
}
