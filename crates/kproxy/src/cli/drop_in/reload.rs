//! Follows the configuration file while the proxy runs.
//!
//! | what changed | what happens |
//! |---|---|
//! | nothing that means anything | nothing |
//! | `logging` alone | it is logged otherwise from then on |
//! | `conntrack`, `oomScoreAdj` | they are set; if there is something else to warn of, it begins anew, for the Event |
//! | anything else | the proxy begins anew inside the process; the rules stay, so no packet notices |
//! | it cannot be read, or is wrong, or names a kubeconfig that is | the error is logged, and all stays as it was |
//!
//! What needs privileges that were given up (a setting that only they can make, credentials that come from
//! a program) ends the process with exit code 0, to be started again.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::Path;

use super::{Own, SourceSpec};
use crate::cli::CliError;
use crate::config::{Complete, Configz, Given};
use crate::leftovers;
use crate::logging::Logs;
use crate::node::{NodeError, Order, Orders, Settings};
use crate::startup;
use crate::watch::{FileWatch, Signals, wait};

/// Orders by signals and by the file.
#[derive(Debug)]
pub(super) struct Reload {
    signals: Signals,
    watch: Option<FileWatch>,
    given: Given,
    own: Own,
    /// What counts.
    complete: Complete,
    /// Why what the file says now does not.
    refused: Option<String>,
    /// Whether no program can be started any more.
    filtered: bool,
    logs: Logs,
    shown: Configz,
    /// What could not be set up for what counts.
    warnings: Vec<startup::Warning>,
}

impl Reload {
    /// Follows the file that was given, if one was; `filtered` says whether system calls are, so that no program
    /// can be started any more, and `warnings` what could not be set up.
    ///
    /// # Errors
    /// [`CliError::File`] for a file that cannot be watched.
    pub(super) fn new(
        signals: Signals,
        given: Given,
        own: Own,
        complete: Complete,
        logs: Logs,
        filtered: bool,
        warnings: Vec<startup::Warning>,
    ) -> Result<Self, CliError> {
        let watched = |file: &Path| {
            FileWatch::new(file).map_err(|error| CliError::File {
                file: file.to_owned(),
                error,
            })
        };
        let watch = given.file().map(watched).transpose()?;
        let mut reload = Self {
            signals,
            watch,
            given,
            own,
            complete,
            refused: None,
            filtered,
            logs,
            shown: Configz::default(),
            warnings,
        };
        reload.shown.show(&reload.complete.config);
        // It may have changed before it was watched.
        let _ = reload.read();
        Ok(reload)
    }

    /// What the proxy is told now.
    pub(super) fn settings(&self) -> Settings {
        let master = self.given.text("master");
        Settings {
            warnings: self.warnings.clone(),
            ..self.own.settings(&self.complete, master, &self.shown)
        }
    }

    /// Reads the file again; an order if the proxy is to begin anew.
    fn read(&mut self) -> Option<Order> {
        let file = self.given.file()?.display().to_string();
        let new = match self.usable() {
            Ok(new) => new,
            Err(error) => {
                let refused = Some(error.to_string());
                if self.refused != refused {
                    tracing::error!(err = %error, "{file}: changed, and cannot be used: what it said before counts");
                    self.refused = refused;
                }
                return None;
            }
        };
        let was_refused = self.refused.take().is_some();
        if new == self.complete {
            if was_refused {
                tracing::info!("{file}: says again what counts");
            } else {
                tracing::debug!("{file}: nothing changed");
            }
            return None;
        }
        let before = self.settings();
        self.logs.change(new.config.logging.clone());
        super::tell(&new);
        let told = self.complete.config.differences();
        for difference in new.config.differences() {
            if !told.contains(&difference) {
                tracing::warn!("{difference}");
            }
        }
        let base = leftovers::Options::default();
        let [old, wanted] = [&self.complete, &new].map(|it| it.config.leftovers(base.clone()));
        if old.exclude != wanted.exclude {
            tracing::warn!("ipvs.excludeCIDRs changed: it counts when the process starts again");
        }
        if let Err(error) = self.set_up(&new) {
            tracing::error!(
                err = %error,
                "{file}: changed, which needs privileges that were given up: ends, to be started again"
            );
            return Some(Order::End);
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

    /// What flags and file say now, if the proxy can begin with it.
    fn usable(&self) -> Result<Complete, CliError> {
        let new = self.given.complete(self.own.strict_config)?;
        if self.own.source == SourceSpec::Api {
            let connection = new.config.connection(self.given.text("master"));
            connection.check().map_err(NodeError::Api)?;
        }
        Ok(new)
    }

    /// Does what is done once at the start, where it changed.
    fn set_up(&mut self, new: &Complete) -> Result<(), Box<dyn core::error::Error>> {
        let (before, after) = (&self.complete.config, &new.config);
        if self.filtered
            && after.client_connection.kubeconfig != before.client_connection.kubeconfig
        {
            let connection = after.connection(None);
            if connection.starts_programs() {
                return Err("credentials come from a program, and none can be started".into());
            }
        }
        let (before, after) = (before.startup(), after.startup());
        if after.conntrack != before.conntrack {
            let netns = self.own.target.netns();
            self.warnings = startup::set_conntrack(&netns, &after.conntrack)?;
            super::warn(&self.warnings);
        }
        if let Some(adjustment) = after.oom_score_adj
            && after.oom_score_adj != before.oom_score_adj
        {
            startup::adjust_oom_score(adjustment)?;
        }
        Ok(())
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
            if changed
                && watch.drain()?
                && let Some(order) = self.read()
            {
                return Ok(Some(order));
            }
        }
    }
}
