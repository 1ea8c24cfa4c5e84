//! What explanations are made of.

use svc_planner::fake::{Host, Kernel};
use svc_planner::plan::Key;
use svc_planner::report::{PortName, Report};

use super::{Objects, StateSource, Target};

/// What an explanation rests on.
#[derive(Clone, Copy)]
pub struct Known<'a> {
    /// Rules and rows.
    pub kernel: &'a Kernel,
    /// Where they come from.
    pub state: StateSource,
    /// Addresses of this host.
    pub host: &'a Host,
    /// Name of the own Node.
    pub node_name: &'a str,
    /// Services and endpoints; empty if there are no manifests.
    pub objects: &'a Objects,
    /// Whose a row is.
    pub owner: &'a dyn Fn(&Key) -> Option<PortName>,
    /// Service ports that are not, or not fully, served.
    pub reports: &'a [Report],
}

/// What a destination stands for.
#[derive(Debug)]
pub(super) struct Hit {
    pub(super) owner: Option<PortName>,
    pub(super) target: Target,
}
