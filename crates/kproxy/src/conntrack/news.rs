//! What was told and not yet taken, coalesced: as much as there are frontends, not as changes.

use core::net::{IpAddr, SocketAddr};

use foldhash::{HashMap, HashSet};
use svc_planner::flows::{FlowChanges, Frontend, Served};

/// What is new.
#[derive(Debug, Default)]
pub(super) struct News {
    pub(super) frontends: HashMap<Frontend, Note>,
    pub(super) appeared: HashSet<Frontend>,
    pub(super) node_ports: Option<Vec<IpAddr>>,
}

/// What is new about one frontend.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Note {
    /// Who serves it; `None` if it is none any more.
    pub(super) serving: Option<Served>,
    /// Who served it before it went.
    pub(super) former: Vec<SocketAddr>,
}

impl News {
    pub(super) fn is_empty(&self) -> bool {
        self.frontends.is_empty() && self.appeared.is_empty() && self.node_ports.is_none()
    }

    /// Takes in what came later.
    pub(super) fn add(&mut self, changes: FlowChanges) {
        // Before what serves: a frontend that is in both lists is served.
        for (frontend, endpoints) in changes.gone {
            let note = self.frontends.entry(frontend).or_default();
            if let Some(served) = note.serving.take() {
                note.former.extend_from_slice(&served.by);
            }
            note.former.extend(endpoints);
            self.appeared.remove(&frontend);
        }
        for (frontend, served) in changes.serving {
            self.frontends.entry(frontend).or_default().serving = Some(served);
        }
        self.appeared.extend(changes.appeared);
        if changes.node_ports.is_some() {
            self.node_ports = changes.node_ports;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use svc_planner::object::Protocol;

    const DNS: Frontend = Frontend {
        address: None,
        protocol: Protocol::Udp,
        port: 30_053,
    };

    fn by(last: u8) -> Served {
        Served {
            by: [socket(last)].into(),
            at_cluster_ip: false,
        }
    }

    fn socket(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 53))
    }

    #[test]
    fn who_served_until_it_went_is_remembered() {
        let mut news = News::default();
        assert!(news.is_empty());
        news.add(FlowChanges {
            serving: vec![(DNS, by(1))],
            ..FlowChanges::default()
        });
        news.add(FlowChanges {
            gone: vec![(DNS, vec![socket(2)])],
            ..FlowChanges::default()
        });
        let former = vec![socket(1), socket(2)];
        let gone = Note {
            serving: None,
            former,
        };
        assert_eq!(news.frontends[&DNS], gone);
        news.add(FlowChanges {
            serving: vec![(DNS, by(3))],
            node_ports: Some(vec![]),
            ..FlowChanges::default()
        });
        assert_eq!(news.frontends[&DNS].serving, Some(by(3)));
        assert_eq!(news.node_ports, Some(vec![]));
    }
}
