//! Follows the configuration file while the proxy runs.
//!
//! | what changed | what happens |
//! |---|---|
//! | nothing that means anything | nothing |
//! | `logging` alone | it is logged otherwise from then on |
//! | `conntrack`, `oomScoreAdj` | they are set; if that needs privileges that were given up, the process ends, with exit code 0, to be started again |
//! | anything else | the proxy begins anew inside the process; the rules stay, so no packet notices |
//! | it cannot be read, or is wrong | the error is logged, and all stays as it was |

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};

use super::Own;
use crate::cli::CliError;
use crate::config::{Complete, Configz, Given};
use crate::logging::Logs;
use crate::node::{Order, Orders, Settings};
use crate::startup;
use crate::watch::{FolderWatch, Signals, wait};

/// Orders by signals and by the file.
#[derive(Debug)]
pub(super) struct Reload {
    signals: Signals,
    /// The file's folder: it may be replaced, and so may what a link leads to.
    watch: Option<FolderWatch>,
    given: Given,
    own: Own,
    complete: Complete,
    logs: Logs,
    shown: Configz,
}

impl Reload {
    /// Follows the file that was given, if one was.
    ///
    /// # Errors
    /// [`CliError::File`] for a folder that cannot be watched.
    pub(super) fn new(
        signals: Signals,
        given: Given,
        own: Own,
        complete: Complete,
        logs: Logs,
    ) -> Result<Self, CliError> {
        let watch = match given.file() {
            None => None,
            Some(file) => {
                let folder = folder_of(file);
                let watch = FolderWatch::new(&folder);
                Some(watch.map_err(|error| CliError::File {
                    file: folder,
                    error,
                })?)
            }
        };
        let mut reload = Self {
            signals,
            watch,
            given,
            own,
            complete,
            logs,
            shown: Configz::default(),
        };
        reload.shown.show(&reload.complete.config);
        // It may have changed before it was watched.
        let _ = reload.read();
        Ok(reload)
    }

    /// What the proxy is told now.
    pub(super) fn settings(&self) -> Settings {
        let master = self.given.text("master");
        self.own.settings(&self.complete, master, &self.shown)
    }

    /// Reads the file again; an order if the proxy is to begin anew.
    fn read(&mut self) -> Option<Order> {
        let file = self.given.file()?.display().to_string();
        let new = match self.given.complete(self.own.strict_config) {
            Ok(new) => new,
            Err(error) => {
                tracing::error!(err = %error, "{file}: changed, and cannot be used: what it said before counts");
                return None;
            }
        };
        if new == self.complete {
            tracing::debug!("{file}: nothing changed");
            return None;
        }
        let before = self.settings();
        self.logs.change(new.config.logging.clone());
        super::tell(&new);
        if new.config.startup() != self.complete.config.startup() {
            match startup::initialize(&before.netns, &new.config.startup()) {
                Ok(warnings) => super::warn(warnings),
                Err(error) => {
                    tracing::error!(
                        err = %error,
                        "{file}: changed, which needs privileges that were given up: ends, to be started again"
                    );
                    return Some(Order::End);
                }
            }
        }
        self.shown.show(&new.config);
        self.complete = new;
        if self.settings() == before {
            tracing::info!("{file}: changed; in force now");
            return None;
        }
        tracing::info!("{file}: changed");
        Some(Order::Restart)
    }
}

impl Orders for Reload {
    fn next(&mut self, stop: BorrowedFd<'_>) -> io::Result<Option<Order>> {
        loop {
            let Some(watch) = &mut self.watch else {
                return self.signals.next(stop);
            };
            let [changed, asked, stopped] =
                wait([watch.as_fd(), self.signals.as_fd(), stop], None)?;
            if asked {
                return Ok(Some(Order::End));
            }
            if stopped {
                return Ok(None);
            }
            if !changed {
                continue;
            }
            let changes = watch.drain()?;
            let name = self.given.file().and_then(Path::file_name).map(Path::new);
            let is_ours = |name: &Path| changes.names.contains(name);
            if !changes.gone
                && (changes.all || name.is_some_and(is_ours))
                && let Some(order) = self.read()
            {
                return Ok(Some(order));
            }
        }
    }
}

fn folder_of(file: &Path) -> PathBuf {
    match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}
