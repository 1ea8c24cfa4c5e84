//! From what is wanted and what the kernel holds to transactions.

mod classes;
pub(crate) mod draft;
mod firewall;
mod flows;
pub(crate) mod growth;
mod port;
mod retire;
mod rows;
mod slots;
mod sticky;
mod table;
pub(crate) mod takeover;

use self::draft::Draft;
use crate::config::Config;
use crate::kernel::Kernel;
use crate::model::Model;
use crate::policy::endpoint_selection::Selection;

/// One transaction at work.
#[derive(Debug)]
pub(crate) struct Work<'a> {
    pub(crate) model: &'a mut Model,
    pub(crate) kernel: &'a mut Kernel,
    pub(crate) draft: &'a mut Draft,
    pub(crate) selection: &'a mut Selection,
    pub(crate) placement: &'a mut Placement,
    pub(crate) config: &'a Config,
    /// Time in ticks.
    pub(crate) now: u64,
    /// [`Config::hold`] in ticks.
    pub(crate) hold: u64,
    /// Packets go through the table already.
    pub(crate) in_force: bool,
}

pub(crate) use classes::{class_key, row_set};
pub(crate) use port::Planned;
pub(crate) use slots::Placement;
