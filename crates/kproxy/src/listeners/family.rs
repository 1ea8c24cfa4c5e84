//! One family's listeners, brought in line with what is told.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use svc_planner::listeners::{HealthCheck, ListenOn, ListenerChanges, LocalhostPort};
use svc_planner::object::{ObjectName, Uid};
use svc_planner::plan::Family;

use super::connections::Most;
use super::health::Answers;
use super::http;
use super::localhost::NodePort;
use super::socket::Wildcard;
use super::task::{Context, Failure, Plan, Task};

/// Most connections at a time to one node port at a loopback address: each takes two file
/// descriptors.
const MOST_CONNECTIONS: Most = Most::Wait(4096);

/// See the module.
#[derive(Debug)]
pub(super) struct Listening {
    family: Family,
    context: Arc<Context>,
    /// Where health checks are answered.
    addresses: Vec<IpAddr>,
    health: BTreeMap<ObjectName, Health>,
    localhost: BTreeMap<u16, Localhost>,
}

/// A Service's health check.
#[derive(Debug)]
struct Health {
    port: u16,
    uid: Option<Uid>,
    answers: Arc<Answers>,
    tasks: BTreeMap<IpAddr, Task>,
}

/// A node port at the loopback address.
#[derive(Debug)]
struct Localhost {
    node_port: Arc<NodePort>,
    task: Task,
}

impl Listening {
    pub(super) fn new(family: Family, context: &Arc<Context>) -> Self {
        Self {
            family,
            context: Arc::clone(context),
            addresses: Vec::new(),
            health: BTreeMap::new(),
            localhost: BTreeMap::new(),
        }
    }

    /// First everything is closed that is to be closed: others may want the ports.
    pub(super) async fn apply(&mut self, changes: &ListenerChanges) {
        if let Some(addresses) = &changes.addresses {
            self.addresses = match addresses {
                ListenOn::All => vec![wildcard(self.family)],
                ListenOn::Listed(listed) => listed.clone(),
            };
            self.leave_addresses().await;
        }
        for (service, check) in &changes.health {
            self.close_health(service, check.as_ref()).await;
        }
        for (number, port) in &changes.localhost {
            if port.is_none()
                && let Some(closed) = self.localhost.remove(number)
            {
                closed.task.close().await;
            }
        }
        for (service, check) in &changes.health {
            if let Some(check) = check {
                self.set_health(service, check);
            }
        }
        for health in self.health.values_mut() {
            health.open(&self.addresses, &self.context);
        }
        for (number, port) in &changes.localhost {
            if let Some(port) = port {
                self.set_localhost(*number, port);
            }
        }
        let counted = self.context.counters.localhost(self.family);
        let listeners = u64::try_from(self.localhost.len()).unwrap_or(u64::MAX);
        counted.listeners.store(listeners, Ordering::Relaxed);
    }

    async fn leave_addresses(&mut self) {
        for health in self.health.values_mut() {
            for (address, task) in core::mem::take(&mut health.tasks) {
                if self.addresses.contains(&address) {
                    health.tasks.insert(address, task);
                } else {
                    task.close().await;
                }
            }
        }
    }

    /// Closes what is no more, or listens on another port.
    async fn close_health(&mut self, service: &ObjectName, check: Option<&HealthCheck>) {
        let port = check.map(|check| check.port);
        let stays = |health: &Health| Some(health.port) == port;
        if self.health.get(service).is_none_or(stays) {
            return;
        }
        if let Some(closed) = self.health.remove(service) {
            for task in closed.tasks.into_values() {
                task.close().await;
            }
        }
    }

    fn set_health(&mut self, service: &ObjectName, check: &HealthCheck) {
        if let Some(health) = self.health.get(service) {
            return health.answers.set(check.local_endpoints);
        }
        let context = Arc::clone(&self.context);
        let answers = Answers::new(service.clone(), check.local_endpoints, context);
        let health = Health {
            port: check.port,
            uid: check.uid,
            answers: Arc::new(answers),
            tasks: BTreeMap::new(),
        };
        self.health.insert(service.clone(), health);
    }

    fn set_localhost(&mut self, number: u16, port: &LocalhostPort) {
        if let Some(localhost) = self.localhost.get(&number) {
            return localhost.node_port.set(port);
        }
        let node_port = NodePort::new(self.family, port, Arc::clone(&self.context));
        let node_port = Arc::new(node_port);
        let plan = Plan {
            address: SocketAddr::new(loopback(self.family), number),
            wildcard: Wildcard::Family,
            what: format!("node port {number} of Service {}", port.port),
            most: MOST_CONNECTIONS,
            context: Arc::clone(&self.context),
            failure: Failure::Silent,
            failures: match self.family {
                Family::Ipv4 => |counters| &counters.localhost(Family::Ipv4).bind_failures,
                Family::Ipv6 => |counters| &counters.localhost(Family::Ipv6).bind_failures,
            },
        };
        let served = Arc::clone(&node_port);
        let task = Task::spawn(plan, move |client| Arc::clone(&served).serve(client));
        self.localhost.insert(number, Localhost { node_port, task });
    }
}

impl Health {
    /// Listens on the addresses on which it does not yet.
    fn open(&mut self, addresses: &[IpAddr], context: &Arc<Context>) {
        for address in addresses {
            if self.tasks.contains_key(address) {
                continue;
            }
            let plan = Plan {
                address: SocketAddr::new(*address, self.port),
                wildcard: Wildcard::Family,
                what: self.answers.what(),
                most: http::MOST,
                context: Arc::clone(context),
                failure: Failure::HealthCheck(self.answers.service().clone(), self.uid),
                failures: |counters| &counters.health_bind_failures,
            };
            let answers = Arc::clone(&self.answers);
            let task = Task::spawn(plan, move |asking| Arc::clone(&answers).serve(asking));
            self.tasks.insert(*address, task);
        }
    }
}

const fn wildcard(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    }
}

const fn loopback(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => IpAddr::V4(Ipv4Addr::LOCALHOST),
        Family::Ipv6 => IpAddr::V6(Ipv6Addr::LOCALHOST),
    }
}
