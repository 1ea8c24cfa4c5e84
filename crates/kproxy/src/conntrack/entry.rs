//! A connection as far as it matters here.

use core::net::SocketAddr;

use nl_codec::ct::{Conn, TcpState, Tuple};
use svc_planner::object::Protocol;

/// One entry of the conntrack table.
///
/// ```text
///                 from            to
/// original        client          frontend
/// reply           endpoint        client, or where its source was translated to
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Entry {
    /// Protocol.
    pub protocol: Protocol,
    /// Source of the original direction: the client.
    pub from: SocketAddr,
    /// Destination of the original direction: what the client asked for.
    pub to: SocketAddr,
    /// Source of the reply direction: who serves it. Translation of the source leaves it alone.
    pub served_by: SocketAddr,
    /// Destination of the reply direction: the client, or what its source was translated to.
    pub replies_to: SocketAddr,
    /// Of TCP, a SYN was sent, and nothing else seen.
    pub syn_sent: bool,
    /// In the zone all connections are in that no rule put elsewhere.
    pub default_zone: bool,
    /// By what it is deleted.
    pub(super) key: Key,
}

/// What tells one entry from all others, also from later ones with the same tuple.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Key {
    orig: Tuple,
    zone: Option<u16>,
    id: Option<u32>,
}

impl Entry {
    /// An entry of the default zone; for tests and tools.
    #[must_use]
    pub fn new(protocol: Protocol, [from, to]: [SocketAddr; 2], served_by: SocketAddr) -> Self {
        Self {
            protocol,
            from,
            to,
            served_by,
            replies_to: from,
            syn_sent: false,
            default_zone: true,
            key: Key::default(),
        }
    }

    /// Reduces a decoded connection; `None` if it is of another protocol, or something is missing.
    pub(super) fn of(conn: &Conn<'_>, protocol: Protocol) -> Option<Self> {
        let (orig, reply) = (conn.orig?, conn.reply?);
        let proto = orig.proto?;
        if proto.number? != protocol as u8 {
            return None;
        }
        let state = conn.proto_info.and_then(|info| info.tcp?.state);
        let zone = conn.zone.or(orig.zone).or(reply.zone);
        Some(Self {
            protocol,
            from: SocketAddr::new(orig.src()?, proto.src_port?),
            to: SocketAddr::new(orig.dst()?, proto.dst_port?),
            served_by: SocketAddr::new(reply.src()?, reply.proto?.src_port?),
            replies_to: SocketAddr::new(reply.dst()?, reply.proto?.dst_port?),
            syn_sent: state == Some(TcpState::SYN_SENT),
            default_zone: zone.unwrap_or(0) == 0,
            key: Key::of(conn)?,
        })
    }

    /// Whether its destination was left as it was.
    #[must_use]
    pub fn is_untranslated(&self) -> bool {
        self.served_by == self.to
    }

    /// Whether its source was left as well.
    pub(super) fn is_source_untranslated(&self) -> bool {
        self.replies_to == self.from
    }

    /// Of an entry without any translation, the key that one in the other direction would have.
    pub(super) fn reverse(&self) -> Option<Key> {
        Some(Key {
            orig: Tuple::new(self.protocol as u8, self.to, self.from)?,
            ..self.key
        })
    }
}

impl Key {
    /// Of a decoded connection, if it has a number.
    pub(super) fn of(conn: &Conn<'_>) -> Option<Self> {
        Some(Self {
            orig: conn.orig?,
            zone: conn.zone,
            // Without it a later connection with the same tuple might be meant.
            id: Some(conn.id?),
        })
    }

    /// Whether its original direction is the way back of the other's.
    pub(super) fn is_reverse_of(&self, other: &Self) -> bool {
        let ends = |tuple: &Tuple| {
            let ports = tuple.proto?;
            Some((
                ports.number?,
                SocketAddr::new(tuple.src()?, ports.src_port?),
                SocketAddr::new(tuple.dst()?, ports.dst_port?),
            ))
        };
        match (ends(&self.orig), ends(&other.orig)) {
            (Some((protocol, from, to)), Some(other)) => other == (protocol, to, from),
            _ => false,
        }
    }

    /// The request for the entry that packets of its original direction belong to by now.
    pub(super) fn successor(&self) -> Conn<'static> {
        let mut conn = Conn::with_orig(self.orig);
        conn.zone = self.zone;
        conn
    }

    /// The request that deletes it.
    pub(super) fn conn(&self) -> Conn<'static> {
        let mut conn = Conn::with_orig(self.orig);
        (conn.zone, conn.id) = (self.zone, self.id);
        conn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn conn() -> Conn<'static> {
        let address = |text: &str| -> SocketAddr { text.parse().unwrap() };
        let tuple = |from, to| Tuple::new(17, address(from), address(to));
        // Masqueraded: the reply goes to the node.
        let mut conn = Conn::with_orig(tuple("10.0.0.9:4000", "10.96.0.10:53").unwrap());
        conn.reply = tuple("10.0.1.1:5353", "192.168.0.2:61000");
        conn.id = Some(7);
        conn
    }

    #[test]
    fn the_reply_direction_says_who_serves() {
        let entry = Entry::of(&conn(), Protocol::Udp).unwrap();
        let to: SocketAddr = "10.96.0.10:53".parse().unwrap();
        assert_eq!(
            (entry.to, entry.served_by),
            (to, "10.0.1.1:5353".parse().unwrap())
        );
        assert!(entry.default_zone && !entry.syn_sent && !entry.is_untranslated());
        let request = entry.key.conn();
        assert_eq!(
            (request.orig, request.reply, request.id),
            (conn().orig, None, Some(7))
        );
    }

    #[test]
    fn the_way_back_is_recognised() {
        let key = Entry::of(&conn(), Protocol::Udp).unwrap().key;
        let mut back = key;
        back.orig = Tuple::new(
            17,
            "10.96.0.10:53".parse().unwrap(),
            "10.0.0.9:4000".parse().unwrap(),
        )
        .unwrap();
        assert!(back.is_reverse_of(&key) && key.is_reverse_of(&back));
        assert!(!key.is_reverse_of(&key));
        back.orig.proto.get_or_insert_default().number = Some(6);
        assert!(!back.is_reverse_of(&key));
        assert!(!Key::default().is_reverse_of(&key));
        assert_eq!(key.successor().id, None);
    }

    #[test]
    fn other_protocols_and_entries_without_an_id_are_left_alone() {
        assert_eq!(Entry::of(&conn(), Protocol::Tcp), None);
        let mut without_id = conn();
        without_id.id = None;
        assert_eq!(Entry::of(&without_id, Protocol::Udp), None);
    }

    #[test]
    fn zones_are_told_apart_in_one_direction_and_in_both() {
        for zone in [Some(0), Some(3)] {
            let mut both = conn();
            both.zone = zone;
            let entry = Entry::of(&both, Protocol::Udp).unwrap();
            assert_eq!(entry.default_zone, zone == Some(0));
            assert_eq!(entry.key.conn().zone, zone);
        }
        let mut one = conn();
        if let Some(reply) = &mut one.reply {
            reply.zone = Some(3);
        }
        assert!(!Entry::of(&one, Protocol::Udp).unwrap().default_zone);
    }
}
